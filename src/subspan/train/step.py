"""One training step that needs nothing from the host: gather, augment, forward, backward, update, count.

Everything that changes between steps is a tensor on the device (step count, epoch's order, learning rates), so that the
whole step can be captured once in a CUDA graph and replayed. Where capture fails the step runs compiled; where
compilation fails it runs as it is; one message says so.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from subspan.backbones.blocks import Statistics, use_statistics
from subspan.backbones.heads import CosineHead
from subspan.backbones.network import Network
from subspan.train.augment import Augment
from subspan.train.loss import count_correct, mixed_cross_entropy
from subspan.train.optimiser import Muon, Sgd
from subspan.train.recipe import Recipe
from subspan.train.schedule import learning_rates
from subspan.train.seeds import derive_seed
from subspan.train.source import Source

Execution = Literal["auto", "graph", "compiled", "eager"]
# Several shapes of the compiler's kernels are tried, and small ones combined.
_COMPILER: dict[str, str | int | bool | Callable[..., Any]] = {"max_autotune_pointwise": True, "combo_kernels": True}
_WARMUP_STEPS = 3


@dataclass(frozen=True)
class Share:
    """This process's part of every global batch."""

    rank: int = 0
    processes: int = 1


class TrainStep:
    """The state of one training run and its step.

    Args:
        network: what ``build_network`` made, on ``device``; it is trained in place.
        model: what maps images to logits and takes gradients: the network itself, or its distributed wrapping.
        source: the images.
        rows: which images of the source's full set are the training images, (n,).
        labels: their classes, (n,).
        classes: number of classes.
        seed: of the order and the augmentation.
    """

    def __init__(
        self,
        recipe: Recipe,
        network: Network,
        source: Source,
        rows: NDArray[np.int64],
        labels: NDArray[np.int64],
        classes: int,
        *,
        seed: int,
        device: torch.device,
        share: Share | None = None,
        model: nn.Module | None = None,
        backward: Callable[[Tensor], None] | None = None,
    ) -> None:
        share = share or Share()
        if recipe.batch_size % share.processes:
            raise ValueError(f"batch_size {recipe.batch_size} does not divide among {share.processes} processes")
        if len(rows) < recipe.batch_size:
            raise ValueError(f"{len(rows)} training images do not fill one batch of {recipe.batch_size}")
        self.recipe, self.network, self.source, self.device, self.seed = recipe, network, source, device, seed
        self.classes = classes
        self.steps_per_epoch = len(rows) // recipe.batch_size
        self._local = recipe.batch_size // share.processes
        self._first = share.rank * self._local
        self._rows = rows
        self._model: Callable[..., Tensor] = network if model is None else model
        self._backward = backward or (lambda loss: loss.backward())
        self.augment = Augment(recipe, classes, derive_seed(seed, "augment")).to(device)
        self._augment: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]] = self.augment
        self._score: Callable[..., tuple[Tensor, Tensor]] = self._loss_and_correct
        self.optimiser = _optimiser(recipe, network)
        self.bf16 = recipe.precision == "bf16" or (recipe.precision == "auto" and device.type == "cuda")

        self.step = torch.zeros((), dtype=torch.int64, device=device)
        self._rates = torch.from_numpy(learning_rates(recipe, self.steps_per_epoch)).to(device)
        self.rate = torch.zeros((), device=device)  # of the last step
        self._order = torch.zeros(self.steps_per_epoch * recipe.batch_size, dtype=torch.int64, device=device)
        self._image_rows = torch.from_numpy(rows).to(device)
        self._labels = torch.from_numpy(labels).to(device)
        self._loss_sum = torch.zeros((), device=device)
        self._correct = torch.zeros((), device=device)
        self._place = torch.arange(self._first, self._first + self._local, device=device)
        self._local_rows = torch.arange(self._local, device=device)
        self._side = torch.cuda.Stream(device) if device.type == "cuda" else None  # warm-up and capture
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}  # by the size of the images
        self.execution: Execution = "eager"

    def _body(self, size: int) -> None:
        self.optimiser.clear()
        self.network.tick()
        at = (self.step % self.steps_per_epoch) * self.recipe.batch_size + self._place
        chosen = self._order.index_select(0, at)
        rows = self._image_rows.index_select(0, chosen) if self.source.resident else self._local_rows
        labels = self._labels.index_select(0, chosen)
        with torch.no_grad():
            images, labels, partners, share = self._augment(
                self.source.store, rows, labels, self.step, self._place, size
            )
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            logits = self._model(images)
        loss, correct = self._score(logits, labels, partners, share)
        self._backward(loss)
        self.rate.copy_(self._rates.index_select(0, self.step.view(1)).view(()))
        self.optimiser.step(self.rate)
        with torch.no_grad():
            self._loss_sum.add_(loss.detach())
            self._correct.add_(correct)
            self.step.add_(1)

    def _loss_and_correct(
        self, logits: Tensor, labels: Tensor, partners: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        recipe, head = self.recipe, self.network.head
        margin = recipe.margin * head.scale if recipe.margin and isinstance(head, CosineHead) else None
        loss = mixed_cross_entropy(logits, labels, partners, share, recipe.label_smoothing, margin)
        return loss, count_correct(logits, labels)

    def tensors(self) -> dict[str, Tensor]:
        """Everything a resumed run needs, by name; writing into these in place restores it."""
        state = {f"network.{k}": v for k, v in self.network.state_dict(keep_vars=False).items()}
        state |= {f"momentum.{k}": v for k, v in self.optimiser.momenta.items()}
        return state | {"step": self.step}

    def prepare(self, execution: Execution = "auto", statistics: Statistics = "sums") -> None:
        """Compile and capture as asked; ``auto`` captures on a GPU and runs plainly elsewhere. The state is kept.

        How batch statistics are taken is asked of a compiled step only.
        """
        cuda = self.device.type == "cuda"
        if execution == "auto":
            execution = "graph" if cuda else "eager"
        if execution == "graph" and not cuda:
            raise ValueError(f"a CUDA graph needs a CUDA device, got {self.device}")
        self.network.train()
        if execution == "eager":
            return
        saved = {name: tensor.clone() for name, tensor in self.tensors().items()}
        plain = self._model, self._augment, self._score
        try:
            use_statistics(self.network, statistics)
            self._model, self._augment, self._score = map(_compiled, plain)
            self._warm_up()
            self.execution = "compiled"
        except Exception as error:  # the compiler's errors have no common type
            self._model, self._augment, self._score = plain
            use_statistics(self.network, "plain")
            _explain("torch.compile failed, the step runs uncompiled", error)
            if execution == "graph":
                self._warm_up()
        if execution == "graph":
            try:
                self._capture()
                self.execution = "graph"
            except RuntimeError as error:
                self._graphs.clear()
                torch.cuda.synchronize(self.device)
                _explain("the CUDA graph could not be captured, the step runs without one", error)
        self.restore(saved)

    def restore(self, saved: dict[str, Tensor]) -> None:
        """Copy a saved state into place and empty the counters."""
        with torch.no_grad():
            for name, tensor in self.tensors().items():
                tensor.copy_(saved[name])
        self.read_counters()

    def _warm_up(self) -> None:
        """Run a few steps outside any capture: compilation, choice of convolution algorithms, allocations."""
        self._order.copy_(torch.arange(len(self._order), device=self.device))
        if self.device.type != "cuda":
            for size in self.recipe.sizes():
                self.step.zero_()
                self._body(size)
            return
        assert self._side is not None
        self._side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._side):
            for size in self.recipe.sizes():
                for _ in range(_WARMUP_STEPS):
                    self.step.zero_()  # a run may have fewer steps than this, or none left
                    self._body(size)
        torch.cuda.synchronize(self.device)

    def _capture(self) -> None:
        """One graph per size of images."""
        for size in self.recipe.sizes():
            self.optimiser.clear()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self._side, capture_error_mode="thread_local"):
                self._body(size)
            self._graphs[size] = graph

    def epoch(self, epoch: int) -> Iterator[None]:
        """Set the order of this epoch and run one step per iteration."""
        self.network.train()
        order = epoch_order(len(self._rows), self.seed, epoch)[: len(self._order)]
        self._order.copy_(torch.from_numpy(order))
        batches = order.reshape(self.steps_per_epoch, -1)[:, self._first : self._first + self._local]
        size = self.recipe.size_at(epoch)
        graph = self._graphs.get(size)
        for _ in self.source.epoch(self._rows[batches]):
            if graph is not None:
                graph.replay()
            else:
                self._body(size)
            yield

    def read_counters(self) -> tuple[float, float]:
        """Sum over steps of the mean loss, and images classified correctly, since last read; waits for the device."""
        loss, correct = float(self._loss_sum), float(self._correct)
        self._loss_sum.zero_()
        self._correct.zero_()
        return loss, correct


def epoch_order(count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The permutation (count,) of one epoch, a function of seed and epoch."""
    generator = torch.Generator().manual_seed(derive_seed(seed, "order", epoch))
    return torch.randperm(count, generator=generator).numpy()


def _optimiser(recipe: Recipe, network: nn.Module) -> Sgd | Muon:
    sgd = partial(Sgd, momentum=recipe.momentum, weight_decay=recipe.weight_decay)
    if recipe.optimiser == "sgd":
        return sgd(network.named_parameters())
    return Muon(network.named_parameters(), sgd, kernel_factor=recipe.kernel_rate / recipe.learning_rate)


def _compiled(part: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(part, dynamic=False, options=_COMPILER)


def _explain(what: str, error: Exception) -> None:
    first = str(error).strip().splitlines()
    warnings.warn(f"{what}: {type(error).__name__}: {first[0] if first else ''}", RuntimeWarning, stacklevel=3)
