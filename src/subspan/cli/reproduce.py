"""``subspan reproduce``: the tables and pictures of the paper, made anew from feature files."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from subspan.cli.parts.facts import run_facts
from subspan.cli.parts.flags import ImportOption, Values, with_flags
from subspan.cli.parts.outputs import print_table
from subspan.experiments.fan_out import Placement
from subspan.experiments.report.html import write_page
from subspan.paper import multi_session as sessions
from subspan.paper import single_session as episodes
from subspan.paper.pages import PAPER, Section, write_section
from subspan.paper.published import meanings
from subspan.paper.sources import Sources

ReportOption = Annotated[
    Path | None, typer.Option(file_okay=False, help="Write all tables, figures and an HTML page here.")
]
MarkdownOption = Annotated[
    Path | None, typer.Option(dir_okay=False, help="Write the recipe's section of this page, its pictures beside it.")
]
RecipeOption = Annotated[
    list[str] | None,
    typer.Option(help=f"Whose features to take: the first part of their names; repeatable, default {PAPER}."),
]


@with_flags(sources=Sources, placement=Placement)
def multi_session(
    report: ReportOption = None,
    markdown: MarkdownOption = None,
    recipe: RecipeOption = None,
    imports: ImportOption = None,
    *,
    sources: Values,
    placement: Values,
) -> None:
    """Rebuild the tables and pictures of the paper from feature files: published values beside ours.

    Files are found by name in the folder: RECIPE-random-1 to RECIPE-random-10, and RECIPE-fixed, each .npz or
    .safetensors. Splits that are not there are left out of the means, and every table says so. Without --report and
    --markdown all tables are printed; with one of them only the main table is.

    Examples:

        subspan reproduce multi-session --report report

        subspan reproduce multi-session --recipe paper --recipe strong --systems all --markdown results-multi-session.md
    """
    place = Placement(**placement)
    _show(partial(sessions.make, Sources(**sources), place), recipe, place, report, markdown)


@with_flags(sources=Sources, chosen=episodes.Chosen, placement=Placement)
def single_session(
    report: ReportOption = None,
    markdown: MarkdownOption = None,
    recipe: RecipeOption = None,
    imports: ImportOption = None,
    *,
    sources: Values,
    chosen: Values,
    placement: Values,
) -> None:
    """Rebuild the single-session table and its two pictures from feature files: published values beside ours.

    The folder's RECIPE-ravi gives the miniImageNet half, RECIPE-tiered (whoever has the images) the tieredImageNet
    half. Settings that the paper does not give, and all of a recipe whose head they do not fit, were chosen on
    development classes and are marked. Without --report and --markdown all tables are printed.

    Examples:

        subspan reproduce single-session --report report

        subspan reproduce single-session --device cuda --recipe strong --markdown results-single-session.md

        subspan reproduce single-session --episodes-out episodes.safetensors   # for another system to see the same ones
    """
    place = Placement(**placement)
    make = partial(episodes.make, Sources(**sources), place, episodes.Chosen(**chosen))
    _show(make, recipe, place, report, markdown)


def _show(
    make: Callable[[str], Section],
    recipes: list[str] | None,
    place: Placement,
    report: Path | None,
    markdown: Path | None,
) -> None:
    """Make the section of each recipe; print it, and write what is wanted."""
    recipes = recipes or [PAPER]
    for recipe in recipes:
        began = time.perf_counter()
        section = make(recipe)
        tables = section.tables
        facts = run_facts(section.protocol, place.device, time.perf_counter() - began) | dict(section.facts)
        busy = f", {os.getloadavg()[0]:.1f} processes at once over the last minute" if hasattr(os, "getloadavg") else ""
        facts["cores"] = f"{os.cpu_count()}{busy}"  # what the seconds mean depends on both
        for table in tables if report is None and markdown is None else tables[:1]:
            print_table(table, decimals=section.decimals)
        words = meanings(f"results-{section.name}")
        for sentence in (*section.findings, *words):
            typer.echo(sentence)
        if report is not None:
            folder = report / recipe if len(recipes) > 1 else report
            findings = [*section.findings, *section.missing, *words]
            page = write_page(
                folder, title=section.title, findings=findings, tables=tables, figures=section.figures, facts=facts
            )
            typer.echo(f"Report: {page}")
        if markdown is not None:
            write_section(markdown, section, facts)
            typer.echo(f"Markdown: {markdown}")
