"""What is shown of softmax models, and of a pair of them: what was found, slice by slice too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from identikit.auditing.models_result import CLOSE, SAME, ModelPair, ModelsAudit, Slice
from identikit.family import Distances
from identikit.report._models_panels import LEAST, ON_PAGE, chosen
from identikit.report._shown import BAD, DOUBTFUL, GOOD, Shown, Table, shared, shows
from identikit.report._svg import inline, sized
from identikit.report.numbers import isolated, shortened, small, with_interval
from identikit.report.plots import plot_ladder, plot_models, plot_slices
from identikit.report.words import models as words

if TYPE_CHECKING:
    from identikit.auditing.result import Interval

QUESTION = "Are these models the same, and up to what?"
#: What the two findings that are not in between look like: a colour of the terminal, a page's tone.
LOOKS = {SAME: ("green", GOOD), CLOSE: ("red", BAD)}
BETWEEN = ("yellow", DOUBTFUL)
#: Pairs that get a figure: a page must stay a page.
MAX_FIGURES = 20
#: Slices of a pair that a terminal shows, and pairs of which it shows any.
IN_TERMINAL, PAIRS = 12, 5
FIGURE_LABEL = (
    "Six panels: the singular values of the label embeddings, the log-odds of one model against "
    "the other's, the map estimated from f against the one from g, the held-out error of every "
    "rung, the canonical correlations, and the distance of the representations below its "
    "bounds. The numbers are in the tables of this page."
)
SLICES_LABEL = (
    "Two panels: the relative logit gap of every slice, and its KL divergence, with their "
    "intervals. The numbers are in the table above."
)


@shows("ModelsAudit")
def models(audit: ModelsAudit) -> Shown:
    """What was found of the worst pair, a row a pair, slices; the page has all pairs one by one."""
    pairs = sorted(audit.pairs, key=lambda pair: -pair.gauge.logit_gap)
    names, first = [model.name for model in audit.models], audit.models[0]
    short = shortened(names, 40).__getitem__
    worst = audit.worst
    facts = [
        f"{first.n:,} inputs",
        f"{first.K:,} labels",
        f"{len(names)} models",
        f"{len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'}",
        *([f"{len(worst.slices):,} slices"] if worst.slices else []),
        f"tolerance {audit.tolerance}",
    ]
    return Shown(
        "models",
        f"Are these {len(names)} models the same, and up to what?",
        words.summary(audit, short),
        [_table(pairs), *_slice_tables(pairs)],
        lambda: plot_ladder(worst.embedding, tolerance=audit.tolerance),
        words.headline(audit),
        LOOKS.get(SAME if audit.same else worst.finding, BETWEEN)[1],
        facts,
        warnings=shared(pair.notes for pair in pairs),
        warnings_are="notes",
        remark=f"The ladder is that of f, between {short(worst.a)} and {short(worst.b)}.",
        names=names,
        template="models.html.j2",
        values=partial(_page, audit, pairs),
        version=audit.version,
    )


@shows("ModelPair")
def model_pair(pair: ModelPair) -> Shown:
    """What was found of two models, and the ladder of their embeddings."""
    short = shortened((pair.a, pair.b), 40).__getitem__
    return Shown(
        "model pair",
        QUESTION,
        f"{short(pair.a)} and {short(pair.b)}: {pair.sentence}",
        [_table([pair]), *_slice_tables([pair])],
        lambda: plot_ladder(pair.embedding),
        pair.finding.capitalize(),
        LOOKS.get(pair.finding, BETWEEN)[1],
        reading="The held-out error of the best map of each rung from one f to the other.",
        warnings=[(text, 1) for text in pair.notes],
        warnings_are="notes",
    )


def _numbers(pair: ModelPair) -> dict[str, float | None]:
    """The numbers of a pair by the titles that tables give them."""
    apart = pair.distances
    full = apart if isinstance(apart, Distances) else None
    return {
        "logit gap": pair.gauge.logit_gap,
        "κ": pair.gauge.kappa,
        "KL": apart.kl,
        "TV": apart.tv,
        "d_LLV": None if full is None else full.llv,
        "d_fg": None if full is None else full.representation,
        "f error": pair.embedding.error,
    }


def _table(pairs: Sequence[ModelPair]) -> Table:
    """One row a pair."""
    titles = ["finding", *_numbers(pairs[0]), "f up to"]
    return Table(
        ("a", "b"),
        [(pair.a, pair.b) for pair in pairs],
        titles,
        [[p.finding, *map(small, _numbers(p).values()), p.embedding.group] for p in pairs],
        words=1,
        styles=[LOOKS.get(pair.finding, BETWEEN)[0] for pair in pairs],
        spare=[(titles.index("d_LLV"), titles.index("d_fg")), (titles.index("TV"),)],
    )


def _slice_tables(pairs: Sequence[ModelPair]) -> list[Table]:
    """A small table a pair, but only of the first few pairs that have slices."""
    tables = []
    sliced = [pair for pair in pairs if pair.slices]
    names = shortened((name for pair in sliced for name in (pair.a, pair.b)), 40)
    for place, pair in enumerate(sliced[:PAIRS], 1):
        some = [each for _, each in chosen(pair.slices, IN_TERMINAL)]
        notes = [_left_out(pair.slices, IN_TERMINAL)]
        if place == PAIRS < len(sliced):
            more = len(sliced) - PAIRS
            notes.append(f"Slices of {more} more pairs are in the JSON document and the report.")
        between = f"{names[pair.a]} and {names[pair.b]}, slice" if pairs[1:] else "Slice"
        tables.append(
            Table(
                ("slice",),
                [(each.name,) for each in some],
                ["finding", "inputs", "logit gap (95 %)", "KL a to b", "KL b to a", "TV"],
                [_cells(each) for each in some],
                words=1,
                styles=["green" if each.same else "yellow" for each in some],
                spare=[(5,), (4,)],
                above=f"{between} by slice",
                below=" ".join(filter(None, notes)),
            )
        )
    return tables


def _left_out(slices: Sequence[Slice], most: int) -> str:
    """What is said where not all slices are shown."""
    if len(slices) <= most:
        return ""
    half = most // 2
    return (
        f"The {half} nearest and the {half} farthest of {len(slices):,} slices; all are in the "
        "JSON document."
    )


def _cells(each: Slice) -> list[str]:
    said = _ends(each.logit_gap_interval)
    gap = small(each.logit_gap) + (f" ({said})" if said else "")
    return [each.finding, f"{each.inputs:,}", gap, *map(small, (each.kl, each.kl_reverse, each.tv))]


def _ends(interval: Interval | None) -> str:
    """Of an interval that says something: there is one, and it is wider than rounding.

    >>> _ends((0.02, 0.0315)), _ends((0.0, 1e-9)), _ends(None)
    ('0.02–0.0315', '', '')
    """
    if interval is None or interval[1] < LEAST:
        return ""
    return "–".join(map(small, interval))


def _page(audit: ModelsAudit, pairs: Sequence[ModelPair]) -> dict[str, Any]:
    """What the page needs besides: the models, every pair in numbers, then one by one."""
    return {
        "audit": audit,
        "sentence": words.summary(audit, isolated(model.name for model in audit.models)),
        "pairs": [(pair, list(_numbers(pair).items())) for pair in pairs],
        "cards": [_card(pair, index) for index, pair in enumerate(pairs[:MAX_FIGURES])],
        "tones": {pair.finding: LOOKS.get(pair.finding, BETWEEN)[1] for pair in pairs},
        "ends": _ends,
    }


def _card(pair: ModelPair, index: int) -> dict[str, Any]:
    from markupsafe import Markup

    figure = plot_models(pair)
    return {
        "pair": pair,
        "embedding": with_interval(pair.embedding.error, pair.embedding.interval),
        "distances": _distances(pair),
        "ladder": [
            (rung, with_interval(rung.error, rung.interval), rung.group == pair.embedding.group)
            for rung in pair.embedding.ladder
        ],
        "svg": Markup(inline(figure, FIGURE_LABEL, f"identikit-{index}")),
        "slices": _slices(pair, index),
    }


def _slices(pair: ModelPair, index: int) -> dict[str, Any] | None:
    figure = plot_slices(pair)
    if figure is None:
        return None
    rows = chosen(pair.slices, ON_PAGE)
    show = shortened((each.name for _, each in rows), 32)
    return {
        "rows": [(number, show[each.name], each) for number, each in rows],
        "left_out": _left_out(pair.slices, ON_PAGE),
        "svg": sized(figure, SLICES_LABEL, f"identikit-slices-{index}"),
    }


def _distances(pair: ModelPair) -> list[tuple[str, float, str]]:
    """Every distance with its meaning and whether it is exact, sampled or a bound."""
    words = {
        "kl": "KL divergence, a to b",
        "kl_reverse": "KL divergence, b to a",
        "js": "Jensen–Shannon divergence",
        "tv": "total variation",
        "logit": "logit distance",
        "llv": "d_LLV",
        "svd_f": "d_SVD of f",
        "svd_g": "d_SVD of g",
        "representation": "d_fg, the larger of the two",
        "bound": "bound 2Mε on d_fg",
        "sharper_bound": "bound 2ε² on d_fg",
        "certificate": "certificate: d_fg is at most this",
    }
    apart = pair.distances
    rows = [
        (title, float(getattr(apart, name)), apart.kinds[name])
        for name, title in words.items()
        if name in apart.kinds
    ]
    if isinstance(apart, Distances):
        terms = zip(("t1", "t2", "λ t3", "λ t4"), apart.terms)
        rows += [(f"term {name} of d_LLV", term, apart.kinds["llv"]) for name, term in terms]
    return rows
