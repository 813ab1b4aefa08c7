"""Several GPUs or machines: PyTorch DDP through Lightning Fabric, started by torchrun; one process needs neither.

Every process takes its part of each global batch, and gradients are averaged, so the trajectory is that of one process
at the same global batch, but for batch statistics (each process's own; running statistics are averaged after every
epoch), dropout noise and the partners of mixed images.
"""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from subspan.backbones.network import Network
from subspan.train.device import find_device
from subspan.train.seeds import derive_seed
from subspan.train.step import Execution, Share


class Processes:
    """This process among its fellows; with one process all verbs do nothing."""

    def __init__(self, device: torch.device, fabric: Any = None) -> None:
        self.device, self._fabric = device, fabric
        self.share = Share() if fabric is None else Share(fabric.global_rank, fabric.world_size)

    @classmethod
    def start(cls, device_name: str) -> "Processes":
        """Join the processes that torchrun started, or be the only one."""
        alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
        return cls(find_device(device_name)) if alone else cls(*_launch(device_name))

    @property
    def first(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.share.rank == 0

    @property
    def device_name(self) -> str:
        """For the records."""
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "CPU"
        return name if self.share.processes == 1 else f"{self.share.processes} x {name}"

    def execution(self, asked: Execution) -> Execution:
        """DDP's communication is left out of CUDA graphs: several GPUs run compiled."""
        if self._fabric is None:
            return asked
        if asked == "graph":
            raise ValueError(f"execution 'graph' is for one process, there are {self.share.processes}")
        return ("compiled" if self.device.type == "cuda" else "eager") if asked == "auto" else asked

    def wrap(self, network: Network, seed: int) -> tuple[nn.Module | None, Callable[[Tensor], None] | None]:
        """What maps images to logits and how to go backward through it; None, None in one process."""
        if self._fabric is None:
            return None, None
        network.reseed(derive_seed(seed, "noise", self.share.rank))
        return self._fabric.setup_module(network), self._fabric.backward

    def share_statistics(self, network: nn.Module) -> None:
        """Average floating-point buffers (running batch statistics) over the processes."""
        if self._fabric is None:
            return
        for buffer in network.buffers():
            if buffer.is_floating_point():
                buffer.copy_(self._fabric.all_reduce(buffer, reduce_op="mean"))

    def sums(self, *values: float) -> tuple[float, ...]:
        """Sums of numbers over the processes."""
        if self._fabric is None:
            return values
        total = self._fabric.all_reduce(torch.tensor(values, dtype=torch.float64, device=self.device), reduce_op="sum")
        return tuple(total.tolist())


def _launch(device_name: str) -> tuple[torch.device, Any]:
    try:
        from lightning.fabric import Fabric
        from lightning.fabric.strategies import DDPStrategy
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(f"training over several processes needs subspan[train] (lightning): {error}") from error
    on_gpu = device_name.startswith("cuda") or (device_name == "auto" and torch.cuda.is_available())
    here = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    fabric = Fabric(
        accelerator="cuda" if on_gpu else "cpu",
        devices=here,
        num_nodes=int(os.environ["WORLD_SIZE"]) // here,
        strategy=DDPStrategy(broadcast_buffers=False),
        precision="32-true",  # the step sets its own
    )
    fabric.launch()
    return fabric.device, fabric
