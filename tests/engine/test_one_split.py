"""One real split against a loop in NumPy, written from the paper's equations 3 to 6 with all gradients by hand.

It holds full weights in float64 and shares nothing with the solvers: no span coordinates, no batches, no autograd, no
tensors, and a projector of its own. It is the oracle for subspace regularization with memory, which has every term of
the objective, under both penalties: as the paper prints R_old, and as the authors' code has it.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from subspan.engine import sessions as engine
from subspan.engine.contract import Base, Memory
from subspan.features.feature_set import FeatureSet
from subspan.learners.registry import create_method

DATA = Path(__file__).resolve().parents[1] / "data"
WAYS, SHOTS, BASE_COUNT = 5, 5, 60
RATE, MOMENTUM, DECAY, GAMMA, BETA_BASE, BETA_NOVEL = 0.002, 0.9, 5e-4, 1.0, 0.2, 0.1


@dataclass
class Split:
    """Features of one split; the first five images of a class with their five copies are its support."""

    rows: np.ndarray  # (60, d)
    support: np.ndarray  # (40, 5, 5, d)
    base_memory: np.ndarray  # (60, d): one example a class

    def session(self, t: int):
        """Support, and memory of earlier novel classes (one image with its copies), each with labels."""
        novel = np.arange(WAYS * (t - 1), WAYS * t)
        d = self.rows.shape[1]
        support = self.support[novel].reshape(-1, d), BASE_COUNT + np.repeat(novel, SHOTS * 5)
        earlier = self.support[: novel[0], 0].reshape(-1, d), BASE_COUNT + np.repeat(np.arange(novel[0]), 5)
        return support, earlier


def cross_entropy(rows, features, labels):
    """Mean over examples, and its gradient by the rows: features times (probability - 1 of the own class)."""
    logits = features @ rows.T
    logits -= logits.max(1, keepdims=True)
    probability = np.exp(logits)
    probability /= probability.sum(1, keepdims=True)
    own = np.arange(len(labels)), labels
    value = -np.log(probability[own]).mean()
    probability[own] -= 1
    return value, probability.T @ features / len(labels)


def held(rows, reference, beta, squared):
    """beta R_old of one group of rows, and its gradient, 0 where nothing has changed."""
    change = rows - reference
    if squared:
        return beta * (change**2).sum(), 2 * beta * change
    length = np.sqrt((change**2).sum())
    return beta * length, beta * change / length if length else 0 * change


def learn(rows, references, split, t, squared):
    """Rows (60 + 5 t, d) after session t, and the steps it took; ``references`` are the old rows' own."""
    _, _, right = np.linalg.svd(split.rows, full_matrices=False)
    outside = np.eye(rows.shape[1]) - right[:-1].T @ right[:-1]  # the last of the directions is the sum's, nearly zero
    (support, labels), (earlier, earlier_labels) = split.session(t)
    first = np.concatenate([support, split.base_memory]), np.concatenate([labels, np.arange(BASE_COUNT)])
    rows = np.concatenate([rows, np.zeros((WAYS, rows.shape[1]))])
    old, new = slice(BASE_COUNT, len(rows) - WAYS), slice(len(rows) - WAYS, None)
    velocity, previous, small, steps = np.zeros_like(rows), None, 0, 0
    while steps < 1000 and small < 10:
        steps += 1
        loss, gradient = cross_entropy(rows, *first)
        if len(earlier):
            more, slope = cross_entropy(rows, earlier, earlier_labels)
            loss, gradient = loss + more, gradient + slope
        for part, beta in ((slice(0, BASE_COUNT), BETA_BASE), (old, BETA_NOVEL)):
            value, slope = held(rows[part], references[part], beta, squared)
            loss += value
            gradient[part] += slope
        apart = rows[new] @ outside  # eta - m: what of a new row is outside the span of the base rows
        loss += GAMMA * (apart**2).sum()
        gradient[new] += 2 * GAMMA * apart @ outside.T
        velocity = MOMENTUM * velocity + gradient + DECAY * rows
        small = small + 1 if previous is not None and abs(loss - previous) < 1e-4 else 0
        previous, rows = loss, rows - RATE * velocity
    return rows, steps


@pytest.fixture(scope="module")
def split():
    features = FeatureSet.load(DATA / "mini-split1.npz")
    support = np.stack([features.novel_support[features.novel_support_labels == c][:SHOTS] for c in range(40)])
    assert features.base_memory is not None
    return Split(*(np.asarray(a, np.float64) for a in (features.base_weight, support, features.base_memory)))


@pytest.mark.parametrize("sessions", [2, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("penalty", "bound"), [("squared", 1e-9), ("norm", 1e-4)])  # norm's corner enlarges rounding
def test_sessions_of_a_real_split(split, penalty, bound, sessions):
    learner = create_method("subspace", old_penalty=penalty, new_rows="zeros")
    told = next(
        row
        for row in json.loads((DATA / "mini-split1-golden.json").read_text())
        if (row["method"], row["memory"], row["old_penalty"]) == ("subspace", True, penalty)
    )
    state = engine.start(learner, Base(torch.from_numpy(split.rows)))
    memory = Memory(torch.from_numpy(split.base_memory), torch.arange(BASE_COUNT))
    rows = references = split.rows
    for t in range(1, sessions + 1):
        rows, steps = learn(rows, references, split, t, penalty == "squared")
        references = np.concatenate([references, rows[-WAYS:]])
        (support, labels), earlier = split.session(t)
        session = engine.session_of(
            torch.from_numpy(support),
            torch.from_numpy(labels),
            range(len(rows) - WAYS, len(rows)),
            base_memory=memory,
            novel_memory=Memory(*map(torch.from_numpy, earlier)) if t > 1 else None,
        )
        state = engine.learn(learner, state, session)
        assert steps == int(state.steps) == told["steps"][t - 1]
        found = state.rows.numpy()
        assert np.linalg.norm(found - rows) < bound * np.linalg.norm(rows)
    if sessions == 8:
        assert np.linalg.norm(rows) == pytest.approx(told["weight_norm"], rel=4e-5)
