"""The settings of the single-session tables that come with the package: what the paper gives, and what a sweep chose.

The paper's appendix leaves some options open. `subspan sweep` chooses them for miniImageNet on Ravi's 16 development
classes; for tieredImageNet, whose images are not at hand, miniImageNet's choice is taken over.

    python benchmarks/make_settings.py                       # the paper's values alone, to start a sweep from
    subspan sweep benchmarks/features/paper-ravi-development.npz --config single-session-mini \
        --try beta_base=0.003,0.01,0.03,0.1,0.2,0.5,1,2,5 --try learning_rate=0.002,0.003,0.005,0.01,0.02,0.05 \
        --try tau=0.1,0.2,0.5,1,1.5,3,6 --count 300 --out sweep
    python benchmarks/make_settings.py --chosen sweep/config.json

`calibrated`, which is not in the paper, is chosen for miniImageNet by a sweep of its own. It is added to what the file
has, every other row of which stays as it is; 48 trials, under a minute:

    python benchmarks/make_settings.py --out runs/sweep-paper --sweep benchmarks/features/paper-ravi-development.npz

Features of recipe `strong` have a cosine head, which the paper's values do not fit (docs/tried.md,
"Options for a cosine head"): all is chosen. One command sweeps and writes; the same again goes on after a kill:

    python benchmarks/make_settings.py --recipe strong --out runs/sweep-strong \
        --sweep benchmarks/features/strong-ravi-development.npz

It tries 24 random choices for each method and number of shots, with 256 episodes each: 292 trials, sixteen to
twenty minutes of one core (four to five seconds a trial that trains, a third of one for `calibrated`), half as long on
two. Without --sweep it writes what the sweep starts from, the multi-session settings of `strong`.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from subspan.experiments.config import Config, Setting

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
SHOTS = (1, 5)
PAPER, STRONG = "single-session-mini", "single-session-mini-strong"
OURS = ("Calibrated prototypes", "calibrated")  # beside the methods of the paper
CALIBRATED = (
    *("--try", "offset=0.08..0.4"),  # episodes ask as often for 5 novel as for all base classes: more than in sessions
    *("--try", "shrinkage=1,3,8,16"),
    *("--try", "pull=0,0.1,0.2"),
    *("--random", "24", "--count", "256"),
)
COSINE_HEAD = (  # rates for 250 steps, four times those for 1000; one shot asks for more than multi-session-strong has
    *("--try", "learning_rate=0.0004..0.02"),
    *("--try", "weight_decay=0.0005..0.05"),
    *("--try", "gamma=0.001..1"),
    *("--try", "beta_base=0.01..0.5"),  # an episode ends after one session: base rows are held less than in sessions
    *CALIBRATED,
)
ABOUT_SWEEP = ("command", "version", "protocol", "trials")  # what a config says of the sweep that made it
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


def sweep(features: Path, folder: Path, options: Sequence[str]) -> Config:
    """What `subspan sweep` chooses on a file of development classes; its trials are in ``folder``."""
    command = [sys.executable, "-m", "subspan", "sweep", str(features), "--out", str(folder), *options]
    status = subprocess.run(command, env={"OMP_NUM_THREADS": "1", **os.environ}).returncode
    if status != 0:  # the command has said why
        sys.exit(status)
    return Config.load(folder / "config.json", "single-session")


def with_calibrated(packaged: Config, features: Path, folder: Path) -> Config:
    """The packaged settings with `calibrated` as a sweep of its own chooses it, after the others of its shots."""
    name, method = OURS
    shots = [word for number in SHOTS for word in ("--shots", str(number))]
    swept = sweep(features, folder, ["--method", method, *shots, *CALIBRATED])
    others = [one for one in packaged.settings if one.method != method]
    found = [replace(one, label=name) for one in swept.settings]
    made = [one for number in SHOTS for one in (*others, *found) if one.shots == number]
    sweeps = dict(packaged.about.get("sweeps", {}))
    if not sweeps:
        first = {key: packaged.about[key] for key in ABOUT_SWEEP if key in packaged.about}
        sweeps |= {f"all but {name}": first} if first else {}
    sweeps[name] = {key: swept.about[key] for key in ABOUT_SWEEP}
    about = {key: value for key, value in packaged.about.items() if key not in ABOUT_SWEEP}
    return Config(packaged.protocol, tuple(made), {**about, "sweeps": sweeps})


def strong_start() -> Config:
    """Sixteen settings without a value of the paper's: those of the multi-session protocol, all marked as chosen."""
    sessions = Config.load("multi-session-strong", "multi-session")
    chosen = {one.method: dict(one.chosen) for one in sessions.settings}
    methods = {**METHODS, OURS[0]: (OURS[1], None)}
    made = tuple(
        Setting(method, name, shots, "glove300" if kind == "label" else kind, chosen=chosen.get(method, {}))
        for shots in SHOTS
        for name, (method, kind) in methods.items()
    )
    origin = "taken over from the multi-session settings of recipe 'strong', which were chosen on its split 0"
    return Config("single-session", made, {"for": sessions.about["for"], "chosen": origin})


def swept_strong(features: Path, folder: Path) -> Config:
    """What a sweep over a file of development classes makes of them; its trials are in ``folder``."""
    start = strong_start()
    folder.mkdir(parents=True, exist_ok=True)
    swept = sweep(features, folder, [*COSINE_HEAD, "--config", str(start.save(folder / "start.json"))])
    made = [
        # Nothing pulls on the rows of fine-tuning: a gamma was drawn for it, too, and means nothing.
        replace(one, chosen={name: value for name, value in one.chosen.items() if name != "gamma"})
        if one.method == "finetune"
        else one
        for one in swept.settings
    ]
    return replace(swept, settings=tuple(made), about={"for": start.about["for"], **swept.about})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--chosen", type=Path, help="config.json of a sweep that started from single-session-mini")
    parser.add_argument("--recipe", choices=("paper", "strong"), default="paper", help="whose settings to write")
    parser.add_argument(
        "--sweep", type=Path, metavar="FILE", help="choose on these development classes; paper: `calibrated` alone"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the sweep's trials")
    arguments = parser.parse_args()
    if (arguments.sweep is None) != (arguments.out is None):
        parser.error("--sweep FILE and --out DIR go together")
    if arguments.chosen is not None and arguments.recipe == "strong":
        parser.error("--chosen is for recipe paper; strong has --sweep FILE --out DIR")
    if arguments.chosen is not None and arguments.sweep is not None:
        parser.error("--sweep adds to what --chosen has written: one after the other")
    if arguments.recipe == "strong":
        made = strong_start() if arguments.sweep is None else swept_strong(arguments.sweep, arguments.out)
        print(made.save(BUNDLE / f"{STRONG}.json").name)
        return
    if arguments.sweep is not None:
        made = with_calibrated(Config.load(BUNDLE / f"{PAPER}.json", "single-session"), arguments.sweep, arguments.out)
        print(made.save(BUNDLE / f"{PAPER}.json").name)
        return
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
