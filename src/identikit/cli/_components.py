"""`identikit components`: which components come back in every run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from identikit.cli import _shared as shared
from identikit.errors import InputError

if TYPE_CHECKING:
    from identikit.axes import Components


EXAMPLE = "identikit components a.safetensors::W_dec b.safetensors::W_dec --report components.html"

FIGURES = (".svg", ".png", ".pdf")


def command(
    runs: list[str],
    activations: bool = False,
    axis: Literal["rows", "columns"] | None = None,
    signed: bool | None = None,
    threshold: float | None = None,
    fdr: float = 0.05,
    assignment: Literal["auto", "dense", "sparse"] = "auto",
    memory: str | None = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    names: list[str] | None = None,
    figure: Path | None = None,
    report: Path | None = None,
    output: Path | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Match the components of several runs, and say which come back and how well.

    RUN : Two or more files (or file::name). Each holds the atoms of a run, or its activations for
        the same rows.
    --activations : The runs are activations: correlate their columns over rows.
    --axis : Whether the atoms are rows or columns. By default they are rows.
    --signed/--unsigned : Whether opposite directions are different. By default they are for atoms,
        and are not for activations.
    --threshold : The similarity that every member must reach. By default it must be above chance.
    --fdr : The rate of false discoveries that is allowed if there is no threshold.
    --assignment : How runs are matched: exactly (dense), or among the nearest candidates (sparse).
        auto decides by the memory.
    --memory SIZE : How much memory similarities may take, such as 4GB.
    --seed : The seed of the draws for chance levels.
    --names A,B,... : The names of the runs. If a name has a comma, repeat the option for each name.
    --figure FILE.svg : Where to draw stability beside chance: .svg, .png or .pdf.
    """
    from identikit.axes import match_components

    _check_figure(figure)
    shared.check_targets(output, report, runs, figure=figure)
    with shared.progress_bar(quiet) as progress:
        found = match_components(
            runs,
            kind="activations" if activations else "atoms",
            axis=axis,
            signed=signed,
            threshold=threshold,
            fdr=fdr,
            assignment=assignment,
            names=shared.split_names(names),
            seed=seed,
            memory=shared.parse_size(memory),
            progress=progress,
        )
    drawings = {} if figure is None else {figure: partial(_draw, found)}
    shared.deliver(found, output=output, report=report, json=json, quiet=quiet, drawings=drawings)


def _check_figure(figure: Path | None) -> None:
    if figure is not None and figure.suffix.lower() not in FIGURES:
        raise InputError(
            f"--figure {figure} has the suffix {figure.suffix!r}; choose one of "
            f"{', '.join(FIGURES)}"
        )


def _draw(found: Components, path: Path) -> None:
    from identikit._files import replacing
    from identikit.report.plots import plot_stability

    with replacing(path) as temporary:
        plot_stability(found).savefig(temporary, format=path.suffix.lower()[1:])
