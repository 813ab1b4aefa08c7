"""Which device a name stands for, and several of them: PyTorch DDP through Lightning Fabric, started by torchrun.

Every process takes its part of each global batch, and gradients are averaged, so the trajectory is that of one process
at the same global batch, but for batch statistics (each process's own; running statistics are averaged after every
epoch), dropout noise and the partners of mixed images.
"""

import os
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

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


def free_memory(device: torch.device) -> float:
    """Bytes that are free on a GPU; those of a CPU are not counted."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else float("inf")


class Processes:
    """This process among its fellows; with one process all verbs do nothing."""

    def __init__(self, device: torch.device, fabric: Any = None) -> None:
        self.device, self._fabric = device, fabric
        self.rank, self.count = (0, 1) if fabric is None else (fabric.global_rank, fabric.world_size)
        self.first = self.rank == 0  # it writes files and shows progress

    @classmethod
    def start(cls, device_name: str) -> "Processes":
        """Join the processes that torchrun started, or be the only one."""
        count = int(os.environ.get("WORLD_SIZE", "1"))
        if count == 1:
            return cls(find_device(device_name))
        try:
            from lightning.fabric import Fabric
            from lightning.fabric.strategies import DDPStrategy
        except (ImportError, RuntimeError) as error:
            raise RuntimeError(f"training over several processes needs subspan[train] (lightning): {error}") from error
        here = int(os.environ.get("LOCAL_WORLD_SIZE", count))
        fabric = Fabric(
            accelerator=find_device(device_name).type,
            devices=here,
            num_nodes=count // here,
            strategy=DDPStrategy(broadcast_buffers=False),
            precision="32-true",  # the step sets its own
        )
        fabric.launch()
        return cls(fabric.device, fabric)

    @property
    def device_name(self) -> str:
        """For the records."""
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "CPU"
        return name if self.count == 1 else f"{self.count} x {name}"

    def execution(self, asked: Execution) -> Execution:
        """How a step runs; DDP's communication is left out of CUDA graphs, so several GPUs run compiled."""
        chosen = ("graph" if self.device.type == "cuda" else "eager") if asked == "auto" else asked
        return "compiled" if chosen == "graph" and self.count > 1 else chosen

    def wrap(self, network: Network, seed: int) -> tuple[nn.Module, Callable[[Tensor], None]]:
        """What maps images to logits and takes gradients, and how to go backward through it."""
        if self._fabric is None:
            return network, Tensor.backward
        network.reseed(derive_seed(seed, "noise", self.rank))
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
