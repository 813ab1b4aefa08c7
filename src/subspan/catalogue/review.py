"""What of a folder of photographs should be looked at: mislabelled, doubtful, there twice, unlike everything."""

import base64
import html
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image as Pictures

from subspan.arrays import FloatArray
from subspan.catalogue.doubts import CERTAIN, left_out_scores
from subspan.catalogue.looking import Batch
from subspan.catalogue.prints import Prints, prints_of, same_pictures
from subspan.catalogue.records import Finding
from subspan.catalogue.snapshot import Snapshot
from subspan.files.atomic import replacing
from subspan.learners.parts.vectors import softmax
from subspan.pretrained.backbone import Image, Preprocessing

UNLIKE = 0.01  # share of known photographs that are less familiar than what is called unlike everything
SIDE, SHOWN = 160, 200  # of thumbnails on the page, and how many


def review(batch: Batch, snapshot: Snapshot | None = None, scores: FloatArray | None = None) -> list[Finding]:
    """Findings, the worst first.

    Parameters
    ----------
    snapshot : a catalogue, to compare with what it was taught.
    scores : log probabilities (n, C) by models that were not taught each photograph, where they are known already.
    """
    found = [*_mislabelled(batch, snapshot, scores), *_duplicates(batch, snapshot)]
    if snapshot is not None:
        found += _unlike(batch, snapshot)
    return sorted(found, key=lambda one: (-one.score, one.photograph))


def _finding(batch: Batch, place: int, kind: str, other: str | None, score: float, says: str) -> Finding:
    return Finding(
        kind, batch.photographs[place], batch.names[place], other, round(score, 4), says, batch.places[place]
    )


def _mislabelled(batch: Batch, snapshot: Snapshot | None, scores: FloatArray | None) -> Iterable[Finding]:
    """Photographs that models which were not taught them take for another class."""
    features, names = batch.features, batch.names
    if snapshot is not None:
        kept = snapshot.check
        same = same_pictures(prints_of(kept.features), prints_of(batch.features))
        kept = kept.select(np.array([not len(places) for places in same], bool))  # nothing vouches for itself
        features, names = np.concatenate([features, kept.features]), (*names, *kept.names)
    classes, labels = np.unique(np.asarray(names), return_inverse=True)
    if len(classes) < 2:
        return
    counts, probabilities = (
        np.bincount(labels),
        softmax(left_out_scores(features, labels) if scores is None else scores),
    )
    others = np.where(probabilities.argmax(axis=1) == labels, 0, probabilities.max(axis=1))
    sound = 2 * np.bincount(labels, others >= CERTAIN) < counts  # or the class itself lies close to another one
    for place in range(len(batch.names)):
        own, other = probabilities[place, labels[place]], int(probabilities[place].argmax())
        if other == labels[place] or counts[labels[place]] < 2:  # of one photograph nothing says what it should be
            continue
        certain = others[place] >= CERTAIN and sound[labels[place]]
        says = f"looks like '{classes[other]}', " + ("almost certainly" if certain else f"{1 - own:.0%} not its class")
        kind = "mislabelled" if certain else "doubtful"
        yield _finding(batch, place, kind, str(classes[other]), float(1 - own), says)


def _duplicates(batch: Batch, snapshot: Snapshot | None) -> Iterable[Finding]:
    """Pictures that are there twice, or were taught before."""
    prints = prints_of(batch.features)
    taught = Prints.none() if snapshot is None else snapshot.prints
    known = same_pictures(prints, taught.bits)
    for place, places in enumerate(same_pictures(prints, prints)):
        name, first = batch.names[place], int(places[0]) if len(places) else place
        if first < place:
            two = batch.names[first] != name
            says = f"is the same picture as {batch.photographs[first]}" + f" of '{batch.names[first]}'" * two
            yield _finding(batch, place, "duplicate", batch.names[first], 1.0 if two else 0.5, says)
            continue
        others = [str(taught.names[k]) for k in known[place] if taught.names[k] != name]
        if others:
            says = f"was taught as '{others[0]}'"
            yield _finding(batch, place, "duplicate", others[0], 1.0, says)
        elif len(known[place]) > 1:
            yield _finding(batch, place, "duplicate", name, 0.5, f"was taught {len(known[place])} times")


def _unlike(batch: Batch, snapshot: Snapshot) -> Iterable[Finding]:
    """Photographs of known classes that are less familiar than nearly all that are known."""
    threshold = snapshot.threshold(UNLIKE) or snapshot.threshold(5 * UNLIKE)
    if threshold is None:
        return
    for place, familiarity in enumerate(snapshot.familiarity(batch.features)):
        if familiarity < threshold and batch.names[place] in snapshot.classes:
            yield _finding(batch, place, "unlike", None, 0.9, "looks like none of the classes")


def already_taught(features: FloatArray, snapshot: Snapshot) -> int:
    """How many of the photographs with these features (n, d) were taught."""
    return sum(len(places) > 0 for places in same_pictures(prints_of(features), snapshot.prints.bits))


def write_page(file: Path, findings: Sequence[Finding], photographs: Mapping[str, Sequence[Image]]) -> None:
    """The findings as one HTML page with thumbnails."""
    figures = []
    for one in findings[:SHOWN]:
        pixels = Preprocessing(size=SIDE, resize=SIDE).pixels(photographs[one.name][one.place], one.photograph)
        stream = io.BytesIO()
        Pictures.fromarray(pixels).save(stream, "JPEG", quality=80)
        source = base64.b64encode(stream.getvalue()).decode("ascii")
        words = " ".join(map(html.escape, (f"{one.photograph}:", f"said to be '{one.name}',", one.says)))
        image = f'<img src="data:image/jpeg;base64,{source}" width="{SIDE}" height="{SIDE}" alt="">'
        figures.append(f"<figure>{image}<figcaption><b>{one.kind}</b> {words}</figcaption></figure>")
    style = (
        "body{font:1rem sans-serif;margin:1rem}figure{display:inline-block;width:11rem;margin:.5rem;vertical-align:top;"
    )
    head = (
        f"<title>Review</title><meta name=viewport content='width=device-width'><style>{style}overflow-wrap:anywhere}}"
    )
    more = f"<p>{len(findings) - SHOWN} more are not shown.</p>" if len(findings) > SHOWN else ""
    body = "".join(figures) or "<p>Nothing was found.</p>"
    page = f"<!doctype html><html lang=en><meta charset=utf-8>{head}</style><h1>Review</h1>{body}{more}</html>"
    with replacing(file) as whole:
        whole.write_text(page, "utf-8")
