"""What tables are made from: feature files by their names, RECIPE-random-1, RECIPE-fixed, RECIPE-ravi, and parts."""

from dataclasses import dataclass
from pathlib import Path

from subspan.experiments.config import PACKAGED
from subspan.experiments.named_features import named
from subspan.features.feature_set import FeatureFileError, FeatureSet
from subspan.files.arrays import SUFFIXES
from subspan.values import option

FOLDER = Path("benchmarks") / "features"
PARTS = "systems"  # folder of trained parts and stored results, beside the one of feature files
EVERY = "all"


@dataclass(frozen=True)
class Sources:
    """Where everything lies, and what is wanted of it beside the methods of the paper."""

    features: Path | None = option(None, f"folder of feature files; default {FOLDER} of the checkout one is in")
    config: str | None = option(None, "settings of methods, as `subspan sweep` writes them; default the packaged ones")
    systems: str | None = option(None, f"also published systems, side by side: {EVERY}, or names with commas")
    parts: Path | None = option(
        None, f"folder of trained parts and stored results of systems; default '{PARTS}' beside the feature files"
    )

    def folders(self) -> tuple[Path, Path]:
        """The folder of feature files, and that of parts."""
        folder = find_folder(self.features, Path.cwd())
        return folder, self.parts or folder.parent / PARTS


def find_folder(named_folder: Path | None, start: Path) -> Path:
    """The folder asked for, or ``benchmarks/features`` in ``start`` or above it."""
    if named_folder is not None:
        if not named_folder.is_dir():
            raise FeatureFileError(f"there is no folder '{named_folder}' of feature files")
        return named_folder
    for place in (start, *start.parents):
        if (place / FOLDER).is_dir():
            return place / FOLDER
    raise FeatureFileError(
        f"there is no folder {FOLDER} in '{start}' or above it; run this inside a checkout of Subspan, or name a "
        "folder of feature files with --features"
    )


def find_file(folder: Path, stem: str) -> Path | None:
    """The feature file of this name, in either form, if there is one."""
    found = [path for suffix in SUFFIXES if (path := folder / f"{stem}{suffix}").is_file()]
    if len(found) > 1:
        raise FeatureFileError(f"'{found[0]}' and '{found[1]}' are two files of one split; remove one")
    return found[0] if found else None


def settings_file(source: str) -> Path:
    """The file of settings, packaged ones by their name."""
    bundle = Path(__file__).parents[1] / "features" / "bundle"
    return bundle / f"{source}.json" if source in PACKAGED and not Path(source).exists() else Path(source)


def load(path: Path, split: str, classes: tuple[int, int]) -> FeatureSet:
    """A feature file, if it is of the novel classes of the split its name says and has so many base and novel ones."""
    features = named(FeatureSet.load(path))
    contents, told = features.meta.get("contents"), str(features.meta.get("split", split))
    kind = contents.get("novel", "novel") if isinstance(contents, dict) else "novel"
    if split not in (told, told.partition(":")[0]) or kind != "novel":
        raise FeatureFileError(f"'{path}' is named after {split} but was made from the {kind} classes of {told}")
    if (features.base_count, features.novel_count) != classes:
        raise FeatureFileError(
            f"'{path}' has {features.base_count} base and {features.novel_count} novel classes; {split} has "
            f"{classes[0]} and {classes[1]}"
        )
    return features
