"""Statistics of classes that sessions and base sessions need, of NumPy arrays and of tensors alike."""

from subspan.arrays import Array, functions_of


def class_means(support: Array, labels: Array, classes: tuple[int, ...]) -> Array:
    """Mean support feature (*batch, K, d) of each of these classes; support (*batch, n, d), labels (*batch, n).

    >>> import numpy as np
    >>> class_means(np.array([[0.0, 2.0], [2.0, 2.0], [5.0, 5.0]]), np.array([7, 7, 8]), (7, 8))
    array([[1., 2.],
           [5., 5.]])
    """
    functions = functions_of(support)
    chosen = functions.asarray(classes, device=labels.device)
    member = functions.asarray(labels[..., None, :] == chosen[:, None], dtype=support.dtype)  # (*batch, K, n)
    return (member @ support) / member.sum(-1, keepdims=True)


def within_classes(features: Array, means: Array, labels: Array) -> Array:
    """Covariance (d, d) of features (n, d) around the means (C, d) of their classes, labels (n,).

    >>> import numpy as np
    >>> within_classes(np.array([[0.0, 2.0], [2.0, 2.0]]), np.array([[1.0, 2.0]]), np.array([0, 0]))
    array([[1., 0.],
           [0., 0.]])
    """
    centred = features - means[labels]
    return centred.mT @ centred / len(features)
