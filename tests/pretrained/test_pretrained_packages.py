"""timm, open_clip and transformers: with stand-ins that ask for torchvision as they do, and themselves where installed.

None of the three is installed by `make test`: pip would bring torchvision along, whose wheel breaks beside a torch
without CUDA. `pip install --no-deps timm open_clip_torch transformers huggingface_hub ...` makes the last tests run.
"""

import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.options import CatalogueOptions
from subspan.pretrained.backbone import BackboneError, Preprocessing
from subspan.pretrained.registry import load_backbone
from subspan.pretrained.without_torchvision import importable_without_torchvision

# What the packages ask of torchvision while they are imported, in all the ways they ask it.
ASKING = """
import torchvision.transforms as transforms
import torchvision.transforms.functional as F
from torchvision.ops.misc import FrozenBatchNorm2d
from torchvision.transforms import Compose, InterpolationMode

class MaybeToTensor(transforms.ToTensor):
    pass

MODES = {3: InterpolationMode.BICUBIC, 2: F.InterpolationMode.BILINEAR}
assert not isinstance(3, FrozenBatchNorm2d)
"""
TIMM = (
    ASKING
    + """
import made_photographs as made

asked = []

def create_model(name, pretrained, num_classes):
    asked.append((name, pretrained, num_classes))
    module = made.network()
    module.pretrained_cfg = {"classifier": "head"}
    return module
"""
)
TIMM_DATA = """
def resolve_model_data_config(module):
    return {"input_size": (3, 16, 16), "interpolation": "bilinear", "mean": (0.5,) * 3, "std": (0.25,) * 3,
            "crop_pct": 0.8, "crop_mode": "center"}
"""
# As timm's own did: nobody must call it.
TIMM_MODELS = """
import torch

def load_checkpoint(module, file, filter_fn):
    module.load_state_dict(filter_fn(torch.load(file, weights_only=False), module))
"""
OPEN_CLIP = (
    ASKING
    + """
import logging
import types
from pathlib import Path
import torch
from torch import nn
import made_photographs as made

def list_models():
    return ["ViT-B-32"]

def list_pretrained_tags_by_model(model):
    return ["laion", "openai"]

class Visual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = made.network()
        self.preprocess_cfg = {"size": (16, 16), "mean": (0.4, 0.5, 0.6), "std": (0.2,) * 3, "resize_mode": "squash"}

    def forward(self, images):
        return self.inner(images)

def create_model(name, pretrained):
    logging.error("a line that nobody asked for")
    if pretrained == "openai":
        raise RuntimeError("the hub\\n  cannot be reached")
    if Path(pretrained).is_file():
        torch.load(pretrained, weights_only=False)  # as its versions did
    return types.SimpleNamespace(visual=Visual())
"""
)


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch) -> Iterator[None]:
    """Packages timm and open_clip on the path that import torchvision, which is not there."""
    for package, content in {
        "timm": {"__init__": TIMM, "data": TIMM_DATA, "models": TIMM_MODELS},
        "open_clip": {"__init__": OPEN_CLIP},
    }.items():
        (tmp_path / "packages" / package).mkdir(parents=True)
        for module, code in content.items():
            (tmp_path / "packages" / package / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    before = dict(sys.modules)
    for name in before:
        if name.partition(".")[0] in ("timm", "open_clip"):
            del sys.modules[name]
    yield
    for name in set(sys.modules) - set(before):
        if name.partition(".")[0] in ("timm", "open_clip"):
            del sys.modules[name]
    sys.modules.update(before)


def test_packages_bring_their_own_preprocessing_and_need_no_torchvision(stand_ins, capfd):
    backbone = load_backbone("timm:resnet18.a1")
    assert importlib.import_module("timm").asked == [("resnet18.a1", True, 0)]
    assert backbone.preprocessing == Preprocessing(16, 20, (0.5,) * 3, (0.25,) * 3, "bilinear")
    clip = load_backbone("open_clip:ViT-B-32/laion")
    assert clip.preprocessing == Preprocessing(16, 16, (0.4, 0.5, 0.6), (0.2,) * 3, "bicubic", "squash")
    assert clip.features(made.photographs("red", 2)).shape == (2, made.WIDTH)
    assert not any(name.startswith("torchvision") for name in sys.modules)
    assert "nobody asked for" not in "".join(capfd.readouterr())


def test_weights_may_come_from_a_file_and_must_all_fit(stand_ins, tmp_path: Path, monkeypatch):
    torch.manual_seed(3)
    network = made.network()
    for value in network.parameters():
        nn.init.normal_(value)
    state = {**network.state_dict(), "head.weight": torch.zeros(7, made.WIDTH), "head.bias": torch.zeros(7)}
    torch.save(state, tmp_path / "weights.pth")
    monkeypatch.chdir(tmp_path)
    backbone = load_backbone("timm:tiny@weights.pth")
    assert backbone.name == f"timm:tiny@{tmp_path / 'weights.pth'}"  # found from anywhere
    images = made.photographs("blue", 3)
    pixels = np.stack([backbone.preprocessing.pixels(image) for image in images]).transpose(0, 3, 1, 2) / 255.0
    with torch.no_grad():
        expected = network(torch.tensor((pixels - 0.5) / 0.25, dtype=torch.float32)).numpy()
    np.testing.assert_allclose(backbone.features(images), expected, rtol=1e-4, atol=1e-5)
    del state["0.weight"]
    torch.save(state, tmp_path / "weights.pth")
    with pytest.raises(
        BackboneError, match=r"backbone 'timm:tiny@weights.pth' cannot be loaded: .*Missing key.*0.weight"
    ):
        load_backbone("timm:tiny@weights.pth")


class Code:
    """Runs when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("name", ["timm:tiny", "open_clip:ViT-B-32"])
def test_code_in_a_file_of_weights_is_never_run(stand_ins, tmp_path: Path, name: str, monkeypatch):
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", raising=False)
    torch.save({**made.network().state_dict(), "code": Code(tmp_path / "it ran")}, tmp_path / "w.pth")
    with pytest.raises(BackboneError, match=r"'.*@.*w\.pth' cannot be loaded: .*holds more than tensors") as refused:
        load_backbone(f"{name}@{tmp_path / 'w.pth'}")
    assert "weights_only" not in str(refused.value), "torch advises to run what the file holds"
    assert not (tmp_path / "it ran").exists()
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ  # which holds while a package loads, and no longer


def test_weights_may_be_safetensors_and_nested(stand_ins, tmp_path: Path):
    state = made.network().state_dict()
    save_file(state, tmp_path / "w.safetensors")
    parallel = {f"module.{name}": value for name, value in state.items()}
    torch.save({"epoch": 3, "state_dict": parallel}, tmp_path / "w.pt")
    digests = {load_backbone(f"timm:tiny@{tmp_path / file}").digest for file in ("w.safetensors", "w.pt")}
    assert digests == {made.tiny_backbone().digest}


def test_a_model_of_the_hub_is_named_with_its_commit_and_its_code_never_run(tmp_path: Path, monkeypatch):
    """With a stand-in for transformers that keeps models in a cache as the hub's does."""
    commit = "0123456789" * 4
    asked: list[dict[str, Any]] = []

    def from_pretrained(name: str, **wanted: Any) -> nn.Module:
        asked.append(wanted)
        if wanted["local_files_only"] and wanted["revision"] != commit:
            raise OSError("not in the cache")
        module = made.network()
        module.forward = lambda pixel_values: SimpleNamespace(pooler_output=type(module).forward(module, pixel_values))
        return module

    prepared = {"size": made.SIDE, "do_center_crop": False}
    modules = {
        "transformers": {"AutoModel": SimpleNamespace(from_pretrained=from_pretrained)},
        "transformers.image_processing_base": {
            "ImageProcessingMixin": SimpleNamespace(get_image_processor_dict=lambda name, **_: (prepared, {}))
        },
        "transformers.utils": {
            "logging": SimpleNamespace(
                is_progress_bar_enabled=lambda: False, disable_progress_bar=lambda: None, enable_progress_bar=None
            )
        },
        "transformers.utils.hub": {
            "cached_file": lambda name, file, **_: f"/cache/models--{name}/snapshots/{commit}/{file}",
            "extract_commit_hash": lambda file, _: Path(file).parent.name,
        },
    }
    for module, content in modules.items():
        made_up = ModuleType(module)
        vars(made_up).update(content)
        monkeypatch.setitem(sys.modules, module, made_up)
    assert load_backbone("hf:some/model").name == f"hf:some/model@{commit}"
    assert load_backbone(f"hf:some/model@{commit}").name == f"hf:some/model@{commit}"
    assert [(one["local_files_only"], one["revision"]) for one in asked] == [
        (True, "main"),
        (False, "main"),
        (True, commit),  # which the catalogue asks for later: the same one, from the cache
    ]
    assert all(one["trust_remote_code"] is False and one["weights_only"] for one in asked)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("open_clip:ViT-B-32/openai", "'open_clip:ViT-B-32/openai' cannot be loaded: the hub cannot be reached"),
        ("open_clip:ViT-B-32/nonsense", "knows no weights 'nonsense' of 'ViT-B-32'; it knows laion, openai"),
        ("open_clip:nonsense/openai", "open_clip knows no model 'nonsense'"),
    ],
)
def test_what_a_package_cannot_load_is_one_sentence(stand_ins, name: str, message: str):
    with pytest.raises(BackboneError, match=message) as caught:
        load_backbone(name)
    assert "\n" not in str(caught.value)
    assert logging.root.manager.disable == logging.NOTSET


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"input_size": (3, 16, 32)}, "3 x 16 x 32"),
        ({"input_size": (1, 16, 16)}, "1 x 16 x 16"),
        ({"crop_mode": "border"}, "by 'border'"),
    ],
)
def test_preparation_that_cannot_be_made_here_is_refused(stand_ins, config: dict[str, Any], message: str, monkeypatch):
    data = importlib.import_module("timm.data") if load_backbone("timm:tiny") else None
    usual = data.resolve_model_data_config(None)  # pyright: ignore[reportOptionalMemberAccess]
    monkeypatch.setattr(data, "resolve_model_data_config", lambda module: {**usual, **config})
    with pytest.raises(BackboneError, match=message):
        load_backbone("timm:tiny")


