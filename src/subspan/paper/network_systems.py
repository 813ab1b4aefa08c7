"""Published systems that move the network: maps, training, protocol and the stored result."""

import dataclasses
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from subspan.backbones.network import Network, module_digest
from subspan.experiments.episodes import digest_of_items
from subspan.experiments.multi_session import FIXED, RANDOM, MultiSession
from subspan.experiments.single_session import SingleSession
from subspan.images.imageset import ImageSet
from subspan.images.splits.split import Split
from subspan.learners.registry import spec_of
from subspan.learners.training.network_system import NetworkSystem
from subspan.learners.training.run import Training, TrainingRun
from subspan.paper.stored_results import SUFFIX, StoredResult
from subspan.progress import shown_stages
from subspan.train.collect import Contents
from subspan.train.maps import split_maps
from subspan.train.run import RunSettings


def store_result(
    system: NetworkSystem,
    training: Mapping[str, Any],
    seed: int,
    trained: tuple[Network, RunSettings],
    images: ImageSet,
    split: Split,
    out: Path,
    device: torch.device,
    *,
    resume: bool,
    made: Mapping[str, Any],
    protocol: MultiSession | SingleSession | None = None,
) -> StoredResult:
    """Train what the system trains, run its protocol on the split, write the result; ``made`` is stored beside it."""
    if out.suffix != SUFFIX:
        raise ValueError(f"'{system.name}' moves the network: its result is stored as {SUFFIX}; got '{out}'")
    if training and system.training is None:
        raise ValueError(f"'{system.name}' trains nothing on the base classes; it takes no --{next(iter(training))}")
    settings = dataclasses.replace(system.training or Training(), **training, seed=seed)
    protocol = protocol or _protocol(system, split)
    network, base = trained
    weights = module_digest(network)
    began = time.perf_counter()
    with shown_stages() as tell_maps:
        maps = split_maps(network, base, images, split, Contents(), where=system.where, device=device, tell=tell_maps)
    drawn = None
    if isinstance(protocol, SingleSession):  # what cannot run is said before training
        drawn = protocol.draw(maps.items).first_shots(system.episode_shots or protocol.shots)
    out.parent.mkdir(parents=True, exist_ok=True)
    identity = json.dumps([spec_of(system), weights, split.digest()])
    with shown_stages() as tell:
        run = TrainingRun(settings, device, out, resume, identity, tell=tell)
        ready = system.on(maps, run)
        prepared = time.perf_counter() - began
        # Positions of maps stand in for features.
        if isinstance(protocol, SingleSession):
            result = protocol.run(maps.items, ready, episodes=drawn, device=device)
        else:  # what it keeps of old classes it chooses itself, so the protocol has no memory to hand to it
            result = protocol.run(maps.items, ready, memory=False, device=device)
            result = dataclasses.replace(result, memory=ready.uses_memory)
    about = {
        **run.record(began),
        "seconds_before_sessions": round(prepared, 1),
        **made,
        "options": {f.name: getattr(system, f.name) for f in dataclasses.fields(system)},
        **({} if system.training else {"training": None}),
        "protocol": str(protocol),
        "base_session": {"recipe": base.recipe.name, "backbone": base.recipe.backbone, "head": base.recipe.head}
        | {"seed": base.seed, "weights_digest": weights[:12]},
        "notes": list(ready.notes()),
    }
    made_of = split.name, split.digest(), digest_of_items(maps.items), about
    stored = StoredResult(system.name, result, *made_of)
    stored.save(out)
    run.clear()
    return stored


def _protocol(system: NetworkSystem, split: Split) -> MultiSession | SingleSession:
    """The one of the tables: `subspan reproduce` draws the same support and the same episodes."""
    if system.protocol == "single-session":
        return SingleSession()
    if not split.sessions:
        raise ValueError(f"system '{system.name}' learns session after session, split {split.name!r} has none")
    return dataclasses.replace(FIXED if split.listed_support else RANDOM, ways=len(split.sessions[0]))
