"""How a base session is trained: one frozen record, every default visible, and the named recipes."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from subspan.backbones.heads import create_head
from subspan.backbones.joined import join_backbones, join_networks
from subspan.backbones.modules import feature_dim
from subspan.backbones.network import Network
from subspan.backbones.registry import create_backbone
from subspan.train.seeds import derive_seed, member_seed
from subspan.values import check_options, option

TURNS = 4  # upright, and by one, two or three quarters of a circle

# Mean and standard deviation per channel that the released code divides by, in units of 255.
MEAN = (120.39586422 / 255, 115.59361427 / 255, 104.54012653 / 255)
STD = (70.68188272 / 255, 68.27635443 / 255, 72.54505529 / 255)

# Fields younger than the first runs; at their default they are no part of the digest, so that old runs can be resumed.
_LATER = (
    *("members", "kept_features", "early_size", "early_share", "stem"),
    *("optimiser", "kernel_rate", "pool", "cutmix_per", "varied"),
)

# Fields that are no more, in records and digests of runs made before.
_GONE_FROM_DIGEST = {
    "feature_mix": 0.0,
    "average_decay": 0.0,
    "average_start": 0.5,
    "decay_on": "all",
    "warmup_epochs": 0.0,
    "learn_scale": False,
}
_GONE = {*_GONE_FROM_DIGEST, "turn_loss", "mutual", "stage_weight", "mix_until", "clean_statistics"}

# What members that are trained side by side and joined must share.
_SHARED = {
    *("name", "members", "varied", "kept_features", "head", "head_bias", "rotation_share", "cuts"),
    *("epochs", "batch_size", "crop_size", "image_size", "early_size", "early_share", "mean", "std"),
}


@dataclass(frozen=True)
class Recipe:
    """Network, optimiser, schedule and augmentation of one base session; the defaults are the paper's.

    >>> RECIPES["paper"].cuts
    (60, 80)
    >>> dataclasses.replace(RECIPES["paper"], epochs=1, cuts=()).epochs
    1
    """

    name: str = "paper"

    backbone: str = option("resnet18-tian", "resnet12-tian, resnet18-tian or resnet18-he")
    width: float = option(1.0, "factor on the number of channels")
    stem: Literal["standard", "small"] = option(
        "standard", "first layers of resnet18-he: a 7x7 kernel of stride 2 and a pool, or small: a 3x3 kernel"
    )
    norm: Literal["batch", "group", "none"] = option("batch", "normalisation inside the network")
    se: bool = option(False, "squeeze-and-excitation in every block")
    pool: Literal["max", "blurred"] = option("max", "the largest of 2x2, or these blurred; Tian only")
    dropblock: Literal["paper", "full", "none"] = option(
        "paper", "blocks of size 1 (paper), 5 (full) or none; Tian only"
    )
    drop_rate: float = option(0.1, "rate of dropout and DropBlock")
    drop_ramp: int = option(40_000, "training steps over which DropBlock's rate grows to drop_rate")
    head: Literal["linear", "cosine", "euclidean"] = option(
        "linear", "inner products, cosines or squared distances to one row per class"
    )
    head_bias: bool = option(False, "bias of a linear head")
    head_scale: float = option(16.0, "scale of a cosine head")
    members: int = option(1, "networks with seeds of their own, trained at once and joined into one")
    varied: tuple[str, ...] = option(
        (), "what members differ in beside their seed, in turn: head_scale=16/10,jitter=0.4/0.4/0"
    )
    kept_features: int = option(640, "features kept of all members together, the principal ones; 0: all")

    epochs: int = option(100, "passes over the training images; the last incomplete batch of a pass is left out")
    batch_size: int = option(64, "images per step, over all processes")
    optimiser: Literal["sgd", "muon"] = option(
        "sgd", "SGD for all parameters, or Muon for the kernels of convolutions and SGD for the rest"
    )
    learning_rate: float = option(0.05, "rate of SGD before the schedule")
    kernel_rate: float = option(
        0.01, "share of its length by which a kernel moves in one step of muon, before the same schedule"
    )
    momentum: float = option(0.9, "momentum of SGD")
    weight_decay: float = option(5e-4, "weight decay of SGD")
    schedule: Literal["cuts", "cosine"] = option(
        "cuts", "multiply at the cuts, or half a cosine down to zero, step by step"
    )
    cuts: tuple[int, ...] = option((60, 80), "epochs at which the rate is multiplied by cut_factor")
    cut_factor: float = option(0.1, "factor at each cut")

    crop_size: int = option(84, "pixels on a side that the network sees in training")
    image_size: int = option(0, "pixels on a side of the images, of which crops are taken; 0: crop_size")
    early_size: int = option(0, "pixels on a side of what it sees in the first epochs, scaled down; 0: crop_size")
    early_share: float = option(2 / 3, "share of the epochs that are at early_size, where there is one")
    padding: int = option(8, "black border around an image before the random crop")
    flip: bool = option(True, "mirror half of the images")
    jitter: float = option(0.4, "range of brightness, contrast and saturation factors, in random order per image")
    resized_share: float = option(0.0, "share of images cropped by area and resized instead of padded")
    resized_min: float = option(0.35, "smallest area of such a crop")
    resized_max: float = option(1.0, "largest area of such a crop")
    rotation_share: float = option(
        0.0, "share of images turned by 90, 180 or 270 degrees; each turn of a class is a class of its own"
    )
    cutmix: float = option(0.0, "share of batches, or images, in which a box of an image comes from another image")
    cutmix_per: Literal["batch", "image"] = option("batch", "draw one box for a batch, or one for each of its images")
    mean: tuple[float, ...] = option(MEAN, "mean of each channel, subtracted")
    std: tuple[float, ...] = option(STD, "standard deviation of each channel, divided by")

    margin: float = option(
        0.0, "taken from the cosine of the true class in training; below 0 it loosens the classes; cosine heads only"
    )
    label_smoothing: float = option(0.0, "share of the target spread over all classes")
    precision: Literal["auto", "bf16", "fp32"] = option(
        "auto", "arithmetic of the network; auto: bf16 on a GPU, else fp32"
    )

    def __post_init__(self) -> None:
        check_options(
            self,
            at_least={
                1: ("epochs", "batch_size", "crop_size", "drop_ramp", "members"),
                0: ("image_size", "early_size", "padding", "kept_features"),
            },
            shares=(
                *("resized_share", "rotation_share", "cutmix", "label_smoothing", "drop_rate", "early_share", "jitter"),
            ),
            below_one=("momentum",),
        )
        for what in ("width", "learning_rate", "kernel_rate", "head_scale", "cut_factor"):
            if not 0 < getattr(self, what) < math.inf:
                raise ValueError(f"{what} must be a positive number, got {getattr(self, what)}")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"weight_decay must be 0 or a positive number, got {self.weight_decay}")
        for what in ("mean", "std"):
            values = getattr(self, what)
            if len(values) != 3 or not all(map(math.isfinite, values)):
                raise ValueError(f"{what} must be three numbers, one for each channel, got {values}")
        if min(self.std) <= 0:
            raise ValueError(f"std must be three positive numbers, got {self.std}")
        if self.stem != "standard" and not self.backbone.endswith("-he"):
            raise ValueError(f"stem '{self.stem}' is one of resnet18-he; {self.backbone} has a stem of its own")
        if self.pool != "max" and not self.backbone.endswith("-tian"):
            raise ValueError(f"pool '{self.pool}' is one of Tian's networks; {self.backbone} has pools of its own")
        if self.backbone.endswith("-tian") and self.crop_size < 16:
            raise ValueError(
                f"crop_size must be at least 16, as {self.backbone} halves it four times; got {self.crop_size}"
            )
        self.check_size(self.stored_size)
        if 0 < self.early_size < 16:
            raise ValueError(f"early_size must be 0 (none) or at least 16, got {self.early_size}")
        if self.early_size > self.crop_size:
            raise ValueError(
                f"early_size {self.early_size} is above crop_size {self.crop_size}: images only grow. Choose a smaller "
                "one, or 0 for none"
            )
        if not 0 < self.resized_min <= self.resized_max <= 1:
            raise ValueError(f"areas of crops need 0 < min <= max <= 1, got {self.resized_min} and {self.resized_max}")
        if self.margin and (self.head != "cosine" or not -1 <= self.margin <= 1):
            raise ValueError(
                f"margin must lie in [-1, 1] and needs a cosine head, got {self.margin} and a {self.head} one"
            )
        if self.members > 1 and self.head == "euclidean":
            raise ValueError(f"{self.members} members are joined by linear or cosine heads, got a {self.head} one")
        if list(self.cuts) != sorted(set(self.cuts)):
            raise ValueError(f"cuts must ascend, got {self.cuts}")
        if self.varied and self.members == 1:
            raise ValueError("varied needs several members, got members=1")
        for member in range(self.members if self.varied else 0):
            member_recipe(self, member)  # raises where its values do not fit

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Recipe":
        """The inverse of :meth:`to_dict`; of a record made before, what shaped only the training is left aside."""
        if weight := values.get("stage_weight"):
            raise ValueError(f"networks with features of two stages are no more, got a recipe of stage_weight {weight}")
        kept = {k: v for k, v in values.items() if k not in _GONE}
        plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in kept.items()}
        return cls(**plain)

    def digest(self) -> str:
        """sha256 over every field but the name; a field added later counts where it is not at its default.

        The size of the images is not in it: that is a property of the images a run is given, and told beside it.
        """
        unused = {"name", "image_size", *(k for k in _LATER if getattr(self, k) == getattr(Recipe, k))}
        if self.early_size == 0:
            unused.add("early_share")
        if self.optimiser == "sgd":
            unused.add("kernel_rate")
        values = _GONE_FROM_DIGEST | {k: v for k, v in self.to_dict().items() if k not in unused}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    @property
    def stored_size(self) -> int:
        """Pixels on a side of the images as they are kept, and seen when they are not augmented."""
        return self.image_size or self.crop_size

    def check_size(self, size: int) -> None:
        """Refuse images of fewer pixels on a side than the crops."""
        if size < self.crop_size:
            raise ValueError(
                f"images of {size} pixels are smaller than the crops of {self.crop_size}: choose images of at least "
                "the crop size"
            )

    @property
    def joined(self) -> bool:
        """Whether the network of a run is made from trained members, after their training."""
        return self.members > 1

    def size_at(self, epoch: int) -> int:
        """Pixels on a side of the images of an epoch, counted from 0.

        >>> [Recipe(epochs=3, early_size=64).size_at(epoch) for epoch in range(3)]
        [64, 64, 84]
        """
        early = self.early_size > 0 and epoch < int(self.early_share * self.epochs)
        return self.early_size if early else self.crop_size

    def sizes(self) -> list[int]:
        """The sizes of all epochs, each once, in their order."""
        return list(dict.fromkeys(self.size_at(epoch) for epoch in range(self.epochs)))

    def head_rows(self, classes: int) -> int:
        """Rows of the head: one per class, or one per class and turn; the upright classes come first."""
        return classes * (TURNS if self.rotation_share > 0 else 1)


def member_recipe(recipe: Recipe, member: int = 0) -> Recipe:
    """The recipe of one member of a joined network, counted from 0; a recipe of one network is its own.

    >>> [member_recipe(Recipe(members=3, varied=("jitter=0.4/0",)), i).jitter for i in range(3)]
    [0.4, 0.0, 0.4]
    """
    alone = {name: getattr(Recipe, name) for name in ("members", "varied", "kept_features")}
    return dataclasses.replace(recipe, **alone, **varied_values(recipe.varied, member))


def varied_values(varied: Sequence[str], member: int) -> dict[str, Any]:
    """What sets one member, counted from 0, apart from the others, by field."""
    known = [field.name for field in dataclasses.fields(Recipe) if field.name not in _SHARED]
    values: dict[str, Any] = {}
    for entry in varied:
        name, _, listed = entry.partition("=")
        if name not in known:
            raise ValueError(f"members may differ in {', '.join(known)}; got varied {entry!r}")
        choices = listed.split("/")
        values[name] = _parsed(name, choices[member % len(choices)])
    return values


def _parsed(name: str, text: str) -> Any:
    """A value of a field as it is written in ``varied``."""
    kind = type(getattr(Recipe, name))
    if kind is bool:
        if text not in ("true", "false"):
            raise ValueError(f"varied {name} must be true or false, got {text!r}")
        return text == "true"
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"varied {name} must be like {getattr(Recipe, name)!r}, got {text!r}") from None


PAPER = Recipe()
RECIPES: dict[str, Recipe] = {
    "paper": PAPER,
    "paper-tiered": dataclasses.replace(PAPER, name="paper-tiered", epochs=60, cuts=(30, 45)),
    # What each network has is from PAPER-NOTES 4.6; that several short ones are worth more than a long one, larger
    # images more than either, Muon more than any of it, and boxes of images' own something beside it, from
    # docs/tried.md. How hard images are, and that members differ in their pools, chose choose_strong.py.
    "strong": dataclasses.replace(
        PAPER,
        name="strong",
        pool="blurred",
        optimiser="muon",
        batch_size=128,
        learning_rate=0.1,
        kernel_rate=0.016,
        weight_decay=1e-3,
        dropblock="none",
        cutmix=0.9,
        cutmix_per="image",
        crop_size=96,
        image_size=104,
        early_size=64,
        padding=6,
        resized_share=0.5,
        se=True,
        head="cosine",
        schedule="cosine",
        cuts=(),
        epochs=66,
        members=5,
        varied=("pool=blurred/max/max/blurred",),
    ),
}


def find_recipe(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in RECIPES:
        raise ValueError(f"unknown recipe {name!r}; known are {', '.join(RECIPES)}")
    return RECIPES[name]


def overridden(recipe: Recipe, **fields: Any) -> Recipe:
    """The recipe with other fields; what depends on them gives way, unless it is among them.

    A field that is set is set for all members, and a single network differs from none. Images are as large as crops
    that are set.

    >>> overridden(RECIPES["strong"], jitter=0.0).varied
    ('pool=blurred/max/max/blurred',)
    >>> overridden(RECIPES["strong"], pool="max").varied
    ()
    >>> overridden(RECIPES["strong"], members=1).varied
    ()
    >>> overridden(RECIPES["strong"], crop_size=84).stored_size
    84
    """
    if "crop_size" in fields:
        fields.setdefault("image_size", 0)
    if "varied" not in fields:
        several = fields.get("members", recipe.members) > 1
        varied = [entry for entry in recipe.varied if several and entry.partition("=")[0] not in fields]
        fields["varied"] = tuple(varied)
    return dataclasses.replace(recipe, **fields)


def kept_directions(recipe: Recipe, width: int) -> int:
    """How many of ``width`` features side by side a joined network is brought down to; 0: to none, all stay."""
    return recipe.kept_features if recipe.kept_features < width else 0


def build_network(recipe: Recipe, classes: int, seed: int) -> Network:
    """Backbone and head of a recipe for ``classes`` classes, weights and noise keyed by ``seed``.

    A joined network has the shape of a trained one; its map holds nothing yet.
    """
    if recipe.joined:
        each = range(recipe.members)
        members = [build_network(member_recipe(recipe, i), classes, member_seed(seed, i)) for i in each]
        width = join_backbones(members).feature_dim
        kept = kept_directions(recipe, width)
        return join_networks(members, torch.zeros(width, kept) if kept else None)
    options: dict[str, object] = {"width": recipe.width, "norm": recipe.norm, "se": recipe.se}
    if recipe.backbone.endswith("-tian"):  # others have no dropout and no such pools
        options |= {"dropblock": recipe.dropblock, "drop_rate": recipe.drop_rate, "drop_ramp": recipe.drop_ramp}
        options |= {"pool": recipe.pool}
    elif recipe.backbone.endswith("-he"):
        options |= {"stem": recipe.stem}
    backbone = create_backbone(recipe.backbone, seed=derive_seed(seed, "backbone"), **options)
    head = create_head(
        recipe.head,
        feature_dim(backbone, recipe.crop_size),
        recipe.head_rows(classes),
        bias=recipe.head_bias,
        scale=recipe.head_scale,
        seed=derive_seed(seed, "head"),
    )
    network = Network(backbone, head)
    network.reseed(derive_seed(seed, "noise"))
    return network
