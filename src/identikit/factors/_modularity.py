"""Modularity: is each code informative about one factor only?"""

from __future__ import annotations

import numpy as np

from identikit._linalg import Array
from identikit.factors._metric import Trial, metric
from identikit.factors._resample import pooled
from identikit.factors._result import Score, named, part_of
from identikit.factors._tables import information


@metric(
    "modularity",
    "Does each code know of one factor only?",
    invariant_to="permutation and monotone function per code",
    reference="Ridgeway and Mozer 2018",
    permutations=50,
    place=42,
)
def modularity(trial: Trial, *, bins: int | None = None, noise: float = 0.0) -> Score:
    """Mean over codes of 1 − Σ_{j≠j*} m_j² / ((K − 1) m_{j*}²), with m_j = I(z; s_j).

    The factor j* about which a code is most informative is chosen on other rows than those that
    give m. A code without information scores 0, and negative values are set to 0. Information is
    estimated as in `mig`. preset="reference" uses 20 bins of equal width, without correction, in
    sample.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As in `prepare`; at least two factors are needed.
    preset : None or "reference"
        Held out, or as in disentanglement_lib.
    bins, noise
        As in `mig`.
    permutations : int
        Number of permutations for the chance level; 50 by default.
    """
    trial.needs_several()
    found = information(trial, bins, noise)
    if trial.reference:
        values = _modularity(found.whole, found.whole)
        without = _modularity(found.train, found.train)[:, 0]
    else:
        each = _modularity(found.train, np.maximum(found.held_out, 0.0))
        values, without = pooled(each, np.ones_like(each))
    per_code = named(trial.data.code_names, values[0])
    part = part_of("modularity", values.mean(-1), without.mean(-1), 0.0, per_code=per_code)
    return trial.score(
        part,
        found.words,
        rows=found.rows,
        matrix=found.whole[0],
        matrix_of="mutual information",
    )


def _modularity(train: Array, test: Array) -> Array:
    """The modularity of every code, from information (…, L, K)."""
    most = np.argmax(train, axis=-1)[..., None]
    squares = test**2
    largest = np.take_along_axis(squares, most, axis=-1)[..., 0]
    others = squares.sum(-1) - largest
    share = np.ones(largest.shape)
    np.divide(others, largest * (test.shape[-1] - 1), out=share, where=largest > 0)
    return np.maximum(1.0 - share, 0.0)
