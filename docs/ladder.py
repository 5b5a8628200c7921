"""Make docs/ladder.png: three pairs on the ladder, beside what plain similarity says of them.

    python docs/ladder.py

Last hidden layers (128 units) of small networks on 400 handwritten digits that they have not seen:
one against a rotated copy of itself, against a network from another seed, and against a network
that learned shuffled labels.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import identikit as ik
from identikit.alignment import ladder
from identikit.cli._demo_data import TRAINING_ROWS, last_hidden_layer, train_network
from identikit.report.style import PALETTE, STYLE

LAYERS, ROWS, DRAWS = (64, 128), 400, 20
MEASURES = {"cca": "mean CCA", "svcca": "SVCCA", "cka": "CKA"}
COLOURS = (PALETTE["accent"], PALETTE["second"], PALETTE["muted"])
TOP = 1.2


def views() -> dict[str, np.ndarray]:
    """The view that the others are compared with, and these."""
    rng = np.random.default_rng(0)
    pixels, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(pixels))
    pixels, labels = pixels[order] / 16, labels[order]
    seen, unseen = pixels[:TRAINING_ROWS], pixels[TRAINING_ROWS : TRAINING_ROWS + ROWS]
    labels = labels[:TRAINING_ROWS]

    def layer(seed: int, labels: np.ndarray) -> np.ndarray:
        return last_hidden_layer(train_network(seen, labels, seed, LAYERS), unseen)

    first = layer(0, labels)
    turn = np.linalg.qr(rng.normal(size=(LAYERS[-1], LAYERS[-1])))[0]
    noise = 0.01 * first.std() * rng.normal(size=first.shape)
    return {
        "": first,
        "a rotated copy": first @ turn + noise,
        "another seed": layer(1, labels),
        "shuffled labels": layer(2, rng.permutation(labels)),
    }


def chance(first: np.ndarray, others: list[np.ndarray]) -> tuple[float, float]:
    """The band of the best rung's error if the rows of one view are shuffled."""
    rng = np.random.default_rng(1)
    errors = []
    for draw in range(DRAWS):
        other = others[draw % len(others)]
        moments = ik.accumulate([first, other[rng.permutation(len(other))]], sample=0)
        rungs = ladder(moments)
        errors.append(min(max(side.error for side in both) for both in rungs.values()))
    low, high = np.quantile(errors, [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    """Train, audit, draw."""
    from matplotlib import style
    from matplotlib.figure import Figure

    first, *others = views().items()
    pairs = {name: ik.audit([first[1], view]).comparisons[0] for name, view in others}
    low, high = chance(first[1], [view for _, view in others])
    with style.context(["default", STYLE]):
        figure = Figure((8.6, 3.5), layout="constrained", dpi=160)
        left, right = figure.subplots(1, 2, width_ratios=(2, 1))
        ladders(left, pairs, (low, high))
        similarities(right, pairs)
        figure.savefig(Path(__file__).with_name("ladder.png"))
    print(f"best map of shuffled rows: {low:.2f} to {high:.2f}", file=sys.stderr)
    for name, pair in pairs.items():
        scores = {label: f"{pair.measures[key].value:.2f}" for key, label in MEASURES.items()}
        print(f"{name}: {pair.group}, error {pair.error:.2f}; {scores}", file=sys.stderr)


def ladders(ax: Any, pairs: dict[str, ik.Pair], band: tuple[float, float]) -> None:
    """Held-out error of every rung, the named one ringed."""
    ax.axhspan(*band, color=PALETTE["band"], zorder=0)
    rungs = [rung.group for rung in next(iter(pairs.values())).ladder]
    for (name, pair), colour in zip(pairs.items(), COLOURS):
        errors = np.array([rung.error for rung in pair.ladder])
        ends = np.array([rung.interval for rung in pair.ladder]).clip(0, TOP)
        inside = errors <= TOP
        at = np.arange(len(rungs))
        ax.plot(at[inside], errors[inside], "o-", ms=4, lw=1, color=colour)
        ax.vlines(at[inside], *ends[inside].T, color=colour, lw=1.6)
        named = rungs.index(pair.group)
        ax.plot(named, errors[named], "o", ms=11, mfc="none", mec=colour, mew=1.4)
        text = f"{name}: {pair.group}, explains {100 * (1 - errors[named] ** 2):.1f} %"
        ax.plot([], [], "o-", ms=4, color=colour, label=text)
    ax.set_xticks(range(len(rungs)), rungs)
    ax.set_ylim(-0.05, TOP)
    ax.set_ylabel("held-out error (1: as good as the mean)")
    ax.set_title("identikit: the same up to what?")
    ax.annotate("rows shuffled: no map beats the mean", (6.4, band[1]), (0, 3), ha="right",
                textcoords="offset points", color=PALETTE["muted"], fontsize=7.5)  # fmt: skip
    ax.legend(frameon=False, fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.1))


def similarities(ax: Any, pairs: dict[str, ik.Pair]) -> None:
    """What three measures say, as they are usually read: without a chance level."""
    for place, key in enumerate(MEASURES):
        for (_, pair), colour in zip(pairs.items(), COLOURS):
            ax.plot(place, pair.measures[key].value, "o", ms=7, color=colour, alpha=0.8)
    ax.set_xticks(range(len(MEASURES)), MEASURES.values())
    ax.set_xlim(-0.5, len(MEASURES) - 0.5)
    ax.set_ylim(0, 1.05)
    ax.set_ylabel("similarity")
    ax.set_title("the usual numbers")


if __name__ == "__main__":
    main()
