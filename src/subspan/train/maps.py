"""Maps of a split's images before the tail of a cut network: what systems that move the tail work on.

Maps are large and never leave the machine. Protocols, which know features only, are given positions of maps in their
place: the feature set of a split with one number per item, where its map lies.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from subspan.backbones.cut import Tail, Where, cut
from subspan.backbones.network import Network
from subspan.features.feature_set import FeatureSet
from subspan.images.imageset import ImageSet
from subspan.images.splits.split import Split
from subspan.train.collect import Contents, choose, labels_of
from subspan.train.extract import Extractor
from subspan.train.parts.network import CHUNK, inputs
from subspan.train.run import RunSettings

_COPIES_CHUNK = 100  # images whose copies are shown at once
EXACT = 1 << 24  # positions below this are whole in float32


@dataclass(frozen=True, eq=False)
class SplitMaps:
    """The images of one split before the tail of its network, and the tail."""

    tail: Tail  # in evaluation mode, on the device; not to be changed: work on copies of its parameters
    head: nn.Module  # of the base session
    maps: Tensor  # (P, c, h, w): base test, novel test, support copies, then all base training images
    training: Tensor  # (N,): positions of the training images
    labels: Tensor  # (N,): their classes
    items: FeatureSet  # of positions (..., 1) in place of features
    class_count: int  # C0

    @property
    def device(self) -> torch.device:
        """Where features are computed."""
        return next(self.tail.parameters()).device

    def at(self, positions: Tensor) -> Tensor:
        """Maps (n, c, h, w) at positions (n,), in float32, on the device."""
        chosen = self.maps[positions.to(self.maps.device, torch.int64)]
        return chosen.to(self.device, torch.float32, memory_format=torch.channels_last)

    def features(self, positions: Tensor, parameters: dict[str, Tensor] | None = None) -> Tensor:
        """Features (n, d) at positions (n,) without gradient, by the tail as it is or with other parameters."""
        with torch.no_grad():
            parts = [self.through(self.at(part), parameters) for part in positions.split(CHUNK)]
        return torch.cat(parts)

    def through(self, maps: Tensor, parameters: dict[str, Tensor] | None = None) -> Tensor:
        """Features (n, d) of maps (n, c, h, w), by the tail as it is or with other parameters."""
        return self.tail(maps) if parameters is None else torch.func.functional_call(self.tail, parameters, (maps,))

    def parameters(self) -> dict[str, Tensor]:
        """A copy of what the tail has learned, by name; statistics of its normalisation stay as they are."""
        return {name: p.detach().clone() for name, p in self.tail.named_parameters()}

    @cached_property
    def training_features(self) -> Tensor:
        """Features (N, d) of the base training images by the tail as it is."""
        return self.features(self.training)


@torch.no_grad()
def split_maps(
    network: Network,
    settings: RunSettings,
    images: ImageSet,
    split: Split,
    contents: Contents,
    *,
    where: Where,
    device: torch.device,
    tell: Callable[[str, int, int], object] | None = None,
) -> SplitMaps:
    """Cut a trained network and compute the maps of its split; half precision on a GPU, where they stay if they fit."""
    chosen = choose(images, split, contents)
    extractor = Extractor(network, settings.recipe, images.images, device=device)  # moves the network to the device
    network.requires_grad_(False)
    trunk, tail = cut(network.backbone, where)
    plain, support = np.concatenate([*chosen.base_test, *chosen.novel_test]), chosen.novel_support.reshape(-1)
    training = np.concatenate(chosen.base_train)
    first = len(plain) + len(support) * contents.copies  # of the training images
    total = first + len(training)
    if total >= EXACT:
        raise ValueError(f"{total} maps are too many: positions are whole numbers in float32 up to {EXACT} only")

    def shown() -> Iterator[Tensor]:
        """Network inputs (n, 3, h, w), some at a time."""
        yield from inputs(images.images, plain, settings.recipe, device)
        for start in range(0, len(support), _COPIES_CHUNK):
            some = support[start : start + _COPIES_CHUNK]
            yield extractor.shown_copies(some, contents.copies, chosen.copies_seed).flatten(0, 1)
        yield from inputs(images.images, training, settings.recipe, device)

    maps, done = torch.empty(0), 0
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    for some in shown():
        part = trunk(some.contiguous(memory_format=torch.channels_last)).to(dtype)
        if not bool(torch.isfinite(part).all()):
            raise ValueError("maps of this network hold infinity or NaN; half precision reaches up to 65504")
        if done == 0:
            free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else float("inf")
            place = device if part[0].nbytes * total <= free / 2 else "cpu"  # the rest is to work with
            shape = total, *part.shape[1:]
            maps = torch.empty(shape, dtype=dtype, device=place, memory_format=torch.channels_last)
        maps[done : done + len(part)] = part
        done += len(part)
        if tell is not None:
            tell("maps", done, total)
    base, positions = sum(map(len, chosen.base_test)), np.arange(first, dtype=np.float32)[:, None]
    items = FeatureSet(
        base_weight=np.zeros((len(chosen.base_train), 1), dtype=np.float32),
        base_test=positions[:base],
        novel_test=positions[base : len(plain)],
        novel_support=positions[len(plain) :].reshape(len(support), contents.copies, 1),
        **chosen.described,
    )
    return SplitMaps(
        tail=tail,
        head=network.head,
        maps=maps,
        training=torch.arange(first, total, device=device),
        labels=torch.from_numpy(labels_of(chosen.base_train)).to(device),
        items=items,
        class_count=len(chosen.base_train),
    )
