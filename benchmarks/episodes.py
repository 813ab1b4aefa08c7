"""Span coordinates against the naive loop on cached features: the same iterates, per episode.

One episode: 60 base rows, 5 novel classes x 5 shots x 5 copies of the bundled real features (n = 125, d = 640), 65
classes, R_old as `norm`, SGD of the paper with its stop rule, up to 1000 steps. The naive loop is torch.optim.SGD with
autograd on full weights (tests/engine/naive.py), the features in memory. Ratios are taken within one run.

Measured 2026-11-15 on the features bundled then, best of 3 runs (CPU) or one (GPU) after one to warm up; naive: mean of
4 episodes (CPU), 1 (GPU).
"Difference": of the final weights, relative, after 200 equal steps.

    2 CPU cores, torch 2.13, 64 episodes                  one H200, torch 2.11, 2000 episodes (a step is a CUDA graph)
    method     steps  batch    naive  ratio  difference   steps  batch    per episode  naive   ratio  difference
    subspace    1000  2.80 s  1.11 s   25x   3e-7          1000  1.18 s   0.59 ms      5.23 s  8848x  3e-7
    semantic     461  1.13 s  0.39 s   22x   3e-7           448  0.59 s   0.29 ms      0.38 s  1289x  3e-7
    finetune     814  1.92 s  0.70 s   23x   3e-7           818  0.99 s   0.49 ms      0.60 s  1210x  3e-7

    python benchmarks/episodes.py                      # 2 CPU cores, 64 episodes
    python benchmarks/episodes.py --device cuda --episodes 2000
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from subspan.engine import sessions
from subspan.engine.contract import Base, Session
from subspan.engine.objective import Problem
from subspan.engine.sgd import SgdOptions, sgd
from subspan.features.feature_set import bundled
from subspan.learners.parts.regularizer import Regularizer
from subspan.learners.registry import create_method

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "engine"))
from naive import NaiveSession, naive_sgd

WAYS, SHOTS = 5, 5


def make_batch(count: int, device: torch.device, seed: int = 0, shots: int = SHOTS) -> tuple[Base, Session]:
    """Episodes drawn from the bundled features: support (E, 125, 640) for five shots, shared base rows."""
    features = bundled()
    base = torch.as_tensor(features.base_weight, device=device)
    support = torch.as_tensor(features.novel_support, device=device)  # (images, copies, d)
    support = support.reshape(features.novel_count, -1, *support.shape[1:])
    rng = np.random.default_rng(seed)
    classes = np.stack([rng.permutation(len(support))[:WAYS] for _ in range(count)])
    images = np.stack([[rng.permutation(support.shape[1])[:shots] for _ in range(WAYS)] for _ in range(count)])
    picked = support[torch.as_tensor(classes)[:, :, None], torch.as_tensor(images)].flatten(1, 3)
    labels = len(base) + torch.arange(WAYS, device=device).repeat_interleave(picked.shape[1] // WAYS)
    vectors = torch.as_tensor(features.embeddings["glove300"], device=device)
    novel = vectors[len(base) + torch.as_tensor(classes)]
    session = sessions.session_of(
        picked,
        labels.expand(count, -1),
        range(len(base), len(base) + WAYS),
        embeddings=novel,
        seeds=tuple(range(count)),
    )
    return Base(base, embeddings=vectors[: len(base)]), session


def as_problem(method: Regularizer, base: Base, session: Session) -> Problem:
    """The episodes of a batch as one problem."""
    return method.problem(sessions.start(method, base, len(session.support)), session)[0]


def naive_session(problem: Problem, method: Regularizer, base: Base, episode: int) -> NaiveSession:
    """One problem of a batch for the naive loop."""
    new = problem.groups[-1]
    target = new.reference[episode] if new.reference is not None else None
    return NaiveSession(
        support=problem.features[episode],
        support_labels=problem.labels[episode],
        memory=None,
        memory_labels=None,
        base_start=base.rows,
        base_reference=base.rows,
        novel_start=None,
        novel_reference=None,
        new_start=new.start[episode],
        regularizer="subspace" if new.basis is not None else "target" if target is not None else "none",
        projector=None if new.basis is None else new.basis @ new.basis.mT,
        target=target,
        gamma=method.gamma,
        beta_base=method.beta_base,
        old_penalty=method.old_penalty,
        weight_decay=method.weight_decay,
    )


def timed(function, device: torch.device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    result = function()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return result, time.perf_counter() - began


def difference(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--methods", nargs="+", default=["subspace", "semantic", "finetune"])
    parser.add_argument("--naive", type=int, default=2, help="episodes that the naive loop runs")
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    print(f"{arguments.episodes} episodes on {device} ({torch.get_num_threads()} threads), torch {torch.__version__}")
    print(f"{'method':10} {'steps':>6} {'batch s':>9} {'per episode':>12} {'naive':>9} {'ratio':>8} {'difference':>11}")
    for name in arguments.methods:
        method = create_method(name)
        assert isinstance(method, Regularizer)
        base, session = make_batch(arguments.episodes, device)
        problem = as_problem(method, base, session)
        times = [timed(lambda p=problem: sgd(p), device) for _ in range(arguments.repeats + 1)][1:]
        solution, seconds = min(times, key=lambda pair: pair[1])
        naive = [naive_session(problem, method, base, i) for i in range(arguments.naive)]
        slow = [timed(lambda s=s: naive_sgd(s), device)[1] for s in naive]
        # Equal step counts: a stop a few steps apart is rounding, not another path.
        fixed = sgd(problem_of(problem, arguments.naive), SgdOptions(max_steps=200, patience=10**9)).rows
        error = max(difference(fixed[i], naive_sgd(s, fixed_steps=200)[0]) for i, s in enumerate(naive))
        per_episode, per_naive = seconds / arguments.episodes, float(np.mean(slow))
        steps = solution.steps.double().mean()
        print(
            f"{name:10} {steps:6.0f} {seconds:9.3f} {per_episode * 1e3:9.2f} ms {per_naive:7.2f} s "
            f"{per_naive / per_episode:7.0f}x {error:11.1e}",
            flush=True,
        )


def problem_of(problem: Problem, count: int) -> Problem:
    """The first problems of a batch."""
    groups = []
    for group in problem.groups:
        reference = group.reference if group.reference is None or group.reference.ndim == 2 else group.reference[:count]
        start = group.start[:count]
        groups.append(replace(group, start=start, reference=start if group.reference is group.start else reference))
    return Problem(
        problem.features[:count], problem.labels[:count], problem.sample_weight[:count], groups, problem.weight_decay
    )


if __name__ == "__main__":
    main()
