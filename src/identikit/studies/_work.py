"""The argument of a study's `run`: settings, data, and units of work that are computed once."""

from __future__ import annotations

import pickle
import re
import shutil
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from identikit._progress import Progress
from identikit.errors import InputError, MissingExtraError, naming_extras
from identikit.moments.engines import Engine, LostError, Pool, engine_for
from identikit.studies._data import Data
from identikit.studies._store import read_unit, unit_path, write_unit
from identikit.studies._study import Record, Settings

if TYPE_CHECKING:
    import pandas as pd

WORKING = "working"
_KEY = re.compile(r"\w[\w.,=+-]{0,119}", re.ASCII)


class _Call(NamedTuple):
    """A unit to compute; it can be sent to another process."""

    key: str
    path: Path
    digest: str
    code: str
    function: Callable[..., Record]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Work:
    """The argument of a study's `run`.

    A unit is a function call whose Record is stored in the study's folder under a key. If a run is
    interrupted or killed and then started again, it computes only the missing units.

    Attributes
    ----------
    folder : Path
        The study's folder.
    settings : Settings
        The values of the preset, with the caller's changes.
    data : Data
        Loads images and text.
    progress : callable
        Call it with a description of the current work, the number of parts done, and their total.
    seconds : dict of str to float
        The computing time of each unit, by key.
    resumed : int
        The number of units that an earlier run had already computed.
    stale : list of str
        The keys of those that were computed by a different version of the study's code.
    """

    def __init__(
        self, folder: Path, settings: Settings, data: Data, digest: str,
        progress: Progress | None = None, engine: str | Engine | None = "pool", code: str = "",
    ) -> None:  # fmt: skip
        self.folder, self.settings, self.data = folder, settings, data
        self.progress: Progress = progress or (lambda _what, _done, _of: None)
        self.seconds: dict[str, float] = {}
        self.resumed = 0
        self.stale: list[str] = []
        self._said = False
        self._digest, self._engine, self._code = digest, engine, code

    def unit(self, key: str, function: Callable[..., Record], *args: Any, **kwargs: Any) -> Record:
        """The Record of `function(*args, **kwargs)`: read from the folder, or else computed now.

        Parameters
        ----------
        key : str
            The unit's name in this study, of letters, digits and ``_ . , = + -``.
        function : callable
            Returns a Record. It must depend only on its arguments and the settings.
        *args, **kwargs
            The arguments of the function.
        """
        return self._all([self._call(key, function, args, kwargs)], processes=False)[0]

    def each(
        self, key: str, function: Callable[..., Record], items: Iterable[Any], *,
        processes: bool = False, checkpoints: bool = False, **kwargs: Any,
    ) -> list[Record]:  # fmt: skip
        """The Records of `function(*item, **kwargs)` for every item, in order.

        Parameters
        ----------
        key : str
            A format string for the keys, such as "seed={}" or "width={0},seed={1}".
        function : callable
            Returns a Record. With processes, it must be defined at the top level of a module.
        items : iterable
            The arguments of each unit: a tuple, or a single argument that is not a tuple.
        processes : bool
            Compute in the engine's processes: by default on this machine, one process per core with
            one thread each.
        checkpoints : bool
            Pass each unit a folder of its own as the argument `folder` (see `folder_of`).
        **kwargs
            Further arguments, the same for every unit.
        """
        calls = []
        for item in items:
            args = item if isinstance(item, tuple) else (item,)
            own = key.format(*args)
            given = kwargs | ({"folder": str(self.folder_of(own))} if checkpoints else {})
            calls.append(self._call(own, function, args, given))
        return self._all(calls, processes)

    def folder_of(self, key: str) -> Path:
        """A folder for a unit's temporary files, such as checkpoints, removed once it is done."""
        path = self.folder.absolute() / WORKING / _checked(key)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _call(
        self, key: str, function: Callable[..., Record], args: tuple[Any, ...], kwargs: Any
    ) -> _Call:
        if _checked(key) in self.seconds:
            raise InputError(f"two units have the key {key!r}; each needs its own")
        self.seconds[key] = 0.0
        path = unit_path(self.folder, key)
        return _Call(key, path, self._digest, self._code, function, args, kwargs)

    def _all(self, calls: list[_Call], processes: bool) -> list[Record]:
        records = {call.key: kept for call in calls if (kept := self._kept(call)) is not None}
        self._say_stale()
        missing = [call for call in calls if call.key not in records]
        self.resumed += len(records)
        if processes:
            _check_sendable(missing)
        with engine_for(self._engine if processes and missing else None) as engine:
            # A pool with one worker, or for one unit, would not help.
            alone = isinstance(engine, Pool) and min(engine.workers, len(missing)) < 2
            if engine is None or alone:
                self._here(missing, len(calls))
            else:
                self._by_engine(engine, missing, len(calls))
        for call in missing:
            # Read from the file, so that a record is the same now as after a restart.
            record = self._kept(call)
            assert record is not None
            records[call.key] = record
        return [records[call.key] for call in calls]

    def _kept(self, call: _Call) -> Record | None:
        kept = read_unit(call.path, call.digest)
        if kept is None:
            return None
        record, self.seconds[call.key], code = kept
        if code != call.code:
            self.stale.append(call.key)
        shutil.rmtree(self.folder / WORKING / call.key, ignore_errors=True)
        return record

    def _say_stale(self) -> None:
        if self.stale and not self._said:
            self._said = True
            warnings.warn(
                f"some units in {self.folder} (the first is {self.stale[0]}) were computed by "
                "other code of this study and are used unchanged; delete the folder to compute "
                "them again",
                stacklevel=5,
            )

    def _here(self, missing: list[_Call], total: int) -> None:
        for place, call in enumerate(missing, total - len(missing)):
            if total > 1:
                self.progress(call.key, place, total)
            if (failure := _compute(call)) is not None:
                raise failure

    def _by_engine(self, engine: Engine, missing: list[_Call], total: int) -> None:
        before = total - len(missing)
        self.progress("units", before, total)
        # Absolute paths, because workers may have another working directory.
        calls = [call._replace(path=call.path.absolute()) for call in missing]
        try:
            for done, (_, failure) in enumerate(engine.map(_compute, calls), before + 1):
                if failure is not None:
                    raise failure
                self.progress("units", done, total)
        except LostError as error:
            unit = "" if error.item is None else f"unit {missing[error.item].key!r}: "
            raise InputError(f"{unit}{error}; finished units are kept") from error


