"""`identikit components`: which components come back in every run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from identikit._text import plain
from identikit.cli import _options as options
from identikit.cli._progress import progress_bar
from identikit.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from identikit.axes import Components

EXAMPLE = "identikit components a.safetensors::W_dec b.safetensors::W_dec --figure stability.svg"

FIGURES = (".svg", ".png", ".pdf")


def command(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Two or more files (or file::name) of atoms, or of activations of the same rows.",
        ),
    ],
    activations: Annotated[
        bool,
        typer.Option(
            "--activations", help="Correlate columns over rows instead of comparing atoms."
        ),
    ] = False,
    axis: Annotated[
        Literal["rows", "columns"] | None,
        typer.Option(help="Where the atoms lie; in rows by default."),
    ] = None,
    signed: Annotated[
        bool | None,
        typer.Option(
            "--signed/--unsigned",
            help="Whether opposite directions differ; for atoms yes by default, else no.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="The least similarity of every member, instead of the chance level."),
    ] = None,
    fdr: Annotated[
        float, typer.Option(help="Rate of false discoveries, if there is no threshold.")
    ] = 0.05,
    assignment: Annotated[
        Literal["auto", "dense", "sparse"],
        typer.Option(help="Exact, or among the nearest candidates; by the memory by default."),
    ] = "auto",
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory for similarities, such as 4GB.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of what the chance level draws.")] = 0,
    names: Annotated[list[str] | None, options.names_of("runs")] = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Draw stability beside chance (.svg, .png, .pdf)."),
    ] = None,
    output: options.Output = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Match the components of several runs, and say which come back and how well."""
    from identikit.axes import match_components

    _check_targets(output, figure, runs)
    with progress_bar(quiet) as progress:
        found = match_components(
            runs,
            kind="activations" if activations else "atoms",
            axis=axis,
            signed=signed,
            threshold=threshold,
            fdr=fdr,
            assignment=assignment,
            names=options.split_names(names),
            seed=seed,
            memory=options.parse_size(memory),
            progress=progress,
        )
    if json:
        sys.stdout.write(found.to_json())
    else:
        print_components(found, options.console())
    if output is not None:
        found.save(output)
    if figure is not None:
        _draw(found, figure)
    for target in (output, figure):
        if target is not None and not quiet:
            typer.echo(f"wrote {plain(target)}", err=True)


def _check_targets(output: Path | None, figure: Path | None, runs: list[str]) -> None:
    for target in (output, figure):
        options.check_target(target, runs, overwrite=True)
    if figure is None:
        return
    if figure.suffix.lower() not in FIGURES:
        raise InputError(
            f"--figure {figure} has the suffix {figure.suffix!r}; choose one of "
            f"{', '.join(FIGURES)}"
        )
    if output is not None and output.absolute() == figure.absolute():
        raise InputError(f"--figure and --output are both {figure}; give them different names")


def _draw(found: Components, path: Path) -> None:
    from identikit._files import replacing
    from identikit.report.plots import plot_stability

    with replacing(path) as temporary:
        plot_stability(found).savefig(temporary, format=path.suffix.lower()[1:])


def print_components(found: Components, console: Console) -> None:
    """Print what replicates, a table of the runs, and how it was found.

    Parameters
    ----------
    found : Components
        The result to show.
    console : rich.console.Console
        Where to print.
    """
    from rich.text import Text

    from identikit.report._components_table import TITLES, rows
    from identikit.report.terminal import named_table, print_result

    names = [(run.name,) for run in found.runs]
    spare = [(1, 2), (7,)]
    table = named_table(
        ("run",), names, TITLES, rows(found), right=range(8), width=console.width, spare=spare
    )
    print_result(console, found.summary(), table, [], "")
    console.print()
    for note in _notes(found):
        console.print(Text(note))


def _notes(found: Components) -> list[str]:
    from identikit.axes._components_words import measure

    counted = "with its sign" if found.settings.signed else "up to the sign"
    notes = [
        f"Similarity is the mean {measure(found)}, {counted}, with the matches in the other runs; "
        f"{found.says_chance}."
    ]
    if "sparse" in found.methods:
        notes.append(
            "The assignment was among the nearest candidates: its sum of similarities is at most "
            f"{found.gap:.2%} below the best one."
        )
    for run in found.runs:
        if run.excluded:
            notes.append(f"! {_listed(run.name, 'zero or constant, left out', run.excluded)}")
        if run.tied:
            tied = [member for group in run.tied for member in group]
            notes.append(f"! {_listed(run.name, 'equal to another, matched by chance', tied)}")
    return notes


def _listed(name: str, what: str, members: list[int] | tuple[int, ...]) -> str:
    from identikit.report.numbers import shorten

    some = ", ".join(map(str, members[:8])) + (", …" if len(members) > 8 else "")
    return f"{shorten(name, 40)}, {what}: {len(members):,} ({some})"
