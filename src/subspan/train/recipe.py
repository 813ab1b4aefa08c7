"""How a base session is trained: one frozen record, every default visible, and the named recipes."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

from subspan.backbones.parts.noise import derive_seed
from subspan.values import check_options, converted, finite, option

# Mean and standard deviation per channel that the released code divides by, in units of 255.
MEAN = (120.39586422 / 255, 115.59361427 / 255, 104.54012653 / 255)
STD = (70.68188272 / 255, 68.27635443 / 255, 72.54505529 / 255)

# What members that are joined must share.
_SHARED = {
    *("name", "members", "varied", "kept_features", "head", "epochs", "batch_size", "cuts"),
    *("crop_size", "image_size", "early_size", "mean", "std"),
}


@dataclass(frozen=True)
class Recipe:
    """Network, optimiser, schedule and augmentation of one base session; the defaults are the paper's."""

    name: str = "paper"

    backbone: str = option("resnet18-tian", "resnet12-tian, resnet18-tian or resnet18-he")
    width: float = option(1.0, "factor on the number of channels")
    se: bool = option(False, "squeeze-and-excitation in every block")
    pool: Literal["max", "blurred"] = option("max", "the largest of 2x2, or these blurred; Tian only")
    dropblock: Literal["paper", "full", "none"] = option("paper", "blocks of size 1, of 5 (full), or none; Tian only")
    drop_rate: float = option(0.1, "rate of dropout and DropBlock")
    drop_ramp: int = option(40_000, "training steps over which DropBlock's rate grows to drop_rate")
    head: Literal["linear", "cosine", "euclidean"] = option("linear", "products, cosines or distances to class rows")
    head_scale: float = option(16.0, "scale of a cosine head")
    members: int = option(1, "networks with seeds of their own, trained in turn and joined into one")
    varied: tuple[str, ...] = option((), "what members differ in beside their seed, in turn: jitter=0.4/0.4/0")
    kept_features: int = option(640, "features kept of all members together, the principal ones; 0: all")

    epochs: int = option(100, "passes over the training images; the last incomplete batch of a pass is left out")
    batch_size: int = option(64, "images per step, over all processes")
    optimiser: Literal["sgd", "muon"] = option("sgd", "SGD for all parameters, or Muon for kernels of convolutions")
    learning_rate: float = option(0.05, "rate of SGD before the schedule")
    kernel_rate: float = option(0.01, "share of its length by which muon moves a kernel in a step, before the schedule")
    momentum: float = option(0.9, "momentum of SGD")
    weight_decay: float = option(5e-4, "weight decay of SGD")
    schedule: Literal["cuts", "cosine"] = option("cuts", "multiply at the cuts, or half a cosine down to zero")
    cuts: tuple[int, ...] = option((60, 80), "epochs at which the rate is multiplied by cut_factor")
    cut_factor: float = option(0.1, "factor at each cut")

    crop_size: int = option(84, "pixels on a side that the network sees in training")
    image_size: int = option(0, "pixels on a side of the images, of which crops are taken; 0: crop_size")
    early_size: int = option(0, "pixels on a side that it sees in the first two thirds of the epochs; 0: crop_size")
    padding: int = option(8, "black border around an image before the random crop")
    flip: bool = option(True, "mirror half of the images")
    jitter: float = option(0.4, "range of brightness, contrast and saturation factors, in random order per image")
    resized_share: float = option(0.0, "share of images cropped by area and resized instead of padded")
    resized_min: float = option(0.35, "smallest area of such a crop")
    cutmix: float = option(0.0, "share of images in which a box comes from another image")
    mean: tuple[float, ...] = option(MEAN, "mean of each channel, subtracted")
    std: tuple[float, ...] = option(STD, "standard deviation of each channel, divided by")

    precision: Literal["auto", "bf16", "fp32"] = option("auto", "of the network; auto: bf16 on a GPU, else fp32")

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, float) or name in ("mean", "std"):
                finite(value, name)
        check_options(
            self,
            positive=("width", "learning_rate", "kernel_rate", "head_scale", "cut_factor"),
            not_negative=("weight_decay",),
            at_least={
                1: ("epochs", "batch_size", "crop_size", "drop_ramp", "members"),
                0: ("image_size", "early_size", "padding", "kept_features"),
            },
            shares=("resized_share", "resized_min", "cutmix", "jitter"),
            below_one=("momentum", "drop_rate"),
        )
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise ValueError(f"mean and std must be three numbers, std positive; got {self.mean}, {self.std}")
        if self.pool != "max" and not self.backbone.endswith("-tian"):
            raise ValueError(f"pool '{self.pool}' is one of Tian's networks; {self.backbone} has pools of its own")
        if self.backbone.endswith("-tian") and self.crop_size < 16:
            raise ValueError(f"crop_size must be at least 16 for {self.backbone}; got {self.crop_size}")
        self.check_size(self.stored_size)
        if self.early_size and not 16 <= self.early_size <= self.crop_size:
            raise ValueError(f"early_size must be 0 or in [16, crop_size {self.crop_size}]; got {self.early_size}")
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
        """The inverse of :meth:`to_dict`; of a record of another version, fields that are unknown here are left aside.

        What they made of a network shows in its weights, which do not fit another one.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        kept: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in known}
        return cls(**kept)

    @property
    def stored_size(self) -> int:
        """Pixels on a side of the images as they are kept, and seen when they are not augmented."""
        return self.image_size or self.crop_size

    def check_size(self, size: int) -> None:
        """Refuse images of fewer pixels on a side than the crops."""
        if size < self.crop_size:
            raise ValueError(f"images of {size} pixels are smaller than the crops of {self.crop_size}")

    def size_at(self, epoch: int) -> int:
        """Pixels on a side of the images of an epoch, counted from 0."""
        early = self.early_size > 0 and epoch < int(2 / 3 * self.epochs)
        return self.early_size if early else self.crop_size


def member_seed(seed: int, member: int) -> int:
    """The seed of a member of a joined network, counted from 0."""
    return derive_seed(seed, "member", member)


def member_recipe(recipe: Recipe, member: int = 0) -> Recipe:
    """The recipe of one member of a joined network, counted from 0; a recipe of one network is its own."""
    alone = {name: getattr(Recipe, name) for name in ("members", "varied", "kept_features")}
    return dataclasses.replace(recipe, **alone, **varied_values(recipe.varied, member))


def varied_values(varied: Sequence[str], member: int) -> dict[str, Any]:
    """What sets one member, counted from 0, apart from the others, by field."""
    kinds = {name: kind for name, kind in get_type_hints(Recipe).items() if name not in _SHARED}
    values: dict[str, Any] = {}
    for entry in varied:
        name, _, listed = entry.partition("=")
        if name not in kinds:
            raise ValueError(f"members may differ in {', '.join(kinds)}; got varied {entry!r}")
        choices = listed.split("/")
        values[name] = converted(f"varied {name}", choices[member % len(choices)], kinds[name])
    return values


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
    "small": dataclasses.replace(  # for two cores and a quarter of an hour: benchmarks/make_network.py
        PAPER,
        name="small",
        backbone="resnet18-he",
        width=0.375,
        optimiser="muon",
        kernel_rate=0.016,
        head="cosine",
        schedule="cosine",
        cuts=(),
        epochs=14,
        early_size=48,
        jitter=0.0,
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
