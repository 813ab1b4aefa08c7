"""The estimator: fit base classes, then add classes, predict, undo, save and load.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> centers = {"ash": 0, "elm": 1, "oak": 2}
>>> def photographs(name, count):
...     return np.eye(8)[centers[name]] * 4 + rng.normal(size=(count, 8))
>>> X = np.concatenate([photographs("ash", 40), photographs("elm", 40)])
>>> y = ["ash"] * 40 + ["elm"] * 40
>>> model = IncrementalClassifier(method="finetune").fit(X, y)
>>> model.add_classes(photographs("oak", 5), ["oak"] * 5).classes_.tolist()
['ash', 'elm', 'oak']
>>> model.predict(photographs("oak", 2)).tolist()
['oak', 'oak']
>>> model.undo().classes_.tolist()
['ash', 'elm']
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from subspan.engine.contract import Learner
from subspan.learners.parts.vectors import softmax
from subspan.model import Model
from subspan.values import Features, Labels, like, to_numpy


class IncrementalClassifier(ClassifierMixin, BaseEstimator, Model):
    """A linear or cosine classifier that learns new classes from a handful of examples.

    Threads may share one: sessions wait for one another, and predictions answer from the last that is done. The unit of
    the features changes no answer: what trains sees them at one length, which the base session sets.

    Parameters
    ----------
    method : name of a method (``list_methods()``), with options as on the command line (``"semantic:tau=2"``), or a
        method itself. ``"auto"`` is decided with the base session, for good: ``"posterior"`` where it has examples, or
        class means and a covariance; ``"prototype"`` where it has means only, of 16 features or more; else
        ``"subspace"``.
    gamma : strength of the pull on new rows; None takes the method's own.
    beta : strength that holds old rows, one number or (base, novel); None takes the method's own.
    memory : examples kept of every class and replayed in later sessions by methods that train; 0 keeps none.
    bias : whether `fit` learns a bias per class.
    base_decay : weight decay of the base session's logistic regression, on features of root mean square length 11.5.
    dtype : arithmetic of the sessions, ``"float32"`` or ``"float64"``.
    seed : of the start of new rows and of the choice of memory.

    Attributes
    ----------
    classes_ : labels in the order of their rows. A class keeps its place; sessions append theirs in sorted order.
    coef_ : rows (C, d), as the method has them; ``rows_`` where it keeps more or less of a class.
    intercept_ : biases (C,), zeros where there are none.
    method_ : the method in use, with its options: what ``"auto"`` stands for.
    sessions_ : one record per session: kind, classes, examples, steps, seconds, date, method.
    n_features_in_ : width of the features.
    is_base_ : which classes are of the base session (C,). examples_seen_ : examples learned from, by class (C,).

    References
    ----------
    Akyürek, Akyürek, Wijaya, Andreas. Subspace Regularizers for Few-Shot Class Incremental Learning. ICLR 2022.
    """

    # Predictions

    def decision_function(self, X: Features) -> Any:
        """Scores (n, C); for two classes, as scikit-learn has it, the second's lead (n,)."""
        scores, _ = self._scores(X)
        return like(X, scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores)

    def predict_proba(self, X: Features) -> Any:
        """Probabilities (n, C), columns in the order of ``classes_``."""
        return like(X, softmax(self._scores(X)[0]))

    def predict(self, X: Features) -> Any:
        """Labels (n,): a tensor for tensors where labels are numbers, else an array."""
        scores, classes = self._scores(X)
        labels = classes[scores.argmax(1)]
        return like(X, labels) if labels.dtype.kind in "biuf" else labels

    # What scikit-learn asks of an estimator

    def _base_examples(self, X: Features, y: Labels) -> tuple[NDArray[Any], NDArray[Any]]:
        features, labels = map(
            np.asarray, validate_data(self, to_numpy(X), to_numpy(y), dtype=[np.float64, np.float32])
        )
        self._check_parameters()
        check_classification_targets(labels)
        return features, labels

    def _fewest(self, method: Learner) -> int:
        return 2

    def _queries(self, X: Features) -> NDArray[Any]:
        return np.asarray(validate_data(self, to_numpy(X), reset=False, dtype=[np.float64, np.float32]))

    def _check_taught(self) -> None:
        check_is_fitted(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_history")