def rows_of(records: Iterable[Record], columns: list[str] | None = None) -> pd.DataFrame:
    """The rows of several units as one table; without any rows, the table has these `columns`."""
    import pandas as pd

    rows = list(chain.from_iterable(record.rows for record in records))
    return pd.DataFrame(rows, columns=None if rows else columns)


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise InputError(
            f"{key!r} cannot name a unit; use letters, digits and _ . , = + - (at most 120)"
        )
    return key


def _check_sendable(calls: list[_Call]) -> None:
    """Check that units can be pickled, even if one process will do, so that studies are portable.

    A study should not work on one machine and fail on another with more cores.
    """
    what = None
    try:
        for call in calls:
            # The function and the shared arguments are pickled only once.
            what = call.args if what else (call.function, call.args, call.kwargs)
            pickle.dumps(what)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"unit {call.key!r} cannot be sent to a process ({error}); define its function at the "
            "top of a module, and pass it plain data"
        ) from error


def _compute(call: _Call) -> InputError | MissingExtraError | None:
    """Compute a unit and write its file, or return what went wrong as an error to raise.

    Not every exception can be sent back by a process, so it is one of these two. The trace is a
    note: Python shows it, and the command line shows only the message.
    """
    failure: InputError | MissingExtraError
    start = time.perf_counter()
    try:
        with naming_extras("This study"):
            record = call.function(*call.args, **call.kwargs)
        if not isinstance(record, Record):
            raise InputError(f"it returned a {type(record).__name__}; expected a Record")
        write_unit(call.path, record, call.digest, time.perf_counter() - start, call.code)
    except MissingExtraError as error:
        failure = MissingExtraError(str(error))
        failure.add_note(traceback.format_exc())
    except Exception as error:
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        failure = InputError(f"unit {call.key!r} failed: {kind}{' '.join(str(error).split())}")
        failure.add_note(traceback.format_exc())
    else:
        return None
    return failure
