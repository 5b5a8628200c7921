"""`identikit demo`: train a few small networks and audit them."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from identikit.cli import _options as options
from identikit.cli._output import print_json
from identikit.cli._progress import progress_bar

if TYPE_CHECKING:
    from identikit.auditing import Audit, Pair
    from identikit.cli._demo_data import DemoViews

EXAMPLE = "identikit demo --report digits.html"
REPORT = Path("identikit-demo.html")


def command(
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help=f"Where the page goes.  [default: {REPORT}]"),
    ] = None,
    seeds: Annotated[int, typer.Option(min=2, max=20, help="How many networks to train.")] = 4,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train small networks from different seeds and audit what they learned."""
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    from identikit.auditing import audit
    from identikit.cli._demo_data import demo_views

    # The page under the default name is the demo's own; one that the user names may not be.
    options.check_target(report or REPORT, [], overwrite=force or report is None)
    report = report or REPORT
    if not quiet:
        typer.echo(
            f"Training {seeds} small networks on handwritten digits, each from its own seed, and "
            "one on shuffled\nlabels; comparing their last hidden layers on unseen digits.",
            err=True,
        )
    # Matrices this small are slower on two threads than on one.
    with threadpool_limits(1), progress_bar(quiet) as progress:
        data = demo_views(seeds, progress)
        everything = audit(list(data.views.values()), list(data.views), progress=progress)
        trained = audit(list(data.trained.values()), list(data.trained), progress=progress)
    if json:
        extra = {"trained": trained.to_dict()["verdict"], "accuracy": data.accuracy}
        print_json(everything.to_dict() | {"demo": extra})
    else:
        _print(everything, trained, data)
    everything.report(report)
    if not quiet:
        typer.echo(f"wrote {report}: open it in a browser", err=True)


def _print(everything: Audit, trained: Audit, data: DemoViews) -> None:
    from rich.text import Text

    from identikit.report import print_audit, sentence

    output = options.console()
    output.print(Text("The trained seeds alone", style="bold underline"))
    tolerance = trained.settings.tolerance
    output.print(Text(sentence(trained.verdict, trained.rows, len(trained.views), tolerance)))
    output.print()
    output.print(Text("All views, with the control and the raw input", style="bold underline"))
    print_audit(everything, output)
    output.print()
    output.print(Text("How to read it", style="bold underline"))
    for line in reading(everything, data):
        output.print(Text(fill(line, output.width, initial_indent="- ", subsequent_indent="  ")))


def reading(everything: Audit, data: DemoViews) -> list[str]:
    """What the demo's numbers say, in a few plain lines.

    Parameters
    ----------
    everything : Audit
        Of all views.
    data : DemoViews
        What was audited.
    """
    from identikit.cli._demo_data import BASELINE, CONTROL

    names = set(data.accuracy)
    pairs = everything.comparisons
    seeds = [pair for pair in pairs if {pair.a, pair.b} <= names]
    control = [pair for pair in pairs if pair.a in names and pair.b == CONTROL]
    pixels = [pair for pair in pairs if pair.a in names and pair.b == BASELINE]
    affine = _errors(seeds, "affine")
    # The pixels are the second view of their pairs, so backward is from the pixels to the seed.
    raw = [rung.backward for pair in pixels for rung in pair.ladder if rung.group == "affine"]
    right = [100 * share for share in data.accuracy.values()]
    better = "better than" if max(affine) < min(raw) else "not always better than"
    tolerance = everything.settings.tolerance
    lines = [
        f"The networks get {_range(right, 1)} % of the unseen digits right. If two of them made "
        "the very same predictions, theory says, an affine map would link their last layers.",
        f"Seed against seed, the best affine map leaves a held-out error of {_range(affine)}; a "
        f"rotation with one scale leaves {_range(_errors(seeds, 'similarity'))}. Mean CCA is "
        f"{_range(_held_out(seeds))} held out, where chance is {_range(_chance(seeds))}.",
        "Control: a network that learned shuffled labels is predicted by the seeds, or predicts "
        f"them, with an error of {_range(_errors(control, 'affine'))}; mean CCA is "
        f"{_range(_held_out(control))} held out, chance {_range(_chance(control))}. It has seen "
        "the same pixels, so judge the seeds against it and not against chance alone.",
        f"Baseline: an affine map of the 64 raw pixels predicts a seed with an error of "
        f"{_range(raw)}. The 8 numbers of another seed do {better} that.",
    ]
    if min(affine) > tolerance:
        lines.append(
            f"No two seeds are the same within {tolerance:g}: closely related, not interchangeable."
        )
    return lines


def _errors(pairs: list[Pair], group: str) -> list[float]:
    return [rung.error for pair in pairs for rung in pair.ladder if rung.group == group]


def _chance(pairs: list[Pair]) -> list[float]:
    return [pair.cca.chance for pair in pairs]


def _held_out(pairs: list[Pair]) -> list[float]:
    return [pair.cca.held_out for pair in pairs if pair.cca.held_out is not None]


def _range(values: list[float], places: int = 2) -> str:
    low, high = f"{min(values):.{places}f}", f"{max(values):.{places}f}"
    return low if low == high else f"{low} to {high}"
