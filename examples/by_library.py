"""A plain script that imports a method and calls the library: `python examples/by_library.py [WORKERS]`."""

import sys

from own_methods.margin import Margin
from own_methods.running import Running

from subspan.experiments.fan_out import Placement
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.named_features import load_all
from subspan.experiments.report.render import to_markdown
from subspan.experiments.report.results_table import results_table
from subspan.experiments.runs import Job, run_jobs


def main(workers: int) -> None:
    protocol, (features,) = MultiSession(draws=5), load_all([])  # no file: the bundled features
    jobs = [Job(protocol, method, memory=False) for method in (Running(prior=50), Margin(gap=2))]
    print(to_markdown(results_table(run_jobs([(features, None)], jobs, Placement(workers=workers)))))


if __name__ == "__main__":  # worker processes import this file: what starts them belongs below this line
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
