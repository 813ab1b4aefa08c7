"""One training step that needs nothing from the host: gather, augment, forward, backward, update, count.

Everything that changes between steps is a tensor on the device (step count, epoch's order, learning rates), so that the
whole step can be captured once in a CUDA graph and replayed. Where capture fails the step runs compiled; where
compilation fails it runs as it is; one message says so.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from subspan.backbones import CosineHead, Mixing, Network, Statistics, use_statistics
from subspan.train.augment import Augment
from subspan.train.loss import count_correct, mixed_cross_entropy
from subspan.train.mutual import MutualMembers, agreement_loss
from subspan.train.optimiser import Muon, Optimiser, Sgd
from subspan.train.recipe import Recipe
from subspan.train.schedule import learning_rates
from subspan.train.seeds import derive_seed
from subspan.train.source import Source
from subspan.train.turns import TURNS, TurnNetwork

Execution = Literal["auto", "graph", "compiled", "eager"]
StatisticsOption = Literal["auto", Statistics]
CompileMode = Literal["searched", "tuned", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
_SEARCHED = {"max_autotune_pointwise": True, "combo_kernels": True}
_SEARCHES: Mapping[str, dict[str, Any]] = {  # modes of ours: how the shapes of fused kernels are looked for
    "searched": _SEARCHED,
    "tuned": {**_SEARCHED, "coordinate_descent_tuning": True},
}

_WARMUP_STEPS = 3


@dataclass(frozen=True)
class Share:
    """This process's part of every global batch."""

    rank: int = 0
    processes: int = 1


