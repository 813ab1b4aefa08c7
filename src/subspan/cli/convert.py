"""``subspan convert``: feature files from one form or precision to another."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from subspan.cli import RESEARCH, app
from subspan.experiments.named_features import find_embeddings, named
from subspan.features.feature_set import FeatureSet, Precision


@app.command(rich_help_panel=RESEARCH)
def convert(
    source: Annotated[Path, typer.Argument(help="Feature file to read (.npz or .safetensors).")],
    target: Annotated[Path, typer.Argument(help="Feature file to write (.npz or .safetensors).")],
    precision: Annotated[str, typer.Option(help="float32, float16 or int8.")] = "float16",
    embeddings: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help="Store embeddings of the classes (npz, GloVe text); repeatable."),
    ] = None,
) -> None:
    """Rewrite a feature file in float32, float16 or int8, with class names and embeddings if wanted.

    The name to write ends in .safetensors or, for the compressed form, in .npz.

    Example:

        subspan convert split1.safetensors split1.npz --precision int8 --embeddings glove300=glove300.npz
    """
    if precision not in ("float32", "float16", "int8"):
        raise ValueError(f"precision must be float32, float16 or int8; got '{precision}'")
    kind: Precision = precision
    features = named(FeatureSet.load(source))
    vectors = dict(features.embeddings)
    for item in embeddings or []:
        name, equals, file = item.partition("=")
        if not equals:
            raise ValueError(f"--embeddings reads NAME=FILE; got '{item}'")
        found = find_embeddings(features, file)
        if found is not None:
            vectors[name] = found
    dataclasses.replace(features, embeddings=vectors).save(target, kind)
    typer.echo(f"{target}: {target.stat().st_size / 1e6:.2f} MB")
