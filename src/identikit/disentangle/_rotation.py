"""What an arbitrary rotation scores: the level that MCC has to be read against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.disentangle import _linear as linear
from identikit.disentangle._data import prepare
from identikit.disentangle._factor import Kinds
from identikit.disentangle._mcc import signed
from identikit.disentangle._permute import FOLDS, check_held_out
from identikit.disentangle._presets import is_reference
from identikit.disentangle._result import Interval
from identikit.disentangle._sums import fold_sums, standardised, whitened

ROTATIONS = 200


@dataclass(frozen=True)
class Level:
    """Mean and 95 % range of MCC over random rotations."""

    mean: float
    interval: Interval


@dataclass(frozen=True)
class RotationLevel:
    """MCC of codes whose axes are arbitrary.

    `of_factors`: the K factors themselves (variance 1) after a rotation, which hold all and
    disentangle nothing; None for a single factor. `of_codes`: these codes, whitened and rotated. If
    MCC is not above the second, the axes of the codes mean no more than others would.
    """

    of_factors: Level | None
    of_codes: Level
    factors: int
    rotations: int


def rotation_level(
    codes: object,
    factors: object = None,
    *,
    names: Sequence[str] | None = None,
    kinds: Kinds = None,
    seed: int = 0,
    preset: str | None = None,
    rotations: int = ROTATIONS,
) -> RotationLevel:
    """Pearson MCC of random rotations (Haar), scored as `mcc` does, in rows where all is known.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As `prepare` takes them.
    preset : None or "reference"
        Held out or in sample, as in `mcc`.
    rotations : int
        How many.

    Examples
    --------
    >>> s = np.random.default_rng(0).normal(size=(5000, 5))
    >>> round(rotation_level(s, s).of_factors.mean, 1)
    0.7
    """
    reference = is_reference(preset)
    data = prepare(codes, factors, names, kinds, seed)
    scored, _ = data.numeric("MCC")
    known = np.ones(data.rows, dtype=bool)
    for factor in scored:
        if factor.known is not None:
            known[np.delete(np.arange(data.rows), factor.known)] = False
    rows = np.flatnonzero(known)
    check_held_out(len(rows), "the level of a rotation")
    columns = []
    for factor in scored:
        whole = np.zeros(data.rows)
        whole[slice(None) if factor.known is None else factor.known] = factor.values
        columns.append(whole[rows])
    s = standardised(np.column_stack(columns))
    rng = np.random.default_rng(data.seed)
    return RotationLevel(
        _level(s, s, rotations, rng, whole=reference) if len(scored) > 1 else None,
        _level(whitened(data.codes[rows], data.eps), s, rotations, rng, whole=reference),
        len(scored),
        rotations,
    )


def _level(z: Array, s: Array, rotations: int, rng: np.random.Generator, *, whole: bool) -> Level:
    sums = fold_sums(z, s, FOLDS)
    width, values = z.shape[1], []
    for _ in range(rotations):
        turn, upper = np.linalg.qr(rng.normal(size=(width, width)))
        # The signs make it uniform over all rotations and reflections.
        turned = sums.mapped(turn * np.sign(np.diagonal(upper)))
        train, test = (turned.total(),) * 2 if whole else (turned.without_each(), turned)
        pairs = [linear.correlations(each)[:, :, None] for each in (train, test)]
        values.append(signed(*pairs).sum(-1).mean() / min(s.shape[1], width))
    low, high = np.quantile(values, (0.025, 0.975))
    return Level(float(np.mean(values)), (float(low), float(high)))
