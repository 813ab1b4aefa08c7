"""The network of a recipe, a backbone and its head, or several joined into one; and stored images as it sees them."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subspan.backbones.heads import create_head
from subspan.backbones.joined import join_networks, principal_directions
from subspan.backbones.network import Network, feature_dim
from subspan.backbones.parts.noise import derive_seed
from subspan.backbones.registry import create_backbone
from subspan.train.recipe import Recipe, member_recipe, member_seed
from subspan.values import normalised

Images = NDArray[np.uint8] | Tensor  # uint8 (n, h, w, 3)

CHUNK = 500  # images at once


def batches(images: Images, rows: NDArray[np.int64], device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """uint8 images[rows] and the rows themselves on the device, ``CHUNK`` at a time."""
    for start in range(0, len(rows), CHUNK):
        chosen = rows[start : start + CHUNK]
        places = torch.from_numpy(chosen)
        pixels = images[places.to(images.device)] if isinstance(images, Tensor) else torch.from_numpy(images[chosen])
        yield pixels.to(device), places.to(device)


def inputs(images: Images, rows: NDArray[np.int64], recipe: Recipe, device: torch.device) -> Iterator[Tensor]:
    """Network inputs (n, 3, h, w) of uint8 images[rows], ``CHUNK`` at a time."""
    for pixels, _ in batches(images, rows, device):
        yield normalised(pixels, recipe.mean, recipe.std)


def build_network(recipe: Recipe, classes: int, seed: int) -> Network:
    """Backbone and head of a recipe for ``classes`` classes, weights and noise keyed by ``seed``.

    A joined network has the shape of a trained one; its map holds nothing yet.
    """
    if recipe.members > 1:
        each = range(recipe.members)
        members = [build_network(member_recipe(recipe, i), classes, member_seed(seed, i)) for i in each]
        width = feature_dim(join_networks(members).backbone)
        kept = recipe.kept_features
        return join_networks(members, torch.zeros(width, kept) if 0 < kept < width else None)
    options: dict[str, object] = {"width": recipe.width, "se": recipe.se}
    if recipe.backbone.endswith("-tian"):  # others have no dropout and no such pools
        options |= {name: getattr(recipe, name) for name in ("dropblock", "drop_rate", "drop_ramp", "pool")}
    backbone = create_backbone(recipe.backbone, seed=derive_seed(seed, "backbone"), **options)
    width, drawn = feature_dim(backbone, recipe.crop_size), derive_seed(seed, "head")
    network = Network(backbone, create_head(recipe.head, width, classes, scale=recipe.head_scale, seed=drawn))
    network.reseed(derive_seed(seed, "noise"))
    return network


@torch.no_grad()
def join_members(
    networks: Sequence[Network], recipe: Recipe, images: Images, rows: NDArray[np.int64], device: torch.device
) -> Network:
    """The joined network; what it keeps of the members' features is what holds most of the images ``rows``."""
    joined = join_networks(networks)
    width = feature_dim(joined.backbone)
    if not 0 < recipe.kept_features < width:
        return joined
    moment = torch.zeros(width, width, dtype=torch.float64, device=device)
    joined.eval()
    for shown in inputs(images, rows, recipe, device):
        features = joined.features(shown).double()
        moment += features.T @ features
    return join_networks(networks, principal_directions(moment / len(rows), recipe.kept_features))
