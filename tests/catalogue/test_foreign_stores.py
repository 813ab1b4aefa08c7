"""Stores whose checksums are right and whose content is anybody's: one sentence, or answers; never a traceback."""

import copy
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.files import store

STORES = Path(__file__).parent


def rewritten(target: Path, arrays: dict, meta: dict) -> Path:
    """A store with one version of this content."""
    version = store.make_version(arrays, meta)
    store.write(target, [version], version.id)
    return target


def whole(path: Path) -> tuple[dict, dict]:
    version = store.load_version(path, store.read(path).current)
    return dict(version.arrays), copy.deepcopy(dict(version.meta))


META = {
    "no session": ("sessions", []),
    "a session that is a number": ("sessions", [7]),
    "classes twice": ("classes", ["blue", "blue", "red", "yellow"]),
    "a class of control characters": ("classes", ["blue", "gr\x1b[2Jeen", "red", "yellow"]),
    "a class that is a list": ("classes", [["blue"], "green", "red", "yellow"]),
    "no class": ("classes", []),
    "99 base classes": ("base_count", 99),
    "a true base class": ("base_count", True),
    "half a feature": ("n_features_in", 0.5),
    "a bias in words": ("with_bias", "no"),
    "parameters in a list": ("parameters", []),
}


@pytest.mark.parametrize("change", META)
def test_what_cannot_be_said_of_a_model_is_one_sentence(colours: Catalogue, tmp_path: Path, change: str):
    arrays, meta = whole(colours.path)
    name, value = META[change]
    path = rewritten(tmp_path / "foreign.subspan", arrays, {**meta, name: value})
    with pytest.raises(store.StoreError) as refused:
        Catalogue.open(path)
    assert "\n" not in str(refused.value)


ARRAYS = {
    "half precision": lambda array: array.astype(np.float16),
    "one dimension": np.ravel,
    "integers": lambda array: array.astype(np.int64),
    "a row too few": lambda array: array[:-1],
    "a column too few": lambda array: array[..., :-1],
    "not finite": lambda array: np.full_like(array, np.nan),
    "empty": lambda array: array[:0],
}


@pytest.mark.parametrize("change", ARRAYS)
def test_rows_that_do_not_fit_are_one_sentence(colours: Catalogue, tmp_path: Path, backbone, change: str):
    arrays, meta = whole(colours.path)
    arrays["learned.rows"] = ARRAYS[change](arrays["learned.rows"])
    path = rewritten(tmp_path / "foreign.subspan", arrays, meta)
    with pytest.raises(store.StoreError):
        Catalogue.open(path, backbone).predict(made.photographs("red", 2))


PLAIN = st.none() | st.booleans() | st.integers(-3, 99) | st.floats() | st.text(max_size=3) | st.just([]) | st.just({})


def places(value: object, way: tuple = ()) -> list[tuple]:
    """The ways to everything in nested objects and lists."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for key, part in inside for place in places(part, (*way, key)))]


@pytest.fixture(scope="module")
def stores() -> list[tuple[dict, dict]]:
    return [whole(path) for path in sorted(STORES.glob("stores-*/*.subspan"))]


@pytest.mark.slow
@settings(max_examples=int(os.environ.get("EXAMPLES", "5000")), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_change_is_one_sentence_or_harmless(stores, tmp_path_factory, data: st.DataObject):
    original, meta = stores[data.draw(st.integers(0, len(stores) - 1))]
    arrays, meta = dict(original), copy.deepcopy(meta)
    for _ in range(data.draw(st.integers(1, 3))):
        if data.draw(st.booleans()):
            name = data.draw(st.sampled_from(sorted(arrays)))
            change = data.draw(st.sampled_from([*ARRAYS.values(), None]))
            if change is None:
                del arrays[name]
            elif arrays[name].ndim:
                with np.errstate(invalid="ignore"):
                    arrays[name] = np.ascontiguousarray(change(arrays[name].astype(np.float64)))
            continue
        way = data.draw(st.sampled_from(places(meta)[1:]))
        value = data.draw(PLAIN.filter(lambda value: not isinstance(value, float) or math.isfinite(value)))
        inside = meta
        try:
            for step in way[:-1]:
                inside = inside[step]
            inside[way[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
    path = rewritten(tmp_path_factory.mktemp("fuzz") / "foreign.subspan", arrays, meta)
    try:
        catalogue = Catalogue.open(path)
        catalogue.classes(), catalogue.sessions()
        width = catalogue._snapshot.classifier.n_features_in_
        catalogue.predict_features(np.ones((2, width), np.float32))
    except (ValueError, ModuleNotFoundError) as refused:
        assert str(refused).strip()  # noqa: PT017 (most changes are harmless)
