"""The golden file: what an independent float64 implementation of the sessions gives on one real split.

Ten of its sixteen rows are well posed: all with the ``squared`` old penalty, and ``semantic`` with ``norm``. They are
met exactly: the same steps, accuracies to the digits of the file, norms to 1e-6; and in float32 within 0.3 points.

The other six cannot be met to 1e-6 by anyone but the same program on the same machine. With the ``norm`` penalty SGD
steps over the corner at zero change, back and forth, and every crossing enlarges rounding: a naive loop on full weights
does not agree with itself when its support is put in another order (session 1 of ``subspace-qr`` without memory: 893 or
952 steps; the file says 951; benchmarks/golden_spread.py has sixteen more such loops, from 825 to 984). How far such
runs lie apart was measured with twelve orders of the support:

- *nearly posed* (fine-tuning without memory, subspace with and without): steps and accuracies agree but for a test
  image on the edge, norms to about 1e-5. Steps must be the file's, accuracies within one test image, norms within 4e-5:
  one per cent more beta or gamma moves some norm by 6e-5 to 2e-3, and fails.
- *chaotic* (fine-tuning with memory, subspace-qr with and without): a session ends up to a hundred steps apart,
  accuracies scatter by 0.05 to 0.4 points, norms by 2e-4 to 6e-4. Here the file must look like one more of our own
  orders: within four standard deviations of the mean of eight orders run on the spot, session by session; later
  sessions, of one order, within one point, norms within 0.3 per cent. One per cent more beta is below that noise, in
  anybody's implementation; a fifth more fails in all three, a tenth in two. Gamma hardly matters in these rows. What
  they share with the others is pinned there: QR and its gamma by the ``squared`` rows, memory under ``norm`` by
  semantic and subspace.

The semantic rows need the word vectors in full, which are not ours to pass on. Where they do not lie beside the
checkout, the package's own stand in, whose half precision moves norms by up to 3e-5: they must then meet the bound of
the nearly posed, steps and accuracies as ever.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from subspan.engine import sessions as engine
from subspan.engine.contract import Learner
from subspan.experiments.multi_session import MultiSession, _Run
from subspan.features.feature_set import FeatureSet
from subspan.language.embeddings import class_embeddings
from subspan.language.packaged import names_of_wnids, packaged_embeddings
from subspan.learners.registry import create_method

DATA = Path(__file__).resolve().parents[1] / "data"
VECTORS = Path(__file__).resolve().parents[2] / "shared" / "data" / "language" / "glove300-mini-imagenet.npz"
ROUNDING = 0.0005  # of the file's accuracies, in percent
NEARLY = 4e-5  # share by which norms of nearly posed rows may be off
NAMES = [
    (method, memory, penalty)
    for method in ("finetune", "subspace", "subspace-qr", "semantic")
    for memory in (False, True)
    for penalty in ("norm", "squared")
]
NEARLY_POSED = [("finetune", False, "norm"), ("subspace", False, "norm"), ("subspace", True, "norm")]
CHAOTIC = [("finetune", True, "norm"), ("subspace-qr", False, "norm"), ("subspace-qr", True, "norm")]
WELL_POSED = [name for name in NAMES if name not in NEARLY_POSED + CHAOTIC]
ORDERS, SPREAD_SESSIONS, SESSIONS = 8, 3, 8


def row_id(name) -> str:
    return f"{name[0]}-{'M' if name[1] else 'noM'}-{name[2]}"


@pytest.fixture(scope="module")
def golden():
    rows = json.loads((DATA / "mini-split1-golden.json").read_text())
    found = {(row["method"], row["memory"], row["old_penalty"]): row for row in rows}
    assert sorted(found) == sorted(NAMES)
    return found


@pytest.fixture(scope="module")
def features():
    return FeatureSet.load(DATA / "mini-split1.npz")


@pytest.fixture(scope="module")
def embeddings(features):
    """The word vectors of the golden file: in full where the shared data lies, else in half precision."""
    wnids = features.base_wnids + features.novel_wnids
    names = names_of_wnids(wnids)
    with pytest.warns(UserWarning, match="komondor"):
        return class_embeddings(VECTORS, names) if VECTORS.is_file() else packaged_embeddings("glove300", wnids)


@dataclass
class Measured:
    """What the golden file has, for each order of the support (E)."""

    steps: np.ndarray  # (E, sessions)
    base: np.ndarray  # (E, sessions + 1), in percent
    novel: np.ndarray  # (E, sessions + 1)
    weighted: np.ndarray  # (E, sessions + 1)
    weight_norm: np.ndarray  # (E,)
    row_norms: np.ndarray  # (E, 5)


def method_of(row) -> Learner:
    """The method of a row with the settings the file states for it."""
    name, _, basis = row["method"].partition("-")
    options = {"basis": basis} if basis else {}
    method = create_method(
        name,
        old_penalty=row["old_penalty"],
        gamma=row["gamma"],
        beta_base=row["beta_base"],
        beta_novel=row["beta_novel"],
        learning_rate=row["lr"],
        momentum=row["momentum"],
        weight_decay=row["weight_decay"],
        new_rows="zeros",
        **options,
    )
    assert method == create_method(name, old_penalty=row["old_penalty"], new_rows="zeros", **options), "our defaults"
    return method


class Orders(_Run):
    """The first draw of a file in several orders of its support: the same numbers but for rounding."""

    def __init__(self, count, *arguments) -> None:
        self.count = count
        super().__init__(*arguments)

    def _draw_images(self):
        return super()._draw_images().repeat(self.count, axis=0)

    def _support(self, novel):
        support, labels = super()._support(novel)
        orders = [np.random.default_rng([novel.start, e]).permutation(labels.shape[1]) for e in range(len(labels))]
        orders[0] = np.arange(labels.shape[1])
        chosen = torch.as_tensor(np.stack(orders))
        return support[torch.arange(len(labels))[:, None], chosen], labels.gather(1, chosen)

    def learn(self, session) -> None:
        self.accept(session, engine.learn(self.method, *self.prepare(session)))

    def keep_the_first(self) -> None:
        self.images = self.images[:1]
        self.state = replace(self.state, arrays={name: array[:1] for name, array in self.state.arrays.items()})


def run(features, embeddings, row, *, orders=1, sessions=SESSIONS, dtype="float64") -> Orders:
    protocol = MultiSession(draws=0, dtype=dtype)
    state = Orders(orders, protocol, features, method_of(row), row["memory"], embeddings, torch.device("cpu"))
    for session in range(1, sessions + 1):
        state.learn(session)
    return state


def measure(run: Orders, first: int = 0) -> Measured:
    """Accuracies from plain predictions, from session ``first`` on: 60 base classes, then by fives, 25 images each."""
    base, novel = [], []
    for predicted in run.predictions[first:]:
        right = predicted == run.query_labels[: predicted.shape[1]]
        base.append(100 * right[:, : 60 * 25].mean(1))
        novel.append(100 * right[:, 60 * 25 :].mean(1) if predicted.shape[1] > 60 * 25 else base[-1] * np.nan)
    base, novel = np.stack(base, axis=1), np.stack(novel, axis=1)
    novel_classes = 5 * np.arange(first, first + base.shape[1])
    weighted = (60 * base + np.where(novel_classes, novel, 0) * novel_classes) / (60 + novel_classes)
    rows = run.state.rows.double().numpy()
    return Measured(
        steps=np.stack(run.steps[max(first - 1, 0) :], axis=1),
        base=base,
        novel=novel,
        weighted=np.where(novel_classes, weighted, base),
        weight_norm=np.linalg.norm(rows, axis=(1, 2)),
        row_norms=np.linalg.norm(rows[:, -5:], axis=2),
    )


def accuracies(row, first=0, last=SESSIONS):
    """The file's accuracies from session ``first`` to ``last``, with what one test image is worth in each."""
    sessions = np.arange(first, last + 1)
    images = {
        "base": np.full(len(sessions), 100 / 1500),
        "novel": 100 / (125 * np.maximum(sessions, 1)),
        "weighted": 4 / (60 + 5 * sessions),  # of 25 images of one class
    }
    return {
        name: (np.array([np.nan if a is None else a for a in row[name]])[sessions], image)
        for name, image in images.items()
    }


