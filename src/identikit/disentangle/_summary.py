"""Every metric at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from identikit._version import __version__
from identikit.disentangle._data import Data, prepare
from identikit.disentangle._disentanglement import Disentanglement, FactorReport
from identikit.disentangle._factor import Kinds
from identikit.disentangle._presets import is_reference
from identikit.disentangle._registry import METRICS, listed
from identikit.disentangle._rotation import RotationLevel, rotation_level
from identikit.errors import InputError

Progress = Callable[[str, int, int], None]


def disentangle(
    codes: object,
    factors: object = None,
    names: Sequence[str] | None = None,
    *,
    kinds: Kinds = None,
    metrics: Sequence[str] | None = None,
    seed: int = 0,
    preset: str | None = None,
    progress: Progress | None = None,
) -> Disentanglement:
    """Score codes against known factors by every metric, each with its chance level.

    Parameters
    ----------
    codes : array (n, L), data frame or path
        As `open_source` takes it.
    factors : array (n, K), data frame, mapping or path
        Continuous and discrete, mixed; missing values are NaN or None. Files: .npy, .npz
        (`path::name`), .csv, .tsv, .parquet.
    names : sequence of str, optional
        Of the columns of a matrix of factors; of a table, the columns to use.
    kinds : mapping or sequence, optional
        "discrete" or "continuous", by factor name or one a factor.
    metrics : sequence of str, optional
        Names in `METRICS`; by default all but the slow ones.
    seed : int
        Of the folds, permutations and draws.
    preset : None or "reference"
        Held out, or as the field's own implementations do it.
    progress : callable, optional
        Called with (what is being done, done, of how many).

    Examples
    --------
    >>> import numpy as np
    >>> s = np.random.default_rng(0).normal(size=(400, 3))
    >>> found = disentangle(s[:, [1, 2, 0]], s, metrics=["mcc", "r2"])
    >>> [round(score.value, 6) for score in found.scores.values()]
    [1.0, 1.0]
    """
    is_reference(preset)
    chosen = _chosen(metrics)
    data = prepare(codes, factors, names, kinds, seed)
    scores, absent = {}, {}
    for done, name in enumerate(chosen):
        if progress is not None:
            progress(METRICS[name].title, done, len(chosen))
        try:
            scores[name] = METRICS[name](data, preset=preset)
        except InputError as error:
            absent[name] = str(error)
    if not scores:
        raise InputError(
            f"no metric could be computed; the first says: {next(iter(absent.values()))}"
        )
    every = {each: None for score in scores.values() for each in score.excluded}
    return Disentanglement(
        __version__,
        data.rows,
        data.code_names,
        tuple(
            FactorReport(f.name, f.kind, f.classes, data.rows if f.known is None else len(f.known))
            for f in data.factors
        ),
        scores,
        absent,
        _rotation(data, preset),
        tuple(dict.fromkeys((*data.excluded, *every))),
        preset,
        data.seed,
    )


def _chosen(metrics: Sequence[str] | None) -> list[str]:
    if metrics is None:
        return [each.name for each in listed() if not each.slow]
    names = [metrics] if isinstance(metrics, str) else list(dict.fromkeys(metrics))
    unknown = [name for name in names if name not in METRICS]
    if unknown or not names:
        raise InputError(
            f"there is no metric {', '.join(map(repr, unknown)) or 'in an empty list'}; expected "
            f"some of {', '.join(each.name for each in listed())}"
        )
    return names


def _rotation(data: Data, preset: str | None) -> RotationLevel | None:
    try:
        return rotation_level(data, preset=preset)
    except InputError:  # words only, or too few rows in which all factors are known
        return None
