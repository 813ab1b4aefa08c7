"""Where a training step finds its images: all of them on the device, or batches sent ahead from pinned host memory."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Residence = Literal["auto", "device", "host"]

_SLOTS = 3  # batches in flight between host and device
_SHARE_OF_FREE_MEMORY = 0.5  # data may take this much; training needs the rest


class ResidentImages:
    """All images on the device, uint8 (n, h, w, 3); a step gathers its own rows."""

    resident = True  # whether the store holds all images, or those of one step

    def __init__(self, images: Tensor) -> None:
        self.store = images

    def epoch(self, rows: NDArray[np.int64]) -> Iterator[None]:
        """Yield once per step, with its images in the store; ``rows`` (steps, b) index the images."""
        for _ in rows:
            yield


class StreamedImages:
    """Images in host memory; each step's batch is gathered by a thread and copied while earlier steps run."""

    resident = False

    def __init__(self, images: NDArray[np.uint8], batch: int, device: torch.device) -> None:
        self._images, self._device = images, device
        self._pinned = device.type == "cuda"
        shape = (batch, *images.shape[1:])
        self.store = torch.zeros(shape, dtype=torch.uint8, device=device)
        self._slots = [torch.zeros(shape, dtype=torch.uint8, pin_memory=self._pinned) for _ in range(_SLOTS)]
        self._copied = [torch.cuda.Event() for _ in range(_SLOTS)] if self._pinned else []

    def _gather(self, slot: int, rows: NDArray[np.int64]) -> int:
        if self._copied:
            self._copied[slot].synchronize()  # the last copy out of this slot
        np.take(self._images, rows, axis=0, out=self._slots[slot].numpy())
        return slot

    def epoch(self, rows: NDArray[np.int64]) -> Iterator[None]:
        """Before each yield, queue the copy of that step's batch on the current stream."""
        with ThreadPoolExecutor(max_workers=1) as worker:
            ahead: list[Future[int]] = []
            for step in range(min(_SLOTS, len(rows))):
                ahead.append(worker.submit(self._gather, step, rows[step]))
            for step in range(len(rows)):
                slot = ahead.pop(0).result()
                self.store.copy_(self._slots[slot], non_blocking=True)
                if self._copied:
                    self._copied[slot].record()
                if step + _SLOTS < len(rows):
                    ahead.append(worker.submit(self._gather, slot, rows[step + _SLOTS]))
                yield


Source = ResidentImages | StreamedImages


def fits_on_device(size: int, device: torch.device) -> bool:
    """Whether images, or maps, of so many bytes may stay on the device for the whole run."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return size <= _SHARE_OF_FREE_MEMORY * free


def place_images(images: NDArray[np.uint8], residence: Residence, device: torch.device) -> Tensor | None:
    """The images as a tensor on the device, or None where they shall be streamed."""
    if residence not in ("auto", "device", "host"):
        raise ValueError(f"images must reside on 'auto', 'device' or 'host', got {residence!r}")
    if residence == "host" or (residence == "auto" and not fits_on_device(images.nbytes, device)):
        return None
    return torch.from_numpy(np.ascontiguousarray(images)).to(device)