def test_a_torchvision_that_is_broken_stays_so_for_everybody_else(tmp_path: Path, monkeypatch):
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "ops.py").write_text("")
    (tmp_path / "torchvision" / "__init__.py").write_text(
        "import torchvision.ops\nraise RuntimeError('operator torchvision::nms does not exist')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    with importable_without_torchvision():
        from torchvision.ops.misc import FrozenBatchNorm2d  # pyright: ignore[reportMissingImports]
    assert isinstance(FrozenBatchNorm2d, type)
    with pytest.raises(RuntimeError, match="nms does not exist"):
        importlib.import_module("torchvision")
    (tmp_path / "torchvision" / "__init__.py").write_text("whole = True")
    importlib.invalidate_caches()
    with importable_without_torchvision():
        assert importlib.import_module("torchvision").whole  # one that works is left alone
    sys.modules.pop("torchvision", None)


# The packages themselves


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="needs timm, which `make test` leaves out")
def test_timm_itself_with_a_checkpoint_of_its_own(tmp_path: Path):
    with importable_without_torchvision():
        import timm  # pyright: ignore[reportMissingImports]
    torch.manual_seed(0)
    whole = timm.create_model("resnet18", num_classes=7).eval()
    torch.save(whole.state_dict(), tmp_path / "resnet18.pth")
    photographs = {name: made.photographs(name, 6) for name in ("red", "blue")}
    options = CatalogueOptions(backbone=f"timm:resnet18@{tmp_path / 'resnet18.pth'}")
    catalogue, _ = Catalogue.create(tmp_path / "c.subspan", photographs, options)
    backbone = catalogue.backbone
    assert (backbone.dim, backbone.preprocessing.size, backbone.preprocessing.resize) == (512, 224, 235)
    pixels = np.stack([backbone.preprocessing.pixels(image) for image in photographs["red"]])
    with torch.no_grad():
        logits = whole(torch.from_numpy(backbone.preprocessing.inputs(pixels)))
        found = whole.fc(torch.from_numpy(backbone.forward(pixels)))
    torch.testing.assert_close(found, logits, rtol=1e-3, atol=1e-3)


