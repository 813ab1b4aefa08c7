"""A residual network in two parts: what stays as it is, and a tail that something may train further.

Maps of images between the two are computed once; one after the other the parts are the whole network, bit for bit in
evaluation mode.
"""

from collections.abc import Iterable
from typing import Literal, get_args

from torch import Tensor, nn

from subspan.backbones.joined import JoinedBackbone
from subspan.backbones.parts.blocks import ResidualNetwork
from subspan.backbones.parts.drop import Clock

Where = Literal["stage", "unit"]


class Trunk(nn.Module):
    """Images (n, 3, h, w) to the maps (n, c, h', w') before the cut: a stem, if the network has one, and units."""

    def __init__(self, units: Iterable[nn.Module], clock: Clock | None, stem: Iterable[nn.Module] = ()) -> None:
        super().__init__()
        self.units, self.clock, self.stem = nn.ModuleList(units), clock, nn.Sequential(*stem)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, h, w) to (n, c, h', w')."""
        x = self.stem(x)
        for unit in self.units:
            x = unit(x, self.clock)
        return x


class Tail(Trunk):
    """Maps (n, c, h, w) before the cut to features (n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) to (n, d)."""
        return super().forward(x).mean((2, 3))


def cut(backbone: nn.Module, where: Where) -> tuple[Trunk, Tail]:
    """Both parts of a residual network, with its own weights: the tail is its last stage, or only its last unit."""
    if where not in get_args(Where):
        raise ValueError(f"a network is cut before its last {' or '.join(get_args(Where))}, got {where!r}")
    if isinstance(backbone, JoinedBackbone):
        raise ValueError("a joined network is not cut; take one of its members: RUN/member-1 in place of RUN")
    if not isinstance(backbone, ResidualNetwork):
        raise ValueError(
            f"only the residual networks of Tian et al. and of He et al. are cut, got a {type(backbone).__name__}"
        )
    stages, mode = backbone.stages(), backbone.training
    tail = stages[-1] if where == "stage" else stages[-1][-1:]
    units = [unit for stage in stages for unit in stage][: -len(tail)]
    return Trunk(units, backbone.clock, backbone.stem()).train(mode), Tail(tail, backbone.clock).train(mode)