class TrainStep:
    """The state of one training run and its step.

    Args:
        network: what ``build_learner`` made, on ``device``; it is trained in place.
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
        network: Network | MutualMembers,
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
        if recipe.turn_loss > 0 and not isinstance(network, TurnNetwork):
            raise ValueError(f"turn_loss {recipe.turn_loss} needs a network with a head for turns: use build_learner")
        if (recipe.mutual > 0) != isinstance(network, MutualMembers):
            raise ValueError(
                f"mutual {recipe.mutual:g} needs members that learn together, and only it: use build_learner"
            )
        self.recipe, self.network, self.source, self.device, self.seed = recipe, network, source, device, seed
        self.classes = classes
        self.steps_per_epoch = len(rows) // recipe.batch_size
        self._local = recipe.batch_size // share.processes
        self._first = share.rank * self._local
        self._rows = rows
        self.networks = network.members if isinstance(network, MutualMembers) else [network]
        self._models: list[Callable[..., Tensor]] = [*self.networks] if model is None else [model]
        self._backward = backward or (lambda loss: loss.backward())
        mixed_steps = round(recipe.mix_until * recipe.epochs) * self.steps_per_epoch
        self.augment = Augment(recipe, classes, derive_seed(seed, "augment"), mixed_steps=mixed_steps).to(device)
        self._augment: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]] = self.augment
        self._score: Callable[..., tuple[Tensor, Tensor]] = self._loss_and_correct
        self.optimiser = _optimiser(recipe, network)
        self.averages = {k: v.clone() for k, v in _averaged(network)} if recipe.average_decay > 0 else {}
        self.bf16 = recipe.precision == "bf16" or (recipe.precision == "auto" and device.type == "cuda")

        self.step = torch.zeros((), dtype=torch.int64, device=device)
        self._rates = torch.from_numpy(learning_rates(recipe, self.steps_per_epoch)).to(device)
        self._rate = torch.zeros((), device=device)
        self._order = torch.zeros(self.steps_per_epoch * recipe.batch_size, dtype=torch.int64, device=device)
        self._image_rows = torch.from_numpy(rows).to(device)
        self._labels = torch.from_numpy(labels).to(device)
        self._loss_sum = torch.zeros((), device=device)
        self._correct = torch.zeros((), device=device)
        self._place = torch.arange(self._first, self._first + self._local, device=device)
        self._local_rows = torch.arange(self._local, device=device)
        self._side = torch.cuda.Stream(device) if device.type == "cuda" else None  # warm-up and capture
        side_by_side = device.type == "cuda" and len(self._models) > 1
        self._beside = [torch.cuda.Stream(device) for _ in self._models] if side_by_side else []
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
            mixing: list[Mixing] = []
            if self.recipe.feature_mix > 0:
                partners, share, *mixing = self.augment.mix_features(labels, partners, share, self.step)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            logits = self._logits(images, *mixing)
        loss, correct = self._score(logits, labels, partners, share)
        self._backward(loss)
        self._rate.copy_(self._rates.index_select(0, self.step.view(1)).view(()))
        self.optimiser.step(self._rate)
        with torch.no_grad():
            self._update_averages()
            self._loss_sum.add_(loss.detach() / len(self.networks))
            self._correct.add_(correct / len(self.networks))
            self.step.add_(1)

    def _logits(self, images: Tensor, *mixing: Mixing) -> Tensor:
        """(n, C) of one model, (k, n, C) of several members; on a GPU these run side by side, each on its stream."""
        if len(self._models) == 1:
            return self._models[0](images, *mixing)
        if not self._beside:
            return torch.stack([model(images, *mixing) for model in self._models])
        here, logits = torch.cuda.current_stream(self.device), list[Tensor]()
        for model, stream in zip(self._models, self._beside, strict=True):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                logits.append(model(images, *mixing))
        for stream in self._beside:
            here.wait_stream(stream)
        return torch.stack(logits)

    def _loss_and_correct(
        self, logits: Tensor, labels: Tensor, partners: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        heads = [network.head for network in self.networks]
        if self.recipe.mutual > 0:
            own = [self._class_loss(*pair, labels, partners, share) for pair in zip(heads, logits, strict=True)]
            correct = [count_correct(each, labels) for each in logits]
            mutual = self.recipe.mutual
            loss = (1 - mutual) * torch.stack(own).sum() + mutual * agreement_loss(logits)
            return loss, torch.stack(correct).sum()
        if self.recipe.turn_loss == 0:
            return self._class_loss(heads[0], logits, labels, partners, share), count_correct(logits, labels)
        classes = self.classes  # a label is the class plus so many for each quarter
        logits, turns = logits[:, :-TURNS], logits[:, -TURNS:]
        of_turns = mixed_cross_entropy(turns, labels // classes, partners // classes, share, 0.0)
        labels, partners = labels % classes, partners % classes
        loss = self._class_loss(heads[0], logits, labels, partners, share) + self.recipe.turn_loss * of_turns
        return loss, count_correct(logits, labels)

    def _class_loss(self, head: nn.Module, logits: Tensor, labels: Tensor, partners: Tensor, share: Tensor) -> Tensor:
        recipe = self.recipe
        margin = recipe.margin * head.scale if recipe.margin and isinstance(head, CosineHead) else None
        return mixed_cross_entropy(logits, labels, partners, share, recipe.label_smoothing, margin)

    def _update_averages(self) -> None:
        if not self.averages:
            return
        start = self.recipe.average_start * self.recipe.epochs * self.steps_per_epoch
        weight = 1.0 - (self.step >= start).to(torch.float32) * self.recipe.average_decay
        for name, value in _averaged(self.network):
            self.averages[name].lerp_(value, weight)

    def tensors(self) -> dict[str, Tensor]:
        """Everything a resumed run needs, by name; writing into these in place restores it."""
        state = {f"network.{k}": v for k, v in self.network.state_dict(keep_vars=False).items()}
        state |= {f"momentum.{k}": v for k, v in self.optimiser.momenta.items()}
        state |= {f"average.{k}": v for k, v in self.averages.items()}
        return state | {"step": self.step}

    def prepare(
        self,
        execution: Execution = "auto",
        compile_mode: CompileMode = "searched",
        statistics: StatisticsOption = "auto",
    ) -> None:
        """Compile and capture as asked; ``auto`` captures on a GPU and runs plainly elsewhere. The state is kept.

        How batch statistics are taken is asked of a compiled step only; ``auto``: fused on a GPU, from sums elsewhere.
        """
        cuda = self.device.type == "cuda"
        if execution == "auto":
            execution = "graph" if cuda else "eager"
        if execution == "graph" and not cuda:
            raise ValueError(f"a CUDA graph needs a CUDA device, got {self.device}")
        if statistics == "auto":
            statistics = "fused" if cuda else "sums"
        if statistics == "fused" and not cuda:
            raise ValueError(f"statistics 'fused' are kernels for a CUDA device, got {self.device}")
        self.network.train()
        if execution == "eager":
            return
        saved = {name: tensor.clone() for name, tensor in self.tensors().items()}
        plain = self._models, self._augment, self._score
        try:
            use_statistics(self.network, statistics)
            self._models = [_compiled(model, compile_mode) for model in self._models]
            self._augment, self._score = (_compiled(part, compile_mode) for part in plain[1:])
            self._warm_up()
            self.execution = "compiled"
        except Exception as error:  # the compiler's errors have no common type
            self._models, self._augment, self._score = plain
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

    @property
    def rate(self) -> Tensor:
        """The learning rate () of the last step."""
        return self._rate

    def read_counters(self) -> tuple[float, float]:
        """Sum over steps of the mean loss, and images classified correctly, since last read; waits for the device.

        Both are means over members that learn together.
        """
        loss, correct = float(self._loss_sum), float(self._correct)
        self._loss_sum.zero_()
        self._correct.zero_()
        return loss, correct

    def final_tensors(self) -> dict[str, Tensor]:
        """The network's state with averaged weights in place of the last ones, where the recipe averages."""
        return {**self.network.state_dict(), **self.averages}


def epoch_order(count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The permutation (count,) of one epoch, a function of seed and epoch."""
    generator = torch.Generator().manual_seed(derive_seed(seed, "order", epoch))
    return torch.randperm(count, generator=generator).numpy()


def _optimiser(recipe: Recipe, network: nn.Module) -> Optimiser:
    sgd = partial(Sgd, momentum=recipe.momentum, weight_decay=recipe.weight_decay, decay_on=recipe.decay_on)
    if recipe.optimiser == "sgd":
        return sgd(network.named_parameters())
    return Muon(network.named_parameters(), sgd, kernel_factor=recipe.kernel_rate / recipe.learning_rate)


def _compiled(part: Callable[..., Any], mode: CompileMode) -> Callable[..., Any]:
    if mode in _SEARCHES:
        return torch.compile(part, dynamic=False, options=_SEARCHES[mode])
    return torch.compile(part, dynamic=False, mode=mode)


def _averaged(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and floating-point buffers (running statistics)."""
    for name, value in network.state_dict().items():
        if value.is_floating_point():
            yield name, value


def _explain(what: str, error: Exception) -> None:
    first = str(error).strip().splitlines()
    warnings.warn(f"{what}: {type(error).__name__}: {first[0] if first else ''}", RuntimeWarning, stacklevel=3)
