"""Rows of the base classes where a method needs learned ones: multinomial logistic regression on their examples."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression


def logistic_rows(
    features: NDArray[Any], labels: NDArray[np.int64], decay: float, bias: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows (C0, d) and biases (C0,) of features (n, d) with labels (n,), under weight decay."""
    # Of two classes scikit-learn learns one row w; the two rows are -w/2 and w/2, of half its squared norm.
    two = labels.max() == 1
    inverse_decay = (2 if two else 1) / (decay * len(features))
    regression = LogisticRegression(C=inverse_decay, fit_intercept=bias, max_iter=1000).fit(features, labels)
    weights, biases = np.asarray(regression.coef_), np.asarray(regression.intercept_)
    if two:
        return np.concatenate([-weights, weights]) / 2, np.array([-1, 1]) * biases / 2
    return weights, biases
