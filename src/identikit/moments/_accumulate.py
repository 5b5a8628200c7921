"""`accumulate`: the moments of views in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from numpy.typing import ArrayLike

from identikit._progress import Progress
from identikit.errors import InputError
from identikit.moments._distinct import DUPLICATES, duplicate_groups
from identikit.moments._folds import FOLDS, assign_folds
from identikit.moments._moments import Moments
from identikit.moments._passes import opened, read_moments
from identikit.moments._sizes import in_range
from identikit.moments.engines import engine_for
from identikit.moments.memory import check_memory
from identikit.sources import unpack

__all__ = ["accumulate"]


def accumulate(
    views: Sequence[object] | Mapping[str, object],
    *,
    folds: int = FOLDS,
    groups: ArrayLike | str | None = None,
    names: Sequence[str] | None = None,
    seed: int = 0,
    sample: int = 1000,
    drop_nonfinite: bool = False,
    memory: int | None = None,
    block_rows: int | None = None,
    progress: Progress | None = None,
    engine: object = None,
    digest: bool = False,
) -> Moments:
    """Compute the moments of views of the same rows, in one pass over blocks of rows.

    If a view is so ill-conditioned that its scatter matrix loses digits, a second pass computes it
    in coordinates in which the view is well conditioned.

    Parameters
    ----------
    views : sequence or mapping
        A list, or a mapping from names to views. A view is an array (rows × columns), anything with
        ``__array__``, a torch tensor, or a path; ``"file.npz::name"`` names an array inside a file.
    folds : int
        Number of folds for which separate statistics are kept.
    groups : array (rows,) or "duplicates", optional
        One label per row; rows of one group share a fold. Without it, folds are small blocks of
        rows that are scattered at random, so that every fold covers the whole range of sorted rows.
        With "duplicates", rows that are equal in all views share a fold, which takes one more pass.
    names : sequence of str, optional
        Names of the views.
    seed : int
        Seed of the folds and of the row sample.
    sample : int
        Number of rows to keep for the measures that need rows. With 0 no row is kept, not even the
        largest rows of each view, which an audit uses to find out whether a few rows determine the
        result.
    drop_nonfinite : bool
        Leave rows with NaN or infinity out of all views, instead of raising an error.
    memory : int, optional
        Bytes that the statistics may take; half of the machine's memory by default.
    block_rows : int, optional
        Number of rows to read at a time.
    progress : callable, optional
        Called with ("reading", rows done, total rows).
    engine : str or Engine, optional
        What reads the rows: this process by default, "pool" for processes on this machine, "dask"
        for a Dask cluster started for the call, a scheduler's address, or a Dask client.
    digest : bool
        Compute digests of the data, so that moments of the same shard cannot be merged twice.

    Returns
    -------
    Moments

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> whole = accumulate([X, 2 * X])
    >>> parts = accumulate([X[:60], 2 * X[:60]]) + accumulate([X[60:], 2 * X[60:]])
    >>> bool(np.allclose(whole.block(0, 1), parts.block(0, 1)))
    True
    """
    if sample < 0:
        raise InputError(f"sample is {sample}; give 0 rows or more")
    if block_rows is not None and block_rows < 1:
        raise InputError(f"block_rows is {block_rows}; give at least 1")
    with opened(*unpack(views, names)) as sources:
        check_memory([source.width for source in sources], folds, memory)
        labels = groups
        if isinstance(groups, str):
            if groups != DUPLICATES:
                raise InputError(
                    f"groups is {groups!r}; give one label per row, or {DUPLICATES!r} to keep "
                    "equal rows together"
                )
            labels = duplicate_groups(sources)
        read = partial(
            read_moments,
            folds=assign_folds(sources[0].rows, folds, labels, seed),
            seed=seed,
            sample=sample,
            drop_nonfinite=drop_nonfinite,
            block_rows=block_rows,
            progress=progress,
            digest=digest,
        )
        with engine_for(engine) as workers:
            return in_range(partial(read, engine=workers), sources)
