"""Runs of several networks: each member is trained as it would be alone, and joined they are one network like any."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from colour_classes import CLASSES, colour_images, colour_job, tiny_recipe

from subspan.backbones.checkpoint import read_tensors
from subspan.backbones.cut import cut
from subspan.backbones.joined import JoinedBackbone
from subspan.backbones.network import feature_dim
from subspan.train.extract import Extractor
from subspan.train.recipe import Recipe
from subspan.train.run import load_run
from subspan.train.network import member_seed
from subspan.train.trainer import Outcome, Runtime, train
from subspan.values import normalised

QUICK = Runtime(device="cpu", progress=False, checkpoint_every=1, validate_every=2)
CPU = torch.device("cpu")


def recipe(**changes: object) -> Recipe:
    return tiny_recipe(**{"head": "cosine", "epochs": 2, "cuts": (1,), "members": 2, "kept_features": 10, **changes})


def run(folder: Path, *, resume: bool = False, **changes: object) -> Outcome:
    images, _ = colour_images()
    about = {"resumed": resume}
    return train(images, [colour_job(folder)], recipe(**changes), QUICK, resume=resume, about=about)[0]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_tensors(folder / "weights.safetensors")[0]


def test_members_are_the_networks_that_their_seeds_give_alone(tmp_path: Path) -> None:
    images, _ = colour_images()
    run(tmp_path / "joined")
    for member in range(2):
        alone = tmp_path / f"alone-{member}"
        job = colour_job(alone, member_seed(1, member))
        train(images, [job], recipe(members=1, kept_features=640), QUICK)
        own, expected = weights(tmp_path / "joined" / f"member-{member + 1}"), weights(alone)
        assert own.keys() == expected.keys()
        assert all(torch.equal(own[name], expected[name]) for name in own)
    first, second = (weights(tmp_path / "joined" / f"member-{i}")["head.weight"] for i in (1, 2))
    assert not torch.equal(first, second)


def test_members_that_differ_are_the_networks_of_their_own_recipes(tmp_path: Path) -> None:
    images, _ = colour_images()
    varied = "head_scale=16/10", "pool=max/blurred", "jitter=0.4/0"
    outcome = run(tmp_path / "joined", varied=varied, kept_features=0)
    for member, changes in enumerate(({}, {"head_scale": 10.0, "pool": "blurred", "jitter": 0.0})):
        alone, own = tmp_path / f"alone-{member}", tmp_path / "joined" / f"member-{member + 1}"
        train(images, [colour_job(alone, member_seed(1, member))], recipe(members=1, **changes), QUICK)
        assert all(torch.equal(weights(own)[name], value) for name, value in weights(alone).items())
        assert load_run(own)[1].recipe == load_run(alone)[1].recipe
    before = weights(tmp_path / "joined")
    run(tmp_path / "joined", varied=varied, kept_features=0, resume=True)
    assert all(torch.equal(before[name], value) for name, value in weights(tmp_path / "joined").items())
    pixels = torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        cosines = [load_run(tmp_path / f"alone-{i}")[0](pixels) / scale for i, scale in enumerate((16.0, 10.0))]
        torch.testing.assert_close(
            outcome.network.eval()(pixels) / 13, torch.stack(cosines).mean(0), rtol=1e-4, atol=1e-5
        )
    with pytest.raises(ValueError, match=r"cannot be resumed: its pool is 'blurred', asked for is 'max'"):
        run(tmp_path / "joined", varied=varied[::2], kept_features=0, resume=True)


def test_a_joined_run_records_itself_and_its_members(tmp_path: Path) -> None:
    outcome = run(tmp_path, epochs=8, cuts=(6,), jitter=0.0)
    assert outcome.test >= 90
    results = json.loads((tmp_path / "run.json").read_text())["results"]
    assert (results["validation"], results["test"]) == (outcome.validation, outcome.test)
    own = [json.loads((tmp_path / f"member-{i}" / "run.json").read_text())["results"] for i in (1, 2)]
    assert results["members"] == own


def test_what_is_kept_holds_most_of_the_training_images(tmp_path: Path) -> None:
    """Against numpy's singular vectors, in double precision, of features computed one member at a time."""
    images, _ = colour_images()
    outcome = run(tmp_path, kept_features=7)
    rows = colour_job(tmp_path).train_rows
    shown = normalised(torch.from_numpy(images[rows]), recipe().mean, recipe().std)
    parts = []
    for member in (1, 2):
        network, _ = load_run(tmp_path / f"member-{member}")
        with torch.no_grad():
            features = network.features(shown).double().numpy()
        parts.append(features / np.linalg.norm(features, axis=1, keepdims=True) / np.sqrt(2))
    side_by_side = np.concatenate(parts, axis=1)
    _, sizes, directions = np.linalg.svd(side_by_side, full_matrices=False)
    backbone = outcome.network.backbone
    assert isinstance(backbone, JoinedBackbone)
    assert backbone.projection is not None
    projection = backbone.projection.double().numpy()
    np.testing.assert_allclose(projection.T @ projection, np.eye(7), atol=1e-5)
    kept = np.linalg.norm(side_by_side @ projection) ** 2
    assert kept == pytest.approx((sizes[:7] ** 2).sum(), rel=1e-5)
    assert kept < (sizes**2).sum()
    overlap = np.abs(np.sum(directions[:3].T * projection[:, :3], axis=0))
    np.testing.assert_allclose(overlap, 1, atol=1e-3)
    computed = Extractor(outcome.network, recipe(), images, device=CPU).plain(rows)
    np.testing.assert_allclose(computed, side_by_side @ projection, atol=1e-5)


