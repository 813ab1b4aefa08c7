"""Runs of several networks: each member is trained as it would be alone, and joined they are one network like any."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from colour_classes import CLASSES, IMAGES, assert_same, colour_job, tiny_recipe, weights
from colour_classes import run as train_one

from subspan.backbones.cut import cut
from subspan.backbones.joined import JoinedBackbone
from subspan.backbones.network import feature_dim
from subspan.train.extract import Extractor
from subspan.train.recipe import Recipe, member_seed
from subspan.train.run import load_run
from subspan.train.trainer import Outcome
from subspan.values import normalised

JOINED: dict[str, Any] = {"head": "cosine", "members": 2, "kept_features": 10}
PIXELS = torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(0))
Copied = Callable[[Path | Outcome], Path]


def run(folder: Path, *, resume: bool = False, **changes: object) -> Outcome:
    return train_one(folder, resume=resume, about={"resumed": resume}, **{**JOINED, **changes})


def test_members_are_the_networks_that_their_seeds_and_recipes_give_alone(tmp_path: Path, joined: Outcome) -> None:
    varied = "head_scale=16/10", "pool=max/blurred", "jitter=0.4/0"
    outcome, folder = run(tmp_path / "joined", varied=varied, kept_features=0), tmp_path / "joined"
    for member, changes in enumerate(({}, {"head_scale": 10.0, "pool": "blurred", "jitter": 0.0})):
        alone, own = tmp_path / f"alone-{member}", folder / f"member-{member + 1}"
        run(alone, seed=member_seed(1, member), members=1, kept_features=640, **changes)
        assert_same(own, alone)
        assert load_run(own)[1].recipe == load_run(alone)[1].recipe
    assert_same(joined.job.folder / "member-1", tmp_path / "alone-0")  # whatever the other member is
    with torch.no_grad():
        cosines = [load_run(tmp_path / f"alone-{i}")[0](PIXELS) / scale for i, scale in enumerate((16.0, 10.0))]
        found = outcome.network.eval()(PIXELS) / 13
    torch.testing.assert_close(found, torch.stack(cosines).mean(0), rtol=1e-4, atol=1e-5)
    before = weights(folder)
    run(folder, varied=varied, kept_features=0, resume=True)
    assert all(torch.equal(before[name], value) for name, value in weights(folder).items())
    with pytest.raises(ValueError, match=r"cannot be resumed: its pool is 'blurred', asked for is 'max'"):
        run(folder, varied=varied[::2], kept_features=0, resume=True)


def test_a_joined_run_records_itself_and_its_members(joined: Outcome) -> None:
    folder = joined.job.folder
    results = json.loads((folder / "run.json").read_text())["results"]
    own = [json.loads((folder / f"member-{i}" / "run.json").read_text())["results"] for i in (1, 2)]
    assert results == joined.results
    assert results["members"] == own
    rows, labels = colour_job(folder).test
    shown = normalised(torch.from_numpy(IMAGES[rows]), tiny_recipe().mean, tiny_recipe().std)
    with torch.no_grad():
        right = joined.network.eval()(shown).argmax(1).numpy() == labels
    assert results["test"] == pytest.approx(100 * right.mean())


def test_what_is_kept_holds_most_of_the_training_images(joined: Outcome) -> None:
    """Against numpy's singular vectors, in double precision, of features computed one member at a time."""
    recipe, folder = tiny_recipe(**JOINED), joined.job.folder
    rows, _ = colour_job(folder).train
    shown = normalised(torch.from_numpy(IMAGES[rows]), recipe.mean, recipe.std)
    parts = []
    for member in (1, 2):
        network, _ = load_run(folder / f"member-{member}")
        with torch.no_grad():
            features = network.features(shown).double().numpy()
        parts.append(features / np.linalg.norm(features, axis=1, keepdims=True) / np.sqrt(2))
    side_by_side = np.concatenate(parts, axis=1)
    _, sizes, directions = np.linalg.svd(side_by_side, full_matrices=False)
    backbone = joined.network.backbone
    assert isinstance(backbone, JoinedBackbone)
    assert backbone.projection is not None
    projection = backbone.projection.double().numpy()
    np.testing.assert_allclose(projection.T @ projection, np.eye(10), atol=1e-5)
    kept = np.linalg.norm(side_by_side @ projection) ** 2
    assert kept == pytest.approx((sizes[:10] ** 2).sum(), rel=1e-5)
    assert kept < (sizes**2).sum()
    overlap = np.abs(np.sum(directions[:3].T * projection[:, :3], axis=0))
    np.testing.assert_allclose(overlap, 1, atol=1e-3)
    computed = Extractor(joined.network, recipe, IMAGES, device=torch.device("cpu")).plain(rows)
    np.testing.assert_allclose(computed, side_by_side @ projection, atol=1e-5)


