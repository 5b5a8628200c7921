"""The demo's views: the last hidden layer of small classifiers of handwritten digits.

A softmax classifier with K classes fixes its last hidden layer up to an affine map, if that layer
has fewer than K dimensions and training reaches the same distribution (Roeder, Metz and Kingma,
2021). Here K is 10 and the layer has 8 units, after its tanh. The networks differ in their
random initial weights only.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from identikit._progress import Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

TRAINING_ROWS = 900
LAYERS = (64, 8)
CONTROL = "shuffled labels"
BASELINE = "pixels"


@dataclass(frozen=True)
class DemoViews:
    """Views of held-out digits by name, and how many of the digits each seed's network gets right.

    The trained seeds come first, then the control, then the raw input.
    """

    views: dict[str, Array]
    accuracy: dict[str, float]

    @property
    def trained(self) -> dict[str, Array]:
        return {name: self.views[name] for name in self.accuracy}


def demo_views(seeds: int, progress: Progress) -> DemoViews:
    """Train a network a seed, and one on shuffled labels; return their views of unseen digits."""
    import numpy as np
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(0)
    pixels, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(pixels))
    pixels, labels = pixels[order] / 16, labels[order]
    train, unseen = slice(TRAINING_ROWS), slice(TRAINING_ROWS, None)
    views, accuracy = {}, {}
    for seed in range(seeds):
        progress("training", seed, seeds + 1)
        network = train_network(pixels[train], labels[train], seed)
        views[f"seed {seed}"] = last_hidden_layer(network, pixels[unseen])
        accuracy[f"seed {seed}"] = float(network.score(pixels[unseen], labels[unseen]))
    progress("training", seeds, seeds + 1)
    control = train_network(pixels[train], rng.permutation(labels[train]), seeds)
    views[CONTROL] = last_hidden_layer(control, pixels[unseen])
    views[BASELINE] = pixels[unseen]
    progress("training", seeds + 1, seeds + 1)
    return DemoViews(views, accuracy)


def train_network(
    pixels: Array, labels: NDArray[Any], seed: int, layers: tuple[int, ...] = LAYERS
) -> Any:
    """Train one small classifier; only the seed, or the labels, tell it from another."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    network = MLPClassifier(
        layers, activation="tanh", solver="lbfgs", alpha=3.0, max_iter=400, random_state=seed
    )
    with warnings.catch_warnings():
        # 400 steps are meant: 1500 lower the loss by less than 1 % more.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return network.fit(pixels, labels)


def last_hidden_layer(network: Any, pixels: Array) -> Array:
    """What the output layer reads: the activations of the last hidden layer."""
    import numpy as np

    hidden = pixels
    for weights, shift in zip(network.coefs_[:-1], network.intercepts_[:-1]):
        hidden = np.tanh(hidden @ weights + shift)
    return hidden
