"""Members that learn together: each from the labels, and from what the others answer to the same images.

What another network gives to the wrong classes says how alike classes are, and that helps new classes as well as old
ones. The target of a member is a mean of the label and of the others' mean probabilities, which are constants to it.
All see the same augmented images, in the same order; they differ by their first weights and their dropout.

Reference: Zhang et al., Deep mutual learning, CVPR 2018 (there the two losses are added; here their weights sum to one,
so that a step is as long as that of a member alone).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from subspan.backbones import Mixing, Network
from subspan.train.seeds import member_seed


class MutualMembers(nn.Module):
    """Several networks in training: images (n, 3, h, w) to the logits of each, (k, n, C)."""

    def __init__(self, members: Sequence[Network]) -> None:
        super().__init__()
        self._members = nn.ModuleList(members)

    @property
    def members(self) -> list[Network]:
        """The networks."""
        return [member for member in self._members if isinstance(member, Network)]

    def forward(self, images: Tensor, mixing: Mixing | None = None) -> Tensor:
        """(n, 3, h, w) to (k, n, C)."""
        return torch.stack([member(images, mixing) for member in self._members])

    def tick(self) -> None:
        """Begin a training step."""
        for member in self.members:
            member.tick()

    def reseed(self, seed: int) -> None:
        """Key the noise of every member by ``seed``."""
        for i, member in enumerate(self.members):
            member.reseed(member_seed(seed, i))


def agreement_loss(logits: Tensor) -> Tensor:
    """Sum () over k members of the mean cross-entropy of logits (k, n, C) by the others' mean probabilities."""
    own = functional.log_softmax(logits.float(), dim=2)
    answers = own.detach().exp()
    others = (answers.sum(0) - answers) / (len(logits) - 1)
    return -(others * own).sum(2).mean(1).sum()
