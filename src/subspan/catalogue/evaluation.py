"""A catalogue against photographs whose classes are known: accuracy, confusions, and what rejection would do."""

from collections import Counter

import numpy as np

from subspan.catalogue.looking import Batch
from subspan.catalogue.records import ClassAccuracy, Evaluation, TradeOff, WrongAnswer
from subspan.catalogue.review import already_taught
from subspan.catalogue.snapshot import Snapshot

CURVE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)  # shares of known photographs that may be rejected


def evaluate_batch(snapshot: Snapshot, batch: Batch) -> Evaluation:
    """Classes that the snapshot does not know count as unknown; they enter the trade-off only."""
    scores = snapshot.scores(batch.features)
    place = {name: i for i, name in enumerate(snapshot.classes)}
    truth = np.array([place.get(name, -1) for name in batch.names])
    answers, familiarities = scores.argmax(axis=1), snapshot.familiarity(batch.features)
    known, right = truth >= 0, answers == truth
    per_class = []
    for name in dict.fromkeys(batch.names):
        if name in place:
            mine = np.flatnonzero(truth == place[name])
            wrong = Counter(snapshot.classes[answers[i]] for i in mine if not right[i])
            per_class.append(ClassAccuracy(name, len(mine), int(right[mine].sum()), tuple(wrong.most_common())))
    probabilities = snapshot.probabilities(scores).max(axis=1)
    wrong = tuple(
        WrongAnswer(batch.photographs[i], batch.names[i], snapshot.classes[answers[i]], float(probabilities[i]))
        for i in np.flatnonzero(known & ~right)
    )
    curve = []
    for share in CURVE:
        threshold = snapshot.threshold(share)
        if threshold is None or not known.any():
            continue
        accepted = familiarities >= threshold
        answered = known & accepted
        curve.append(
            TradeOff(
                promised=share,
                threshold=threshold,
                known_rejected=100 * float((~accepted[known]).mean()),
                accuracy_of_accepted=100 * float(right[answered].mean()) if answered.any() else None,
                unknown_rejected=100 * float((~accepted[~known]).mean()) if (~known).any() else None,
            )
        )
    return Evaluation(
        accuracy=100 * float(right[known].mean()) if known.any() else None,
        examples=int(known.sum()),
        unknown_examples=int((~known).sum()),
        per_class=tuple(per_class),
        curve=tuple(curve),
        wrong=wrong,
        taught=already_taught(batch.features, snapshot),
        skipped=batch.skipped,
    )
