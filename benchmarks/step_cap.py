"""How many steps the paper's sessions took: its tables beside ours with a cap of 1000 steps, of 1200, and without.

The paper ends a session when its loss has changed by less than 1e-4 for ten steps; the released code stops after 1000
steps at the latest. Fine-tuning and the subspace regularizer mostly reach that cap, the language regularizers do not.
Every line is ours, times the ratio of session-0 accuracies (the paper's / ours), minus the published accuracy.

Measured on 2026-11-16 on the CPU, splits 1 to 10 (recipe `paper`), three draws each, points at sessions 1 to 8:

    -M fine-tuning                  at most 1000   -1.2 +1.0 +3.7 +7.1 +6.3 +5.4 +4.7 +3.9
                                    at most 1200   -1.2 -0.7 +1.7 +5.2 +4.3 +3.6 +3.0 +2.3
                                    no cap         -1.2 -1.6 -3.3 -1.2 -1.0 -0.6 +0.1 +0.6   782 to 1898 steps
    -M fine-tuning without R_old    either         -1.5 -1.3 -3.4 -1.1 -0.1 -0.8  0.0 -0.5   440 to 488 steps
    -M subspace                     at most 1000   +1.7 +1.4 +1.1 +1.1 +1.6 +2.0 +1.8 +2.4
                                    at most 1200   +1.2 +0.2 -0.6 -0.7 -0.5 -0.1 -0.2 +0.3
                                    no cap         +0.7 -1.0 -3.4 -5.1 -6.1 -7.4 -8.7 -9.1   1363 to 2429 steps
    +M fine-tuning                  at most 1000   -1.1 -1.2 -1.7 -1.6 -1.6 -1.8 -1.6 -1.3
                                    no cap         -1.1 -1.2 -1.7 -1.7 -1.6 -1.9 -1.6 -1.3   795 to 1052 steps
    +M subspace                     at most 1000   +1.2 +1.3 +1.4 +1.1 +1.4 +1.6 +1.9 +2.2
                                    at most 1200   +0.8 +0.4 +0.4 -0.1 +0.2 +0.2 +0.7 +1.0
                                    no cap         +0.4  0.0 -0.2 -0.8 -0.6 -0.9 -0.2  0.0   1280 to 1468 steps

So the published subspace row with memory is met by sessions that no cap has ended, to 0.4 points on average, the
fine-tuning row without memory, too, to 1.2 (4.2 with the cap), and the subspace row without memory by sessions of at
most 1200 steps, to 0.5. What ended those is not known; a looser tolerance for all does not explain it
(docs/differences.md).

    python benchmarks/step_cap.py benchmarks/features/paper-random-* --draws 3
"""

import argparse
from pathlib import Path

import numpy as np

from subspan.experiments.fan_out import Placement
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.runs import Job, run_jobs
from subspan.features.feature_set import FeatureSet
from subspan.learners.registry import create_method
from subspan.paper.published import published

CAPS = {1000: "at most 1000", 1200: "at most 1200", 100_000: "no cap"}
VARIANTS = ("finetune", "finetune:beta_base=0,beta_novel=0", "subspace")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path, nargs="+", help="feature files of random splits; number 0 is left out")
    parser.add_argument("--draws", type=int, default=3, help="support draws for each split")
    parser.add_argument("--workers", type=int, help="processes; default one for each core")
    given = parser.parse_args()
    files = [path for path in given.features if not path.stem.endswith("-random-0")]
    splits = [(FeatureSet.load(path), None) for path in files]
    tables = {False: (published().without_memory, published().old_penalty), True: (published().with_memory,)}
    wanted = []
    for memory, quoted in tables.items():
        for method in VARIANTS:
            row = published().row(method, memory, *quoted)
            if row is not None:
                wanted += [(memory, method, cap, row) for cap in CAPS]
    protocol = MultiSession(draws=given.draws)
    jobs = [
        Job(protocol, create_method(method, max_steps=cap), memory, tuple(range(len(splits))))
        for memory, method, cap, _ in wanted
    ]
    results = run_jobs(splits, jobs, Placement(workers=given.workers))
    print(
        f"{', '.join(path.stem for path in files)}; {given.draws} draws each. Scaled minus published, sessions 1 to 8:"
    )
    for (memory, _, cap, row), result in zip(wanted, results, strict=True):
        mean = result.weighted.mean(0)
        apart = (mean * row.accuracy[0] / mean[0] - row.accuracy)[1:]
        told = " ".join(f"{value:+6.2f}" for value in apart)
        steps = " ".join(f"{value:4.0f}" for value in result.steps.mean(0))
        print(
            f"{'+M' if memory else '-M'} {row.model:28} {CAPS[cap]:12} {told}   mean "
            f"{np.abs(apart).mean():.2f}; steps {steps}"
        )


if __name__ == "__main__":
    main()
