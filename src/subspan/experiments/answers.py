"""What a method answers, checked in every run of both protocols: a rule that it breaks ends the run in one sentence."""

import torch
from torch import Tensor

from subspan.engine import sessions
from subspan.engine.contract import Learner, State
from subspan.experiments.inputs import ProtocolError

ASKED_ALONE = 3  # queries of each call that are asked again, without the others
OF_SIZE, OF_SPREAD = 1e-4, 1e-3  # how far scores may differ by rounding, relative to a score and to all of them


def checked_scores(
    method: Learner, state: State, queries: Tensor, problems: int, classes: int, *, may_diverge: bool = False
) -> Tensor:
    """Scores (problems, q, classes) of queries (q, d) or (problems, q, d).

    There must be a column for each class, and for each query a highest score that is a number, which does not depend
    on what else is asked, unless the method says that it is transductive. With ``may_diverge`` rows that training has
    made infinite answer wrongly: a sweep tries such settings, too.
    """
    scores = sessions.scores(method, state, queries)
    count, rule = queries.shape[-2], f"method '{method.name}' must give"
    wanted, found = (problems, count, classes), tuple(scores.shape)
    if found != wanted:
        raise ProtocolError(f"{rule} scores (problems, queries, classes) of shape {wanted}; it gave {found}")
    if may_diverge and "rows" in state.arrays and not bool(state.rows.isfinite().all()):
        return scores
    without = int((~scores.amax(-1).isfinite()).sum())
    if without:
        raise ProtocolError(
            f"{rule} each query a highest score that is a finite number; {without} of {problems * count} have none"
        )
    if not method.transductive:
        some = torch.linspace(0, count - 1, max(1, min(ASKED_ALONE, count // 2))).long().to(queries.device)
        alone, among = sessions.scores(method, state, queries[..., some, :]), scores[..., some, :]
        finite = among[among.isfinite()]
        close = OF_SPREAD * float(finite.max() - finite.min())
        if alone.shape != among.shape or not torch.allclose(alone, among, rtol=OF_SIZE, atol=close):
            raise ProtocolError(
                f"{rule} a query the same scores whatever else is asked; its scores depend on the other queries or on "
                "chance: declare transductive = True if that is meant, and tables say so"
            )
    return scores
