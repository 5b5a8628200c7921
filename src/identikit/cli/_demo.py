"""`identikit demo`: train a few small networks and audit them."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from identikit._text import plain
from identikit.cli import _shared as shared
from identikit.cli._demo_data import BASELINE, CONTROL

if TYPE_CHECKING:
    from identikit.auditing import Audit, Pair
    from identikit.cli._demo_data import DemoViews

EXAMPLE = "identikit demo --report digits.html"
REPORT = Path("identikit-demo.html")

#: Columns of the text: a terminal has at least these.
WIDTH = 78

NEXT = (
    "identikit audit a.npy b.npy --report audit.html    your own two models",
    "identikit align a.npy b.npy -o map.safetensors     the map between them",
    "identikit study list                               what papers claim, rerun",
)


def command(
    report: Path | None = None,
    seeds: Annotated[int, typer.Option(min=2, max=20)] = 4,
    force: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Train small networks from different seeds and audit what they learned.

    --report FILE.html : Where to write the page.  [default: identikit-demo.html]
    --seeds : The number of networks to train.
    """
    from rich.text import Text
    from threadpoolctl import threadpool_limits

    from identikit.auditing import audit
    from identikit.cli._demo_data import demo_views

    # The page under the default name is the demo's own; one that the user names may not be.
    shared.check_target(report or REPORT, [], overwrite=force or report is None)
    report = report or REPORT
    if not quiet:
        typer.echo(f"Training {seeds} small networks, and one on shuffled labels.\n", err=True)
    # Matrices this small are slower on two threads than on one.
    with threadpool_limits(1), shared.progress_bar(quiet) as progress:
        data = demo_views(seeds, progress)
        views = data.trained | {CONTROL: data.views[CONTROL]}
        result = audit(list(views.values()), names=list(views), progress=progress)
        raw = [_from_pixels(data, name) for name in data.accuracy]
    told = story(result, data, raw)
    if json:
        extra = {"story": told, "accuracy": data.accuracy, "error_from_pixels": raw}
        shared.print_json(result.to_dict() | {"demo": extra})
    else:
        output = shared.console()
        for paragraph in told:
            output.print(Text(fill(paragraph, min(output.width, WIDTH))), "", sep="\n")
        output.print(Text("Try next:"), *NEXT, sep="\n  ", highlight=False)
    result.report(report, told)
    if not quiet:
        typer.echo(plain(f"wrote {report}: open it in a browser"), err=True)


def _from_pixels(data: DemoViews, name: str) -> float:
    """Held-out error of the affine map from the raw input to a network's layer."""
    from identikit.alignment import align

    found = align(data.views[BASELINE], data.views[name], group="affine").held_out
    assert found is not None  # it was fitted just now
    return found


def story(result: Audit, data: DemoViews, raw: list[float]) -> list[str]:
    """What the demo found, in a few plain sentences; the first is its headline.

    `raw` has the error of an affine map from the raw input to each trained network's layer.
    """
    from identikit.alignment import RUNGS

    names = set(data.accuracy)
    seeds = [pair for pair in result.comparisons if {pair.a, pair.b} <= names]
    control = [pair for pair in result.comparisons if CONTROL in (pair.a, pair.b)]
    groups = sorted({pair.group for pair in seeds}, key=list(RUNGS).index)
    affine, rotated = _errors(seeds, "affine"), _errors(seeds, "similarity")
    apart = _errors(control, "affine")
    right = [100 * share for share in data.accuracy.values()]
    return [
        f"{len(names)} networks agree up to {' or '.join(_an(g) for g in groups)} map; the control "
        f"{'agrees with nobody' if CONTROL in result.clusters.alone else 'agrees in part'}.",
        f"The networks learned handwritten digits from different random starts, and each gets "
        f"{_range(right, 1)} % of {result.rows} unseen digits right. Are the 8 numbers by which "
        "they tell digits apart the same numbers?",
        f"Between two of them the best affine map leaves an error of {_range(affine)} on digits "
        f"that it was not fitted on: it explains {_explained(affine)} of the variance. A rotation "
        f"with one scale explains {_explained(rotated)}, and the raw pixels {_explained(raw)}.",
        f"The control learned shuffled labels from the same pixels. No map between it and the "
        f"others explains more than {_percent(min(apart))} (error {_range(apart)}).",
    ]


def _an(group: str) -> str:
    return f"an {group}" if group[0] in "aeiou" else f"a {group}"


def _errors(pairs: list[Pair], group: str) -> list[float]:
    return [rung.error for pair in pairs for rung in pair.ladder if rung.group == group]


def _explained(errors: list[float]) -> str:
    low, high = _percent(max(errors)), _percent(min(errors))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def _percent(error: float) -> str:
    return f"{100 * max(0.0, 1 - error**2):.0f} %"


def _range(values: list[float], places: int = 2) -> str:
    low, high = f"{min(values):.{places}f}", f"{max(values):.{places}f}"
    return low if low == high else f"{low} to {high}"