def assert_within(found, expected, bound) -> None:
    """Every number within its bound; session 0 has no novel accuracy."""
    excess = np.nan_to_num(np.abs(found - expected) - bound, nan=-1)
    assert (excess <= 1e-9).all(), f"found {found}, the file has {expected}, allowed are {bound}"


def norm_bound(name) -> float:
    """How far the norms of a well posed row may be off, as a share."""
    return NEARLY if name[0] == "semantic" and not VECTORS.is_file() else 1e-6


@pytest.mark.parametrize("name", WELL_POSED, ids=row_id)
def test_well_posed(name, golden, features, embeddings):
    row = golden[name]
    found = measure(run(features, embeddings, row))
    assert found.steps[0].tolist() == row["steps"]
    for kind, (expected, _) in accuracies(row).items():
        assert_within(getattr(found, kind)[0], expected, ROUNDING)
    assert_within(found.weight_norm[0] / row["weight_norm"], 1, norm_bound(name))
    assert_within(found.row_norms[0] / row["weight_row_norms_last5"], 1, norm_bound(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", WELL_POSED, ids=row_id)
def test_well_posed_in_float32(name, golden, features, embeddings):
    row = golden[name]
    found = measure(run(features, embeddings, row, dtype="float32"))
    for kind, (expected, _) in accuracies(row).items():
        assert_within(getattr(found, kind)[0], expected, 0.3)


@pytest.mark.parametrize("name", NEARLY_POSED, ids=row_id)
def test_nearly_posed(name, golden, features, embeddings):
    row = golden[name]
    found = measure(run(features, embeddings, row))
    assert found.steps[0].tolist() == row["steps"]
    for kind, (expected, image) in accuracies(row).items():
        assert_within(getattr(found, kind)[0], expected, image + ROUNDING)
    assert_within(found.weight_norm[0] / row["weight_norm"], 1, NEARLY)
    assert_within(found.row_norms[0] / row["weight_row_norms_last5"], 1, NEARLY)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAOTIC, ids=row_id)
def test_chaotic(name, golden, features, embeddings):
    row = golden[name]
    state = run(features, embeddings, row, orders=ORDERS, sessions=SPREAD_SESSIONS)
    found = measure(state)
    compared = accuracies(row, last=SPREAD_SESSIONS) | {"steps": (np.array(row["steps"][:SPREAD_SESSIONS]), 1.0)}
    for kind, (expected, floor) in compared.items():
        ours = getattr(found, kind)
        # The floor is for sessions in which all orders happen to agree: one test image, or one step.
        assert_within(ours.mean(0), expected, 4 * ours.std(0, ddof=1) + floor + ROUNDING)
    state.keep_the_first()
    for session in range(SPREAD_SESSIONS + 1, SESSIONS + 1):
        state.learn(session)
    later = measure(state, SPREAD_SESSIONS + 1)
    for kind, (expected, _) in accuracies(row, first=SPREAD_SESSIONS + 1).items():
        assert_within(getattr(later, kind)[0], expected, 1.0)
    assert_within(later.weight_norm[0] / row["weight_norm"], 1, 3e-3)
    assert_within(later.row_norms[0] / row["weight_row_norms_last5"], 1, 3e-3)


def test_these_tests_can_fail(golden, features, embeddings):
    """One per cent more beta, in one session, is seen by the bounds of the well posed rows."""
    name = ("semantic", False, "norm")
    row = golden[name]
    method = method_of(row)
    norms = []
    for beta in (0.2, 0.202):
        state = Orders(
            1,
            MultiSession(draws=0, dtype="float64"),
            features,
            replace(method, beta_base=beta),
            False,
            embeddings,
            torch.device("cpu"),
        )
        state.learn(1)
        norms.append(measure(state).weight_norm[0])
    assert abs(norms[1] / norms[0] - 1) > norm_bound(name)
