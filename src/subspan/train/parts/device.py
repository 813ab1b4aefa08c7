"""Which device a name stands for, and several of them: PyTorch's distributed data parallel, started by torchrun.

Every process takes its part of each global batch, and gradients are averaged, so the trajectory is that of one process
at the same global batch, but for batch statistics (each process's own; running statistics are averaged after every
epoch), dropout noise and the partners of mixed images.
"""

import atexit
import os
from typing import Literal

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from subspan.backbones.network import Network
from subspan.backbones.parts.noise import derive_seed

Execution = Literal["auto", "graph", "compiled", "eager"]


def find_device(name: str) -> torch.device:
    """``auto`` is the first GPU where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be auto, cpu, cuda or cuda:N; got {name!r}")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {name!r} was asked for, but torch sees no CUDA device here")
    return device


class Processes:
    """This process among its fellows; with one process all verbs do nothing."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        several = distributed.is_available() and distributed.is_initialized()
        self.rank, self.count = (distributed.get_rank(), distributed.get_world_size()) if several else (0, 1)
        self.first = self.rank == 0  # it writes files and shows progress

    @classmethod
    def start(cls, device_name: str) -> "Processes":
        """Join the processes that torchrun started, or be the only one."""
        device = find_device(device_name)
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            if device.type == "cuda":
                device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
                torch.cuda.set_device(device)
            if not distributed.is_initialized():
                distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
                atexit.register(distributed.destroy_process_group)
        return cls(device)

    @property
    def device_name(self) -> str:
        """For the records."""
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "CPU"
        return name if self.count == 1 else f"{self.count} x {name}"

    def execution(self, asked: Execution) -> Execution:
        """How a step runs; DDP's communication is left out of CUDA graphs, so several GPUs run compiled."""
        chosen = ("graph" if self.device.type == "cuda" else "eager") if asked == "auto" else asked
        return "compiled" if chosen == "graph" and self.count > 1 else chosen

    def wrap(self, network: Network, seed: int) -> nn.Module:
        """What maps images to logits, and shares gradients where several processes train."""
        if self.count == 1:
            return network
        network.reseed(derive_seed(seed, "noise", self.rank))
        return DistributedDataParallel(network, broadcast_buffers=False)

    def share_statistics(self, network: nn.Module) -> None:
        """Average floating-point buffers (running batch statistics) over the processes."""
        for buffer in network.buffers() if self.count > 1 else ():
            if buffer.is_floating_point():
                distributed.all_reduce(buffer)
                buffer.div_(self.count)

    def sums(self, *values: float) -> tuple[float, ...]:
        """Sums of numbers over the processes."""
        if self.count == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(total)
        return tuple(total.tolist())
