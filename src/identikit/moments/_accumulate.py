"""The moments of views in one call, or saved as a file by a reading that can be resumed."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from identikit._progress import Progress
from identikit._store import Pace, check_same
from identikit._version import __version__
from identikit.errors import InputError
from identikit.moments._distinct import DUPLICATES, duplicate_groups
from identikit.moments._file import check_suffix, read, save_moments, write
from identikit.moments._folds import FOLDS, Folds, assign_folds
from identikit.moments._header import Partial
from identikit.moments._moments import Moments
from identikit.moments._passes import Checkpoint, kept_spans, opened, read_moments, stamps_of
from identikit.moments._scan import Summed
from identikit.moments._sizes import in_range
from identikit.moments.engines import Engine, engine_for
from identikit.moments.memory import check_memory
from identikit.sources import Source, unpack

__all__ = ["accumulate", "read_and_save"]


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


#: Least number of seconds between two checkpoints.
EVERY = 5.0

_BLOCK_ROWS = 65536


def read_and_save(
    sources: Sequence[Source],
    folds: Folds,
    path: str | os.PathLike[str],
    *,
    resume: bool = False,
    overwrite: bool = True,
    seed: int = 0,
    sample: int = 1000,
    drop_nonfinite: bool = False,
    progress: Progress | None = None,
    engine: Engine | None = None,
    every: float = EVERY,
) -> Moments:
    """`read_moments`, saved to a file; while rows are read, checkpoints are saved beside it.

    Parameters
    ----------
    path : path
        A path that ends in ``.moments``. A reading that is killed leaves a file with this name and
        ``.partial`` appended.
    resume : bool
        Resume from such a file if there is one. If false, such a file is an error, because it may
        hold hours of work.
    overwrite : bool
        If false, raise an error if the moments file exists already, and leave it unchanged.
    every : float
        Least number of seconds between two checkpoints.

    Returns
    -------
    Moments
    """
    check_suffix(path)
    partial = Path(path).with_name(f"{Path(path).name}.partial")
    if partial.exists() and not resume:
        raise InputError(
            f"{partial} holds an unfinished reading; continue it with --resume, or delete it to "
            "start over"
        )
    known = fingerprint(sources, folds, seed=seed, sample=sample, drop_nonfinite=drop_nonfinite)
    pace = Pace(every)

    def keep(checkpoint: Checkpoint) -> None:
        began = time.monotonic()
        if pace.due():
            digests = tuple(f"{digest:032x}" for digest in checkpoint.summed.digests)
            how_far = Partial(checkpoint.second, checkpoint.spans, folds.rows, digests, known)
            write(checkpoint.summed.moments, partial, how_far)
            pace.written(began)

    def read_all(views: Sequence[Source]) -> Moments:
        return read_moments(
            views,
            folds,
            seed=seed,
            sample=sample,
            drop_nonfinite=drop_nonfinite,
            progress=progress,
            engine=engine,
            digest=True,
            checkpoint=recall(partial, known, [getattr(view, "exponent", 0) for view in views]),
            keep=keep,
        )

    moments = in_range(read_all, sources)
    save_moments(moments, path, overwrite=overwrite)
    partial.unlink(missing_ok=True)
    return moments


def fingerprint(
    sources: Sequence[Source], folds: Folds, *, seed: int, sample: int, drop_nonfinite: bool
) -> dict[str, Any]:
    """The data and settings that identify a reading; the keys are phrases for error messages."""
    known: dict[str, Any] = {
        "the version of identikit": __version__,
        "the names of the views": [source.name for source in sources],
        "the number of rows": folds.rows,
        "the number of folds": folds.count,
        "the groups": None if folds.labels is None else _digest(folds.labels.data),
        "how rows are dealt out to folds": folds.rule,
        "the seed": seed,
        "the size of the row sample": sample,
        "leaving out rows that are not finite": drop_nonfinite,
    }
    for source in sources:
        known[f"the columns of view {source.name!r}"] = source.width
        known[f"the precision of view {source.name!r}"] = source.eps
        known[f"the origin of view {source.name!r}"] = _origin(source)
        files = [str(path) for path in source.files], stamps_of(source)
        known[f"the files of view {source.name!r}"] = _digest(repr(files).encode())
    return known


def _origin(source: Source) -> str:
    """A path, or a digest of data that have none."""
    if isinstance(source.origin, str):
        return source.origin
    if hasattr(source.origin, "identity"):  # reordered rows, whose temporary path may change
        return str(source.origin.identity)
    if hasattr(source.origin, "open_source"):
        return _digest(pickle.dumps(source.origin))
    digest = blake2b(digest_size=16)
    for start in range(0, source.rows, _BLOCK_ROWS):
        block = source.read(start, min(start + _BLOCK_ROWS, source.rows))
        digest.update(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _digest(data: bytes | memoryview) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def recall(path: Path, known: dict[str, Any], units: Sequence[int]) -> Checkpoint | None:
    """Read the checkpoint in a file; None if there is none, or if it is in other units.

    `known` is the `fingerprint` of this reading, and `units` the exponent of each view's units.
    """
    if not path.exists():
        return None
    try:
        header, moments = read(path)
    except InputError as error:
        raise InputError(f"{error}; or delete it, to read from the start") from error
    partial = header.partial
    if partial is None:
        raise InputError(f"{path} is not an unfinished reading: delete or rename it")
    remedy = "use the same data and settings, or delete it to read from the start"
    check_same(path, partial.fingerprint, known, "an unfinished reading", remedy)
    whole = set(kept_spans(known["the number of rows"]))
    if not whole.issuperset(partial.spans) or len(set(partial.spans)) < len(partial.spans):
        raise InputError(
            f"{path} is damaged: it lists ranges of rows that cannot be right; delete it to read "
            "from the start"
        )
    if list(moments.units) != list(units):
        return None
    digests = tuple(int(digest, 16) for digest in partial.digests)
    return Checkpoint(partial.second, partial.spans, Summed(moments, digests))
