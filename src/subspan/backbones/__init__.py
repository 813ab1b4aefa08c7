"""Networks: any module from images (n, 3, h, w) to features (n, d) is a backbone; these are the ones the field uses."""

from subspan.backbones import he as _he
from subspan.backbones import tian as _tian
from subspan.backbones.blocks import Statistics, use_statistics
from subspan.backbones.heads import CosineHead, EuclideanHead, LinearHead, create_head
from subspan.backbones.network import Network, feature_dim
from subspan.backbones.registry import create_backbone, list_backbones, register_backbone

__all__ = [
    "CosineHead",
    "EuclideanHead",
    "LinearHead",
    "Network",
    "Statistics",
    "create_backbone",
    "create_head",
    "feature_dim",
    "list_backbones",
    "register_backbone",
    "use_statistics",
]

del _he, _tian  # imported so that they register themselves
