"""The settings of the single-session table that come with the package: what the paper gives, and what a sweep chose.

The paper's appendix leaves some options open. `subspan sweep` chooses them for miniImageNet on Ravi's 16 development
classes; for tieredImageNet, whose images are not at hand, miniImageNet's choice is taken over.

    python benchmarks/make_settings.py                       # the paper's values alone, to start a sweep from
    subspan sweep benchmarks/features/paper-ravi-development.npz --config single-session-mini \
        --try beta_base=0.003,0.01,0.03,0.1,0.2,0.5,1,2,5 --try learning_rate=0.002,0.003,0.005,0.01,0.02,0.05 \
        --try tau=0.1,0.2,0.5,1,1.5,3,6 --count 300 --out sweep
    python benchmarks/make_settings.py --chosen sweep/config.json
"""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from subspan.protocols.config import Config, Setting

BUNDLE = Path(__file__).resolve().parents[1] / "src" / "subspan" / "bundle"
Values = Mapping[str, float]

LABEL, DESCRIPTION = "Semantic subspace (label)", "Semantic subspace (description)"
METHODS = {  # name in the table: method, and what of its embeddings ("label": of the class's name)
    "Fine-tuning": ("finetune", None),
    "Subspace": ("subspace", None),
    "Linear mapping": ("linear_map", "label"),
    DESCRIPTION: ("semantic", "description"),
    LABEL: ("semantic", "label"),
    "Imprinting": ("imprint", None),
    "Prototypes": ("prototype", None),
}
MINI_FIVE = {"learning_rate": 0.002, "weight_decay": 5e-3, "beta_base": 0.03}
MINI: Mapping[int, Mapping[str, Values]] = {
    1: {
        "Fine-tuning": {"learning_rate": 0.003, "weight_decay": 5e-3},
        "Subspace": {"gamma": 0.005, "weight_decay": 5e-5},
        "Linear mapping": {"gamma": 0.005, "weight_decay": 5e-4},
        DESCRIPTION: {"gamma": 0.005, "weight_decay": 5e-4, "tau": 1.5},
        LABEL: {"gamma": 0.005, "weight_decay": 5e-4, "tau": 1.5},
    },
    5: {
        "Fine-tuning": MINI_FIVE,
        "Subspace": {**MINI_FIVE, "gamma": 0.03},
        "Linear mapping": {**MINI_FIVE, "gamma": 0.03},
        DESCRIPTION: {**MINI_FIVE, "gamma": 0.01},
        LABEL: {**MINI_FIVE, "gamma": 0.03},
    },
}
TIERED: Mapping[int, Mapping[str, Values]] = {
    1: {
        "Fine-tuning": {"learning_rate": 0.003},
        "Subspace": {"gamma": 0.001},
        "Linear mapping": {"gamma": 0.001},
        LABEL: {"learning_rate": 0.005, "weight_decay": 5e-3, "gamma": 0.005},
    },
    5: {
        "Fine-tuning": {"learning_rate": 0.001, "weight_decay": 5e-3, "beta_base": 0.3},
        "Subspace": {"gamma": 0.03},
        "Linear mapping": {"gamma": 0.03},
        DESCRIPTION: {"gamma": 0.03},
        LABEL: {"gamma": 0.05, "beta_base": 0.2},
    },
}
TRIED = ("learning_rate", "weight_decay", "gamma", "beta_base", "tau")


def settings(given: Mapping[int, Mapping[str, Values]], words: str) -> list[Setting]:
    """Fourteen settings with the paper's values; ``words`` are the embeddings of class names."""
    return [
        Setting(method, name, shots, words if kind == "label" else kind, dict(given[shots].get(name, {})))
        for shots in given
        for name, (method, kind) in METHODS.items()
    ]


def taken_over(setting: Setting, mini: Setting) -> Setting:
    """The setting with all that the paper leaves open as it is on miniImageNet."""
    has = setting.create()
    known = {**mini.given, **mini.chosen}
    open_options = [name for name in TRIED if hasattr(has, name) and name not in setting.given and name in known]
    return replace(setting, chosen={name: known[name] for name in open_options})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chosen", type=Path, help="config.json of a sweep that started from single-session-mini")
    arguments = parser.parse_args()
    mini, about = settings(MINI, "glove300"), {"chosen": "nothing chosen yet"}
    if arguments.chosen is not None:
        swept = Config.load(arguments.chosen, "single-session")
        found = {(one.name, one.shots): one.chosen for one in swept.settings}
        mini = [replace(one, chosen=found[one.name, one.shots]) for one in mini]
        about = dict(swept.about)
    by_place = {(one.name, one.shots): one for one in mini}
    tiered = [taken_over(one, by_place[one.name, one.shots]) for one in settings(TIERED, "glove100")]
    for data, made, origin in (
        ("mini", mini, about),
        (
            "tiered",
            tiered,
            {"chosen": "taken over from miniImageNet, given there or chosen on its development classes"},
        ),
    ):
        path = Config("single-session", tuple(made), {"given": "the paper's appendix", **origin}).save(
            BUNDLE / f"single-session-{data}.json"
        )
        print(path.name)


if __name__ == "__main__":
    main()
