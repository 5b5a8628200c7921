"""The colours and the typography of the figures."""

from __future__ import annotations

from typing import Any

# The page replaces each of these by the CSS variable of that name, so they must stay distinct.
PALETTE = {
    "ink": "#1d2731",
    "muted": "#5a6673",
    "line": "#d5dbe1",
    "accent": "#0b6584",
    "second": "#b4531b",
    "band": "#e6ebef",
}
STYLE: dict[str, Any] = {
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 9,
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": PALETTE["muted"],
    "axes.linewidth": 0.7,
    "axes.labelcolor": PALETTE["muted"],
    "axes.titlecolor": PALETTE["ink"],
    "text.color": PALETTE["ink"],
    "xtick.color": PALETTE["muted"],
    "ytick.color": PALETTE["muted"],
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "svg.fonttype": "none",
}
