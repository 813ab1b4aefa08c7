"""``subspan recipes``: how base sessions are trained, and every value that ``subspan train --set`` takes."""

from typing import Annotated

import typer

from subspan.cli.parts.tables import options_table, show, table
from subspan.learners.registry import options_of
from subspan.learners.training.run import Training
from subspan.train.recipe import RECIPES, Recipe, find_recipe
from subspan.train.trainer import Runtime

OTHERS = {"How the machine is used": Runtime, "With --system, the training of its part": Training}


def recipes(
    name: Annotated[str | None, typer.Argument(help="A recipe; every value of it is explained.")] = None,
) -> None:
    """List the recipes of base sessions; with a name, every value of one, which `subspan train --set` changes.

    Examples:

        subspan recipes

        subspan recipes strong
    """
    if name is None:
        rows = []
        for one, recipe in RECIPES.items():
            changed = [key for key in options_of(Recipe) if getattr(recipe, key) != getattr(Recipe, key)]
            rows.append((one, recipe.backbone, recipe.epochs, ", ".join(changed[1:])))
        columns = ("recipe", "network", "epochs", "differs from paper in")
        show(table(columns, rows, wrap=columns[1:]))
        show("\n`subspan recipes NAME` explains every value; change them as subspan train --set NAME=VALUE")
        return
    for title, record in {f"Recipe {name}": find_recipe(name), **OTHERS}.items():
        options = options_of(record if isinstance(record, type) else type(record)).items()
        rows = [(key, getattr(record, key), takes, text) for key, (takes, _, text) in options if text]
        show(f"{title}\n", options_table(rows, "value"), "")
