"""A result as a notebook shows it: words, a short table, a figure; by its type, in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from identikit._text import plain
from identikit.report._page import render
from identikit.report._svg import sized
from identikit.report.numbers import number, shortened, with_interval

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

    from identikit.auditing.batches_result import BatchAudit
    from identikit.auditing.layers_result import Layers
    from identikit.auditing.models_result import ModelPair, ModelsAudit
    from identikit.auditing.result import Audit, Interval, Pair
    from identikit.axes import Components, NearIdentifiability
    from identikit.factors import Disentanglement
    from identikit.worlds import Score

FIGURE_LABEL = "A figure of this result; its numbers are in the table beside it."


@dataclass(frozen=True)
class Shown:
    """What is shown of a result.

    The first `words` columns of the table are no numbers; a notebook gets its first `most` rows.
    """

    title: str
    says: str
    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int
    figure: Callable[[], Figure | None] = lambda: None
    note: str = ""
    most: int = 10

    def drawn(self) -> Markup | None:
        """The figure as inline SVG."""
        figure = self.figure()
        return None if figure is None else sized(figure, FIGURE_LABEL, plain(self.says))


def shown(result: object) -> Shown:
    """What to show of a result.

    Parameters
    ----------
    result : Result
        One of those that `_SHOWN` has a function for.
    """
    return _SHOWN[type(result).__name__](result)


def notebook_html(found: Shown) -> str:
    """A fragment of HTML that brings its own style, for light and for dark screens."""
    more = len(found.rows) - found.most
    left_out = f"{more} more rows are not shown here." if more > 0 else ""
    return render(
        "notebook.html.j2",
        found=found,
        rows=found.rows[: found.most],
        note=f"{found.note} {left_out}".strip(),
        svg=found.drawn(),
    )


def _audit(audit: Audit) -> Shown:
    from identikit.report import sentence
    from identikit.report._order import worst_first
    from identikit.report._table import cells, titles
    from identikit.report.plots import plot_ladder

    pairs, tolerance = worst_first(audit), audit.settings.tolerance
    ica = any(pair.ica is not None for pair in pairs)
    show = _short(view.name for view in audit.views)
    worst, warnings = pairs[0], sum(len(pair.warnings) for pair in pairs)
    note = f"The ladder is that of {show(worst.a)} and {show(worst.b)}." if pairs[1:] else ""
    if warnings:
        note += f" {warnings} warnings are in comparisons[i].warnings and in the report."
    return Shown(
        "Are these views the same, and up to what?",
        sentence(audit.verdict, audit.rows, len(audit.views), tolerance),
        ["a", "b", *titles(tolerance, ica)],
        [[show(pair.a), show(pair.b), *cells(pair, ica)] for pair in pairs],
        3,
        lambda: plot_ladder(worst, tolerance=tolerance),
        note.strip(),
    )


def _pair(pair: Pair) -> Shown:
    from identikit.report._words import GROUPS, untold
    from identikit.report.plots import plot_ladder

    show = _short([pair.a, pair.b])
    up_to, error = GROUPS[pair.group].up_to, _ends(pair.error, pair.interval)
    return Shown(
        "Are these views the same, and up to what?",
        f"{show(pair.a)} and {show(pair.b)} agree best {up_to}, with an error of {error}."
        f"{untold(pair.candidates)}",
        ["rung", "error (95 %)", "a predicts b", "b predicts a"],
        [
            [
                rung.group + (" (chosen)" if rung.group == pair.group else ""),
                _ends(rung.error, rung.interval),
                _ends(rung.forward, rung.forward_interval),
                _ends(rung.backward, rung.backward_interval),
            ]
            for rung in pair.ladder
        ],
        1,
        # A pair does not know which error counts as the same.
        lambda: plot_ladder(pair),
        _sentences(pair.warnings),
    )


def _batches(found: BatchAudit) -> Shown:
    from identikit.report._batches import TITLES, cells, worst_first

    pairs = worst_first(found)
    show = _short(name for each in pairs for name in (each.a, each.b))
    return Shown(
        f"Does {plain(found.by)} differ by a map, or really?",
        found.summary(),
        ["a", "b", *TITLES],
        [[show(each.a), show(each.b), *cells(each)] for each in pairs],
        2,
    )


def _models(audit: ModelsAudit) -> Shown:
    from identikit.report._models_table import lead, worst_first
    from identikit.report.plots import plot_ladder

    show = _short(model.name for model in audit.models)
    names = show(audit.worst.a), show(audit.worst.b)
    return Shown(
        "Are these models the same?",
        lead(audit, show),
        *_model_rows(worst_first(audit), show),
        3,
        lambda: plot_ladder(audit.worst.embedding, tolerance=audit.tolerance),
        f"The ladder is that of f, between {names[0]} and {names[1]}.",
    )


def _model_pair(pair: ModelPair) -> Shown:
    from identikit.report.plots import plot_ladder

    show = _short([pair.a, pair.b])
    return Shown(
        "Are these models the same?",
        f"{show(pair.a)} and {show(pair.b)}: {pair.sentence}",
        *_model_rows([pair], show),
        3,
        lambda: plot_ladder(pair.embedding),
        _sentences(pair.notes),
    )


def _model_rows(
    pairs: Sequence[ModelPair], show: Callable[[str], str]
) -> tuple[list[str], list[list[str]]]:
    from identikit.report._models_table import numbers, row

    titles = ["a", "b", "finding", *numbers(pairs[0]), "f up to"]
    return titles, [[show(pair.a), show(pair.b), *row(pair)] for pair in pairs]


def _layers(found: Layers) -> Shown:
    from identikit.report._layers import TITLES, lines
    from identikit.report.plots import plot_layers

    show = _short((*found.a, *found.b, ""))
    return Shown(
        "Which layer of one model is most like which of the other?",
        found.summary(),
        ["a", "best in b", *TITLES],
        [
            [*map(show, line["names"]), " ".join(line["value"]), *line["cells"]]
            for line in lines(found)
        ],
        2,
        lambda: plot_layers(found),
    )


def _near(found: NearIdentifiability) -> Shown:
    from identikit.report.plots import plot_near

    show = _short(side.name for side in found.sides)
    rows = [
        [
            f"{show(way.source)} → {show(way.target)}",
            way.coordinates,
            error.group,
            _ends(error.mean, error.mean_interval),
            *map(number, (error.median, error.q95, error.largest, error.chance)),
        ]
        for way in found.directions
        for error in way.errors
    ]
    titles = ["direction", "coordinates", "rung", "mean (95 %)", "median", "95 %", "largest"]
    note = "Distances over the diameter; .table has all of them."
    title = "How near are the views to being the same up to each group?"
    most = len(found.directions[0].errors)
    titles += ["mean by chance"]
    draw = partial(plot_near, found)
    return Shown(title, found.summary(), titles, rows, 3, draw, note, most)


def _components(found: Components) -> Shown:
    from identikit.report._components_table import TITLES, rows
    from identikit.report.plots import plot_stability

    show = _short(run.name for run in found.runs)
    table = [[show(run.name), *row] for run, row in zip(found.runs, rows(found))]
    title = "Which components come back?"
    return Shown(title, found.summary(), ["run", *TITLES], table, 1, lambda: plot_stability(found))


def _disentanglement(found: Disentanglement) -> Shown:
    from identikit.report._disentangle_figures import matrices_figure
    from identikit.report._disentangle_table import TITLES, rows
    from identikit.report._disentangle_words import headline, lead, messages

    return Shown(
        headline(found),
        lead(found),
        TITLES,
        rows(found),
        1,
        lambda: matrices_figure(found),
        _sentences(messages(found)),
    )


def _sentences(messages: Sequence[str]) -> str:
    return " ".join(f"{text[0].upper()}{text[1:].rstrip('.')}." for text in messages if text)


def _ends(value: float, interval: Interval) -> str:
    text, low, high = with_interval(value, interval)
    return text if text == high else f"{text} ({low}–{high})"


def _short(names: Any) -> Callable[[str], str]:
    return shortened(names, 32).__getitem__


def _score(score: Score) -> Shown:
    rows = [[name, "R², held out", f"{value:.3f}"] for name, value in score.r2.items()]
    rows.append(["axes", "MCC, held out", f"{score.mcc:.3f}"])
    if score.rotation is not None:
        rows.append(["axes", "MCC of a random rotation", f"{score.rotation:.3f}"])
    rows += [[rung.group, "error, held out", f"{rung.error:.3f}"] for rung in score.ladder]
    return Shown(
        "Codes against the latents of a world",
        score.summary(),
        ["of", "measure", "value"],
        rows,
        2,
        most=len(rows),
    )


_SHOWN: dict[str, Callable[[Any], Shown]] = {
    "Audit": _audit,
    "BatchAudit": _batches,
    "Components": _components,
    "Disentanglement": _disentanglement,
    "Layers": _layers,
    "ModelPair": _model_pair,
    "ModelsAudit": _models,
    "NearIdentifiability": _near,
    "Pair": _pair,
    "Score": _score,
}
