"""Run a study, from its settings to its report, and load the results of an earlier run."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from identikit import _result
from identikit._progress import Progress
from identikit._store import digest_of
from identikit._version import __version__
from identikit.errors import InputError, naming_extras
from identikit.moments.engines import engine_for
from identikit.report import shows
from identikit.studies import _store as store
from identikit.studies._data import Data
from identikit.studies._find import code_digest, find
from identikit.studies._report import headline, shown, write_report
from identikit.studies._study import KINDS, NOT, Finding, Settings, Study, Tables, settings_of
from identikit.studies._work import WORKING, Work

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Defaults for entries that the claims in older folders lack.
OLD = {"kind": "paper", "seeds": None, "p": None, "over": "seeds"}


@dataclass(frozen=True, repr=False)
class Result(_result.Result):
    """The result of a study that has been run.

    Attributes
    ----------
    folder : Path
        The folder with all results.
    document : dict
        The settings of the run and every claim with its finding, as printed by --json.
    tables : dict of str to DataFrame
    resumed : int
        The number of units that an earlier run had already computed.
    """

    folder: Path
    document: dict[str, Any]
    tables: Tables
    resumed: int = 0

    def __repr__(self) -> str:
        document = self.document
        return f"Result({document['study']}, {document['preset']}: {headline(document)})"

    def to_dict(self) -> dict[str, Any]:
        """The settings of the run and every claim with its finding."""
        return self.document

    @property
    def table(self) -> pd.DataFrame:
        """One row per claim."""
        import pandas as pd

        return pd.DataFrame(self.document["claims"])

    def __bool__(self) -> bool:
        """True unless a claim of the paper, a control or a check failed."""
        return all(found.verdict != NOT for found in self.findings.values())

    def figure(self) -> Figure:
        """The study's figure, drawn again from the tables."""
        study = find(self.document.get("from", self.document["study"]))
        return study.figure(self.tables, Settings(self.document["settings"]))

    @property
    def findings(self) -> dict[str, Finding]:
        """The finding of each claim, by the claim's key."""
        return {claim["key"]: finding_of(claim) for claim in self.document["claims"]}

    @property
    def version(self) -> str:
        """The version of identikit that ran the study."""
        return str(self.document["identikit"])


shows(Result.__name__)(shown)


def finding_of(claim: Mapping[str, Any]) -> Finding:
    """The finding in a row of claims.json."""
    found = {key: claim[key] for key in ("value", "verdict", "comment", "seeds", "p")}
    interval = claim["interval"]
    return Finding(interval=None if interval is None else (interval[0], interval[1]), **found)


def run(
    study: str | Study,
    *,
    preset: str = "smoke",
    folder: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    seeds: int | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    engine: object = None,
) -> Result:
    """Run a study, or resume one that was stopped, and write its tables, figure and report.

    Parameters
    ----------
    study : str or Study
        The name of a study, or the path of your own file, such as "./my_study.py".
    preset : str
        "smoke" (under a minute), "laptop" (under 20 minutes) or "paper" (the paper's settings).
    folder : path, optional
        The folder for the results, NAME-PRESET by default. If it holds a run of the same study with
        the same settings, that run is resumed; a folder with any other run is an error.
    data : str or path, optional
        A folder, a text file, or the name of a stand-in. The default is the folder in the
        environment variable IDENTIKIT_DATA.
    seeds : int, optional
        The number of seeds, instead of the preset's.
    settings : mapping, optional
        Values that replace the preset's.
    progress : callable, optional
        Called with a description of the current work, the number of parts done, and their total.
    engine : str, Engine or distributed.Client, optional
        What computes independent units in parallel: a pool of processes on this machine by default,
        or anything that `accumulate` accepts. Workers read the data and write their units into the
        folder, so workers on other machines must see both under the same paths.
    """
    named = study if isinstance(study, str) else study.name
    study = find(study) if isinstance(study, str) else study
    chosen = settings_of(study, preset, seeds, settings)
    if data is not None and not study.needs:
        raise InputError(f"{study.name} reads no data, but {data} was given; leave it out")
    source = Data(data)
    target = Path(f"{study.name}-{preset}" if folder is None else folder)
    header: dict[str, Any] = {
        "identikit": __version__, "study": study.name, "preset": preset,
        "settings": store.finite(chosen), "data": source.check(study.needs),
    }  # fmt: skip
    header |= {
        "digest": digest_of(header), "title": study.title, "paper": study.paper,
        "about": study.about, "from": named,
        "command": _command(study, named, preset, chosen, data, target),
    }  # fmt: skip
    store.open_folder(target, header)
    with (
        naming_extras("This study"),
        engine_for("pool" if engine is None else engine) as workers,
    ):
        code = code_digest(study)
        work = Work(target, chosen, source, header["digest"], progress, workers, code)
        tables = study.run(work)
    shutil.rmtree(target / WORKING, ignore_errors=True)
    work.progress("writing", 1, 1)
    store.write_tables(target, tables)
    said = ("key", "says", "published", "source", "kind")
    claims = [
        {name: getattr(claim, name) for name in said}
        | asdict(claim.check(tables))
        | {"over": study.over}
        for claim in study.claims
    ]
    seconds = round(sum(work.seconds.values()), 1)
    units = {"count": len(work.seconds), "seconds": seconds, "of_other_code": len(work.stale)}
    document = header | {"units": units, "claims": claims}
    result = Result(target, store.finite(document), tables, work.resumed)
    write_report(result, study.figure(tables, chosen))
    # Written last: a folder that has this file is complete.
    store.write_json(target / store.RESULT, result.document)
    return result


def load(folder: str | os.PathLike[str]) -> Result:
    """Load the results of a study that has been run from its folder."""
    target = Path(folder)
    header = store.read_json(target, store.HEADER)
    if not (target / store.RESULT).is_file():
        raise InputError(
            f"the study in {target} is not finished; resume it with: {header.get('command')}"
        )
    result = Result(target, store.read_json(target, store.RESULT), store.read_tables(target))
    try:
        # Older folders lack the kinds, the numbers of seeds, the p-values and their units.
        result.document["claims"] = [claim | OLD | claim for claim in result.document["claims"]]
        for claim in result.document["claims"]:
            finding_of(claim)
            if claim["kind"] not in KINDS:
                raise ValueError(f"the kind is {claim['kind']!r}; expected one of {KINDS}")
            if not isinstance(claim["over"], str):
                raise ValueError(f"over is {claim['over']!r}; expected a word, such as 'seeds'")
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{target / store.RESULT} is damaged ({error}); {store.REMEDY}") from error
    return result


def _command(
    study: Study, named: str, preset: str, chosen: Settings, data: object, folder: Path
) -> str:
    """The command line that repeats this run."""
    words = ["identikit", "study", "run", named, "--preset", preset]
    for key, value in chosen.items():
        if value != study.presets[preset][key]:
            text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
            words += ["--seeds", text] if key == "seeds" else ["--set", f"{key}={text}"]
    if data is not None:
        words += ["--data", str(data)]
    return shlex.join([*words, "-o", str(folder)])
