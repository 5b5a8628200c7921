"""`identikit study`: run an experiment of a paper, resume it, and see what it found."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from identikit._text import plain
from identikit._version import __version__
from identikit.cli import _shared as shared
from identikit.cli._help import described
from identikit.errors import InputError

if TYPE_CHECKING:
    from identikit.studies import Result, Study

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Run the experiments of papers: what is claimed, what is measured.",
    epilog="Example: identikit study run nielsen-small-kl",
)


@app.command("list", epilog="Example: identikit study list")
@described
def list_(
    json: bool = False,
) -> None:
    """List the studies: what they are about, and which data they need."""
    from identikit.studies import STAND_INS, studies

    known = studies().values()
    if json:
        shared.print_json(
            {"identikit": __version__, "studies": [_fields(study) for study in known]}
        )
        return
    from rich.text import Text

    rows = []
    for study in known:
        files = [f"{need.file}{' (or without)' if need.optional else ''}" for need in study.needs]
        needs = "\n".join(files) or "none"
        instead = {need.stand_in for need in study.needs if need.stand_in and not need.optional}
        needs += "".join(f"\nor --data {name}" for name in sorted(instead))
        rows.append((study.name, Text(study.title).append(f"\n{study.paper}", "dim"), needs))
    output = shared.console()
    output.print(shared.listing(("name", "what", "data"), rows))
    if any(study.needs for study in known):
        output.print()
        for name, what in STAND_INS.items():
            output.print(Text(f"--data {name} stands in with {what}; no file is needed", "dim"))
    typer.echo("to run one: identikit study run NAME --preset smoke", err=True)


def _fields(study: Study) -> dict[str, Any]:
    """What a study is, without its functions."""
    claims = ("key", "says", "published", "source", "kind")
    return {key: getattr(study, key) for key in ("name", "title", "paper", "about", "presets")} | {
        "needs": [asdict(need) for need in study.needs],
        "claims": [{key: getattr(claim, key) for key in claims} for claim in study.claims],
    }


@app.command(epilog="Example: identikit study run nielsen-small-kl --preset laptop -o small-kl")
@described
def run(
    name: str,
    preset: str = "smoke",
    data: str | None = None,
    seeds: Annotated[int | None, typer.Option(min=1)] = None,
    set_: list[str] | None = None,
    output: Path | None = None,
    engine: str | None = None,
    scheduler: str | None = None,
    workers: Annotated[int | None, typer.Option(min=1)] = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Run a study. If it is stopped and run again, it continues where it was.

    NAME : A study as identikit study list names it, or a file of your own: ./my_study.py.
    --preset smoke|laptop|paper : How large the run is: smoke takes under a minute, laptop under 20
        minutes, and paper has the paper's own settings.
    --data DIR|FILE|NAME : Where the data are: a folder, a text file, or the name of a stand-in,
        which is digits or grammar.
    --seeds : The number of seeds, if it is not to be that of the preset.
    --set KEY=VALUE : Another value of a setting. It can be repeated.
    --output, -o DIR : Where to write results.  [default: NAME-PRESET]
    --engine single|pool|dask : What computes the independent units: this process (single), a pool
        of processes, which is the default, or Dask.
    """
    from identikit import studies

    with (
        shared.calm_warnings(quiet),
        shared.chosen_engine(engine, scheduler, workers) as ready,
        shared.progress_bar(quiet) as progress,
    ):
        try:
            who = "single" if engine == "single" else ready
            result = studies.run(
                name,
                preset=preset,
                folder=output,
                data=data,
                seeds=seeds,
                settings=_pairs(set_ or []),
                progress=progress,
                engine=who,
            )
        except KeyboardInterrupt:
            if not quiet:
                typer.echo("finished units are kept; the same command goes on from them", err=True)
            raise
    _show(result, json)
    if not quiet:
        if result.resumed:
            count = result.document["units"]["count"]
            typer.echo(f"{result.resumed} of {count} units were there from before", err=True)
        typer.echo(f"wrote {plain(result.folder / 'report.html')}", err=True)


@app.command(epilog="Example: identikit study show nielsen-small-kl-smoke")
@described
def show(
    folder: Path,
    json: bool = False,
) -> None:
    """Show what a study found, without running it again.

    DIR : The folder of a study's results.
    """
    from identikit import studies

    _show(studies.load(folder), json)


def _show(result: Result, json: bool) -> None:
    from identikit.studies import print_study

    if json:
        shared.print_json(result.document)
    else:
        print_study(result, shared.console())


def _pairs(changes: list[str]) -> dict[str, str]:
    for text in changes:
        if "=" not in text:
            raise InputError(f"--set is {text!r}; expected KEY=VALUE")
    return {key: value for key, _, value in (text.partition("=") for text in changes)}