@pytest.mark.parametrize("head", ["cosine", "linear"])
def test_with_all_features_kept_logits_are_the_mean_of_the_members(tmp_path: Path, head: str) -> None:
    outcome = run(tmp_path, head=head, kept_features=0, head_bias=head == "linear", members=3, rotation_share=0.5)
    pixels = torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        own = [load_run(tmp_path / f"member-{i}")[0](pixels) for i in (1, 2, 3)]
        joined = outcome.network.eval()(pixels)
    torch.testing.assert_close(joined, torch.stack(own).mean(0), rtol=1e-4, atol=1e-4)
    assert joined.shape == (6, 4 * CLASSES)


def test_a_stopped_run_goes_on_and_members_may_be_added_later(tmp_path: Path) -> None:
    run(tmp_path / "whole", members=3)
    run(tmp_path / "grown")
    before = weights(tmp_path / "grown" / "member-2")
    records = ("log.csv", "run.json")
    kept = [(tmp_path / "grown" / "member-2" / name).read_text() for name in records]
    run(tmp_path / "grown", resume=True, members=3)
    assert [(tmp_path / "grown" / "member-2" / name).read_text() for name in records] == kept
    assert all(torch.equal(before[name], value) for name, value in weights(tmp_path / "grown" / "member-2").items())
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "grown")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    (tmp_path / "grown" / "weights.safetensors").unlink()  # as if killed before the members were joined
    run(tmp_path / "grown", resume=True, members=3)
    assert all(torch.equal(one[name], value) for name, value in weights(tmp_path / "grown").items())
    with pytest.raises(ValueError, match="holds a checkpoint already: resume it, or choose another folder"):
        run(tmp_path / "grown", members=3)


def test_a_run_at_its_end_is_left_as_it_is_and_joined_anew_where_asked_for_otherwise(tmp_path: Path) -> None:
    run(tmp_path)
    records = [tmp_path / name for name in ("run.json", "weights.safetensors")]
    before = [record.read_bytes() for record in records]
    run(tmp_path, resume=True)  # what it is told about the run differs
    assert [record.read_bytes() for record in records] == before
    run(tmp_path, resume=True, kept_features=6)
    assert weights(tmp_path)["head.weight"].shape[1] == 6


def test_features_kept_of_several_mean_nothing_to_one_network(tmp_path: Path) -> None:
    run(tmp_path, members=1, kept_features=10)
    network, settings = load_run(tmp_path)
    assert settings.recipe.kept_features == Recipe.kept_features
    assert feature_dim(network.backbone) != 10
    run(tmp_path, members=1, kept_features=20, resume=True)


def test_one_network_and_several_do_not_overwrite_each_other(tmp_path: Path) -> None:
    run(tmp_path / "one", members=1)
    run(tmp_path / "two")
    before = [weights(tmp_path / name) for name in ("one", "two")]
    for resume in (False, True):
        with pytest.raises(ValueError, match=r"one holds one network, not several \(members=2\): choose another"):
            run(tmp_path / "one", resume=resume)
        with pytest.raises(ValueError, match=r"two holds several, not one network \(members=1\): choose another"):
            run(tmp_path / "two", members=1, resume=resume)
    for name, old in zip(("one", "two"), before, strict=True):
        assert all(torch.equal(old[key], value) for key, value in weights(tmp_path / name).items())


def test_systems_that_move_the_network_say_that_they_need_a_single_one(tmp_path: Path) -> None:
    outcome = run(tmp_path)
    with pytest.raises(ValueError, match="a joined network is not cut; take one of its members: RUN/member-1"):
        cut(outcome.network.backbone, "stage")