def test_with_all_features_kept_logits_are_the_mean_of_the_members(tmp_path: Path) -> None:
    outcome = run(tmp_path, head="linear", kept_features=0, members=3)
    with torch.no_grad():
        own = [load_run(tmp_path / f"member-{i}")[0](PIXELS) for i in (1, 2, 3)]
        joined = outcome.network.eval()(PIXELS)
    torch.testing.assert_close(joined, torch.stack(own).mean(0), rtol=1e-4, atol=1e-4)
    assert joined.shape == (6, CLASSES)


def test_a_stopped_run_goes_on_and_members_may_be_added_later(tmp_path: Path, joined: Outcome, copied: Copied) -> None:
    run(tmp_path / "whole", members=3)
    grown = copied(joined)
    kept = [(grown / "member-2" / name).read_bytes() for name in ("log.csv", "run.json", "weights.safetensors")]
    run(grown, resume=True, members=3)
    again = [(grown / "member-2" / name).read_bytes() for name in ("log.csv", "run.json", "weights.safetensors")]
    assert again == kept
    assert_same(grown, tmp_path / "whole")
    (grown / "weights.safetensors").unlink()  # as if killed before the members were joined
    run(grown, resume=True, members=3)
    assert_same(grown, tmp_path / "whole")
    with pytest.raises(ValueError, match="holds a checkpoint already: resume it, or choose another folder"):
        run(grown, members=3)


def test_a_run_at_its_end_is_left_as_it_is_and_joined_anew_where_asked_for_otherwise(
    joined: Outcome, copied: Copied
) -> None:
    folder = copied(joined)
    before = [(folder / name).read_bytes() for name in ("run.json", "weights.safetensors")]
    run(folder, resume=True)  # what it is told about the run differs
    assert [(folder / name).read_bytes() for name in ("run.json", "weights.safetensors")] == before
    run(folder, resume=True, kept_features=6)
    assert weights(folder)["head.weight"].shape[1] == 6


def test_features_kept_of_several_mean_nothing_to_one_network(tmp_path: Path) -> None:
    run(tmp_path, members=1, kept_features=10)
    network, settings = load_run(tmp_path)
    assert settings.recipe.kept_features == Recipe.kept_features
    assert feature_dim(network.backbone) != 10
    run(tmp_path, members=1, kept_features=20, resume=True)


@pytest.mark.parametrize("resume", [False, True])
def test_one_network_and_several_do_not_overwrite_each_other(
    trained: Outcome, joined: Outcome, copied: Copied, resume: bool
) -> None:
    one, two = copied(trained), copied(joined.job.folder / "..")
    with pytest.raises(ValueError, match=r"holds one network, not several \(members=2\): choose another"):
        run(one, resume=resume)
    with pytest.raises(ValueError, match=r"holds several, not one network \(members=1\): choose another"):
        run(two / "run", members=1, resume=resume)
    assert_same(one, trained.job.folder)
    assert_same(two / "run", joined.job.folder)


def test_systems_that_move_the_network_say_that_they_need_a_single_one(joined: Outcome) -> None:
    with pytest.raises(ValueError, match="a joined network is not cut; take one of its members: RUN/member-1"):
        cut(joined.network.backbone, "stage")
