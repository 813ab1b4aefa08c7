"""Runs of the multi-session protocol with a bar that counts their sessions."""

from collections.abc import Sequence

from rich.console import Console

from subspan.experiments.fan_out import Placement
from subspan.experiments.multi_session_runs import Job, Split, run_jobs
from subspan.experiments.results import MethodResult
from subspan.progress import Progress


def run_shown(
    splits: Sequence[Split],
    jobs: Sequence[Job],
    place: Placement,
    console: Console,
    what: str = "sessions",
    *,
    keep_predictions: bool = False,
) -> list[MethodResult]:
    """One result per job, in their order; ``what`` names the sessions on the bar."""
    total = sum(-(-splits[job.splits[0]][0].novel_count // job.protocol.ways) for job in jobs)
    with Progress(console) as bar:
        task = bar.add_task(what, total=total)
        results = run_jobs(splits, jobs, place, on_session=lambda: bar.advance(task), keep_predictions=keep_predictions)
        bar.update(task, completed=total)
    return results
