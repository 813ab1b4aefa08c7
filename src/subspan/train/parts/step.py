"""One training step that needs nothing from the host: gather, augment, forward, backward, update, count.

Everything that changes between steps is a tensor on the device (step count, epoch's order, learning rates), so that the
whole step can be compiled, captured once in a CUDA graph and replayed. Where that fails, it runs as it is and says so.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from subspan.backbones.network import Network
from subspan.backbones.parts.noise import derive_seed
from subspan.train.parts.augment import Augment
from subspan.train.parts.device import Execution, Processes
from subspan.train.parts.optimiser import create_optimiser, learning_rates
from subspan.train.recipe import Recipe
from subspan.train.run import Job

# Several shapes of the compiler's kernels are tried, and small ones combined.
_COMPILER: dict[str, str | int | bool | Callable[..., Any]] = {"max_autotune_pointwise": True, "combo_kernels": True}
_WARMUP_STEPS = 3


class TrainStep:
    """The state of one training run and its step.

    The network is on the device of the processes and trained in place; ``store`` holds all images there, uint8
    (n, h, w, 3), of which the job names those to train on. Its seed is that of order and augmentation.
    """

    def __init__(self, recipe: Recipe, network: Network, job: Job, store: Tensor, processes: Processes) -> None:
        rows, labels = job.train
        if recipe.batch_size % processes.count:
            raise ValueError(f"batch_size {recipe.batch_size} does not divide among {processes.count} processes")
        if len(rows) < recipe.batch_size:
            raise ValueError(f"{len(rows)} training images do not fill one batch of {recipe.batch_size}")
        self.recipe, self.network, self.device = recipe, network, processes.device
        self._store, self._seed, self._processes, device = store, job.seed, processes, processes.device
        self.steps_per_epoch = len(rows) // recipe.batch_size
        self.sizes = list(dict.fromkeys(map(recipe.size_at, range(recipe.epochs))))
        model = processes.wrap(network, job.seed)
        augment = Augment(recipe, derive_seed(job.seed, "augment")).to(device)
        self._parts: tuple[Callable[..., Any], ...] = model, augment, loss_and_correct  # that can be compiled
        self.optimiser = create_optimiser(recipe, network.named_parameters())
        self._bf16 = recipe.precision == "bf16" or (recipe.precision == "auto" and device.type == "cuda")

        self.step = torch.zeros((), dtype=torch.int64, device=device)
        self.rate = torch.zeros((), device=device)  # of the last step
        self._rates = torch.from_numpy(learning_rates(recipe, self.steps_per_epoch)).to(device)
        self._order = torch.zeros(self.steps_per_epoch * recipe.batch_size, dtype=torch.int64, device=device)
        self._rows, self._labels = torch.from_numpy(rows).to(device), torch.from_numpy(labels).to(device)
        self._counters = torch.zeros(2, device=device)  # loss, correct
        self._place = torch.arange(recipe.batch_size, device=device).chunk(processes.count)[processes.rank]
        self._side = torch.cuda.Stream(device) if device.type == "cuda" else None  # warm-up and capture
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}  # by the size of the images
        self.execution: Execution = "eager"

    def _body(self, size: int) -> None:
        model, augment, score = self._parts
        self.network.zero_grad()
        self.network.tick()
        at = (self.step % self.steps_per_epoch) * self.recipe.batch_size + self._place
        chosen = self._order.index_select(0, at)
        labels = self._labels.index_select(0, chosen)
        with torch.no_grad():
            rows = self._rows.index_select(0, chosen)
            images, partner, share = augment(self._store, rows, self.step, self._place, size)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self._bf16):
            logits = model(images)
        loss, correct = score(logits, labels, labels.index_select(0, partner), share)
        loss.backward()
        self.rate.copy_(self._rates.index_select(0, self.step.view(1)).view(()))
        self.optimiser.step(self.rate)
        with torch.no_grad():
            self._counters.add_(torch.stack([loss.detach(), correct]))
            self.step.add_(1)

    def tensors(self) -> dict[str, Tensor]:
        """Everything a resumed run needs, by name; writing into these in place restores it."""
        state = {f"network.{k}": v for k, v in self.network.state_dict(keep_vars=False).items()}
        state |= {f"momentum.{k}": v for k, v in self.optimiser.momenta.items()}
        return state | {"step": self.step}

    def prepare(self, execution: Execution = "auto") -> None:
        """Compile and capture as asked; ``auto`` captures on a GPU and runs plainly elsewhere. The state is kept."""
        execution = self._processes.execution(execution)
        self.network.train()
        if execution == "eager":
            return
        saved, plain = {name: tensor.clone() for name, tensor in self.tensors().items()}, self._parts
        try:
            self._parts = tuple(map(_compiled, plain))
            self._warm_up()
            if execution == "graph":
                self._capture()
            self.execution = execution
        except Exception as error:  # the compiler's errors have no common type
            self._parts, self._graphs = plain, {}
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            text = f"execution {execution} failed, the step runs eagerly: {type(error).__name__}: {first}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
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
        if self._side is not None:
            self._side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._side):
            for size in self.sizes * (1 if self._side is None else _WARMUP_STEPS):
                self.step.zero_()  # a run may have fewer steps than this, or none left
                self._body(size)
        if self._side is not None:
            torch.cuda.synchronize(self.device)

    def _capture(self) -> None:
        """One graph per size of images."""
        for size in self.sizes:
            self.network.zero_grad()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self._side, capture_error_mode="thread_local"):
                self._body(size)
            self._graphs[size] = graph

    def epoch(self, epoch: int) -> Iterator[None]:
        """Set the order of this epoch and run one step per iteration."""
        self.network.train()
        drawn = torch.Generator().manual_seed(derive_seed(self._seed, "order", epoch))
        self._order.copy_(torch.randperm(len(self._rows), generator=drawn)[: len(self._order)])
        size = self.recipe.size_at(epoch)
        run = self._graphs[size].replay if self._graphs else partial(self._body, size)
        for _ in range(self.steps_per_epoch):
            run()
            yield

    def read_counters(self) -> tuple[float, float]:
        """Sum over steps of the mean loss, and images classified correctly, since last read; waits for the device."""
        loss, correct = self._counters.tolist()
        self._counters.zero_()
        return loss, correct


def loss_and_correct(logits: Tensor, labels: Tensor, partners: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy () of logits (n, C), and how many give the label: a share of the loss is by ``labels`` (n,).

    The rest of it is by ``partners`` (n,). ``share`` is one for all, (), or each image's own, (n,).
    """
    own, other = (cross_entropy(logits.float(), chosen, reduction="none") for chosen in (labels, partners))
    correct = (logits.detach().argmax(1) == labels).sum(dtype=torch.float32)
    return (share * own + (1 - share) * other).mean(), correct


def _compiled(part: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(part, dynamic=False, options=_COMPILER)
