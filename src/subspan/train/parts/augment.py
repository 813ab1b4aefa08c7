"""Augmentation of whole batches on the device: gather, crop, jitter, flip, scale, mix; no host synchronisation.

Every number is hashed from (seed, step, place in the global batch), so that a batch is the same after a resume, on
every device and however many processes share it (mixing alone pairs images within one process). Order of operations as
in the released code: crop with black padding, colour jitter (brightness, contrast, saturation in random order per
image), flip.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import grid_sample, interpolate

from subspan.backbones.parts.noise import fold, make_key, uniform
from subspan.train.recipe import Recipe

# One stream of random numbers per decision.
_TOP, _LEFT, _FLIP, _ORDER, _FACTORS, _RESIZE, _AREA, _ASPECT = range(8)
_MIX, _SHARE, _BOX, _PARTNER = range(10, 14)
_GRAY = (0.299, 0.587, 0.114)  # luma weights of Pillow's mode L
_ORDERS = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
_VARIED = ("jitter", "resized_share", "cutmix")


class Augment(nn.Module):
    """Index a store of uint8 images (N, h, w, 3) and give an augmented, normalised batch (b, 3, s, s)."""

    mean: Tensor  # (3,)
    std: Tensor  # (3,)
    luma: Tensor  # (3,)
    orders: Tensor  # (6, 3): orders of brightness (0), contrast (1) and saturation (2)
    key: Tensor  # ()
    jitter: Tensor  # (): as the recipe has it, and so on
    resized_share: Tensor  # ()
    cutmix: Tensor  # ()

    def __init__(self, recipe: Recipe, seed: int) -> None:
        super().__init__()
        self.recipe = recipe
        # Tensors made while a CUDA graph is captured would be copied from the host; so all constants are buffers. What
        # members may differ in is one, too: compiled code then serves them all.
        for name in (*_VARIED, "mean", "std"):
            self.register_buffer(name, torch.tensor(getattr(recipe, name), dtype=torch.float32))
        self._does = {name: getattr(recipe, name) > 0 for name in _VARIED}
        self.register_buffer("luma", torch.tensor(_GRAY, dtype=torch.float32))
        self.register_buffer("orders", torch.tensor(_ORDERS))
        self.register_buffer("key", make_key(seed))

    def forward(
        self, store: Tensor, rows: Tensor, step: Tensor, place: Tensor, size: int | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Augment the images ``store[rows]`` of uint8 (N, h, w, 3), rows (b,).

        Numbers are drawn by the count of training steps () and the places (b,) in the global batch. With a ``size``,
        images are scaled down to so many pixels on a side.

        Returns images (b, 3, s, s), the places (b,) in the batch of the images mixed in, and the share of an image that
        is its own, () or (b,).
        """
        recipe, key = self.recipe, fold(self.key, step)
        pixels = self.crop(store, rows, key, place)
        if self._does["jitter"]:
            order = self.orders[_integers(fold(key, _ORDER), place, len(self.orders))]
            factors = torch.stack([uniform(fold(key, _FACTORS * 16 + i), place) for i in range(3)], dim=1)
            pixels = jitter(pixels, order, 1 + self.jitter * (2 * factors - 1), self.luma)
        if recipe.flip:
            mirrored = uniform(fold(key, _FLIP), place) < 0.5
            pixels = torch.where(mirrored[:, None, None, None], pixels.flip(2), pixels)
        images = ((pixels - self.mean) / self.std).permute(0, 3, 1, 2)  # channels stay last in memory
        images = scale_down(images, size or recipe.crop_size)
        if self._does["cutmix"]:
            return self.mix(images, key, place)
        return images, torch.arange(len(rows), device=rows.device), torch.ones((), device=rows.device)

    def crop(self, store: Tensor, rows: Tensor, key: Tensor, place: Tensor) -> Tensor:
        """Random crops (b, s, s, 3) in [0, 1]: padded, or for a share of the images by area and resized."""
        recipe, size = self.recipe, self.recipe.crop_size
        height, width = store.shape[1:3]
        spare = 2 * recipe.padding - size + 1
        top = _integers(fold(key, _TOP), place, height + spare) - recipe.padding
        left = _integers(fold(key, _LEFT), place, width + spare) - recipe.padding
        padded = gather_padded(store, rows, top, left, size)
        if not self._does["resized_share"]:
            return padded
        area = recipe.resized_min + (1 - recipe.resized_min) * uniform(fold(key, _AREA), place)
        aspect = torch.exp((2 * uniform(fold(key, _ASPECT), place) - 1) * 0.28768207)  # log(4 / 3)
        high = (height * torch.sqrt(area / aspect)).clamp(1, height)
        wide = (width * torch.sqrt(area * aspect)).clamp(1, width)
        down = uniform(fold(key, _TOP), place) * (height - high)
        right = uniform(fold(key, _LEFT), place) * (width - wide)
        resized = gather_resized(store, rows, down, right, high, wide, size)
        by_area = uniform(fold(key, _RESIZE), place) < self.resized_share
        return torch.where(by_area[:, None, None, None], resized, padded)

    def mix(self, images: Tensor, key: Tensor, place: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """CutMix (Yun et al., ICCV 2019): a box for each image, its area uniform before the border cuts it."""
        count, size = len(images), images.shape[-1]
        mixed = uniform(fold(key, _MIX), place) < self.cutmix
        side = size * torch.sqrt(uniform(fold(key, _SHARE), place)) * mixed
        line = torch.arange(size, device=images.device)
        inside = []
        for axis in range(2):
            centre = uniform(fold(key, _BOX * 16 + axis), place) * size
            first, end = (torch.floor(centre + way * side / 2)[:, None] for way in (-1, 1))
            inside.append((line >= first) & (line < end))  # (b, s)
        box = inside[0][:, :, None] & inside[1][:, None, :]  # (b, s, s)
        # The batch is in random order already: a random rotation of it pairs images as well as a permutation.
        one = torch.zeros((), dtype=torch.int32, device=images.device)
        shift = 1 + _integers(fold(key, _PARTNER), one, max(count - 1, 1))
        partner = (torch.arange(count, device=images.device) + shift) % count
        share = 1 - box.sum((1, 2)) / (size * size)
        return torch.where(box[:, None], images[partner], images), partner, share


def _integers(key: Tensor, position: Tensor, limit: int) -> Tensor:
    """int64 numbers in 0 .. limit - 1."""
    return (uniform(key, position) * limit).to(torch.int64)


def gather_padded(store: Tensor, rows: Tensor, top: Tensor, left: Tensor, size: int) -> Tensor:
    """Windows (b, size, size, 3) in [0, 1] of ``store[rows]`` with corners ``top``, ``left`` (b,); black outside."""
    height, width = store.shape[1:3]
    line = torch.arange(size, device=store.device)
    y, x = top[:, None] + line, left[:, None] + line  # (b, size)
    inside = ((y >= 0) & (y < height))[:, :, None] & ((x >= 0) & (x < width))[:, None, :]
    y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    pixels = store[rows[:, None, None], y[:, :, None], x[:, None, :]]
    return pixels.to(torch.float32) * (inside[..., None] * (1 / 255))


def gather_resized(
    store: Tensor, rows: Tensor, top: Tensor, left: Tensor, height: Tensor, width: Tensor, size: int
) -> Tensor:
    """Windows of real corners and sizes (b,), resized bilinearly to (b, size, size, 3) in [0, 1].

    Sampling is at pixel centres and stops at the borders of the window, as when the window is cut out first.
    """
    line = (torch.arange(size, device=store.device) + 0.5) / size
    places = []
    for start, length, whole in ((left, width, store.shape[2]), (top, height, store.shape[1])):
        at = (start[:, None] + length[:, None] * line - 0.5).clamp(start[:, None], (start + length - 1)[:, None])
        places.append((2 * at + 1) / whole - 1)  # as grid_sample counts: -1 and 1 are the borders of the image
    across, down = places
    grid = torch.stack(torch.broadcast_tensors(across[:, None, :], down[:, :, None]), dim=-1)
    images = store[rows].permute(0, 3, 1, 2).float()
    return grid_sample(images, grid, padding_mode="border", align_corners=False).permute(0, 2, 3, 1) * (1 / 255)


def scale_down(images: Tensor, size: int) -> Tensor:
    """Images (b, 3, s, s) to (b, 3, size, size), each pixel a weighted mean of those it covers; channels last."""
    if images.shape[-1] == size:
        return images
    smaller = interpolate(images, size=(size, size), mode="bilinear", antialias=True, align_corners=False)
    return smaller.contiguous(memory_format=torch.channels_last)


def jitter(pixels: Tensor, order: Tensor, factors: Tensor, luma: Tensor) -> Tensor:
    """Blend pixels (b, s, s, 3) with black (0), the mean grey (1) and their own grey (2), in an order (b, 3).

    ``factors`` (b, 3) are the weights of the pixels in blend 0, 1 and 2; above 1 they extrapolate, and values are cut
    to [0, 1]. ``luma`` (3,) are the weights of red, green and blue.
    """
    for place in range(3):
        kind = order[:, place]
        factor = factors.gather(1, kind[:, None])[:, :, None, None]
        gray = (pixels * luma).sum(-1, keepdim=True)
        mean = gray.mean((1, 2, 3), keepdim=True)
        kind = kind[:, None, None, None]
        target = torch.where(kind == 0, 0.0, torch.where(kind == 1, mean, gray))
        pixels = (factor * pixels + (1 - factor) * target).clamp(0, 1)
    return pixels