@pytest.mark.skipif(
    importlib.util.find_spec("open_clip") is None, reason="needs open_clip, which `make test` leaves out"
)
def test_open_clip_itself_with_a_checkpoint_of_its_own(tmp_path: Path):
    with importable_without_torchvision():
        import open_clip  # pyright: ignore[reportMissingImports]
    whole = open_clip.create_model("RN50").eval()
    torch.save(whole.state_dict(), tmp_path / "rn50.pt")
    backbone = load_backbone(f"open_clip:RN50@{tmp_path / 'rn50.pt'}")
    pixels = np.stack([backbone.preprocessing.pixels(image) for image in made.photographs("red", 2)])
    with torch.no_grad():
        expected = whole.encode_image(torch.from_numpy(backbone.preprocessing.inputs(pixels))).numpy()
    np.testing.assert_allclose(backbone.forward(pixels), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="needs transformers, which `make test` leaves out"
)
def test_transformers_itself_with_a_folder_of_its_own(tmp_path: Path, monkeypatch):
    from transformers import ViTConfig, ViTModel  # pyright: ignore[reportMissingImports]

    model = ViTModel(
        ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32)
    )
    model.eval().save_pretrained(tmp_path / "vit")
    prepared = '{"size": {"height": 32, "width": 32}, "resample": 2, "image_mean": [0.5, 0.5, 0.5]}'
    (tmp_path / "vit" / "preprocessor_config.json").write_text(prepared)
    monkeypatch.chdir(tmp_path)
    backbone = load_backbone("hf:vit")
    assert backbone.name == f"hf:{tmp_path / 'vit'}"
    assert (backbone.preprocessing.fit, backbone.preprocessing.interpolation) == ("squash", "bilinear")
    pixels = np.stack([backbone.preprocessing.pixels(image) for image in made.photographs("red", 2)])
    with torch.no_grad():
        expected = model(torch.from_numpy(backbone.preprocessing.inputs(pixels))).pooler_output.numpy()
    np.testing.assert_allclose(backbone.forward(pixels), expected, rtol=1e-3, atol=1e-4)
