"""What is shown of an audit, of one of its pairs, and of an audit of batches."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from identikit.auditing.result import Audit, Pair
from identikit.report._audit_page import page_of, warnings_of
from identikit.report._shown import BAD, DOUBTFUL, GOOD, Shown, Table, shared, shows
from identikit.report.layer_names import two_models
from identikit.report.numbers import number, percent, shortened, spread
from identikit.report.plots import plot_ladder
from identikit.report.words import audit as words
from identikit.report.words import batches as batch_words
from identikit.report.words import clusters as cluster_words
from identikit.sources import BY_POSITION

if TYPE_CHECKING:
    from identikit.auditing import BatchAudit

QUESTION = "Are these views the same, and up to what?"
STYLES = {"same": "green", "related": "yellow", "unrelated": "red"}


@shows("Audit")
def audit(result: Audit) -> Shown:
    """The verdict, a row a pair, the ladder of the worst; the page has all pairs one by one."""
    pairs, tolerance = _worst_first(result), result.settings.tolerance
    worst, short = pairs[0], shortened((view.name for view in result.views), 40).__getitem__
    alone = sum(len(pair.warnings) for pair in pairs)
    remark = f"The ladder is that of {short(worst.a)} and {short(worst.b)}. " if pairs[1:] else ""
    if alone:
        remark += f"{alone} warnings are in comparisons[i].warnings and in the report."
    reduced = [(text, 1) for text in words.reductions(result.views, short)]
    pairing = result.settings.pairing
    return Shown(
        "audit",
        f"Are these {len(result.views)} views the same, and up to what?",
        cluster_words.summary(result, short),
        [_pairs_table(pairs, tolerance), *_nearest_layers(result)],
        lambda: plot_ladder(worst, tolerance=tolerance),
        cluster_words.headline(result),
        words.standing(result.verdict).replace(" ", "-"),
        facts=[
            f"{result.rows:,} rows",
            f"{len(result.views)} views",
            f"{len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'}",
            f"tolerance {tolerance}",
        ],
        notes=[] if pairing == BY_POSITION else [f"Rows: {pairing}."],
        warnings=[*reduced, *warnings_of(pairs, short)],
        remark=remark.strip(),
        names=[view.name for view in result.views],
        template="audit.html.j2",
        values=partial(page_of, result, pairs),
        version=result.version,
    )


@shows("Pair")
def pair(found: Pair) -> Shown:
    """The rung that two views agree up to, and the ladder."""
    standing = words.standing(found)
    rungs = [
        [
            spread(rung.error, rung.interval),
            spread(rung.forward, rung.forward_interval),
            spread(rung.backward, rung.backward_interval),
        ]
        for rung in found.ladder
    ]
    names = [
        (rung.group + (" (chosen)" if rung.group == found.group else ""),) for rung in found.ladder
    ]
    return Shown(
        "pair",
        QUESTION,
        words.pair(found, shortened((found.a, found.b), 40).__getitem__),
        [Table(["rung"], names, ["error (95 %)", "a predicts b", "b predicts a"], rungs)],
        # A pair does not know which error counts as the same.
        partial(plot_ladder, found),
        f"They agree best {words.UP_TO[found.group].up_to}",
        standing.replace(" ", "-"),
        reading="The held-out error of the best map of each rung, from strict to loose.",
        warnings=[(text, 1) for text in found.warnings],
        methods=[("Error", ERROR)],
    )


@shows("BatchAudit")
def batches(result: BatchAudit) -> Shown:
    """What a map leaves between batches, pair by pair; the page is that of the audit."""
    rows = batch_words.most_left_first(result)
    sentences, skipped = batch_words.sentences(result), batch_words.skipped(result)
    base = audit(result.audit)
    warnings = [(text, 1) for text in skipped]
    warnings += [(batch_words.few_controls(each), 1) for each in rows if each.few]
    cells = [
        [
            str(each.controls),
            each.verdict,
            number(each.before, 2),
            spread(each.held_out, each.held_out_interval),
            str(each.others),
            number(each.others_before, 2),
            number(None)
            if each.error is None or each.interval is None
            else spread(each.error, each.interval),
            number(each.noise, 2),
        ]
        for each in rows
    ]
    titles = ["controls", "rung", "as is", "left (95 %)", "others", "as is", "left (95 %)", "noise"]
    beyond = [each.beyond_noise for each in rows]
    colours = {None: "yellow", False: "green", True: "red"}
    styles = [colours[each] for each in beyond]
    return replace(
        base,
        title=f"Does {result.by} differ by a map, or really?",
        says="\n".join(sentences),
        in_terminal=sentences[0],
        tables=[Table(["a", "b"], [(r.a, r.b) for r in rows], titles, cells, styles=styles)],
        headline=batch_words.headline(result),
        tone=BAD if True in beyond else DOUBTFUL if None in beyond else GOOD,
        warnings=[*warnings, *shared(pair.warnings for pair in result.comparisons)],
        remark="The ladder is that of the worst pair of batches, on their controls.",
        opening=[*sentences[:5], *skipped],
    )


ERROR = (
    "The root of the squared error of predicting one view from the other, divided by that of "
    "predicting its mean: √(E‖y − h(x)‖² / E‖y − E y‖²), held out, the worse of the two "
    "directions. 0 is the same; 1 is no better than the mean. Intervals are 95 %, by the "
    "delete-one-fold jackknife."
)


def _worst_first(audit: Audit) -> list[Pair]:
    """The verdict's pair, then the unrelated ones, then by falling error."""
    worst = {audit.verdict.a, audit.verdict.b}
    return sorted(
        audit.comparisons,
        key=lambda pair: ({pair.a, pair.b} != worst, pair.group != words.UNRELATED, -pair.error),
    )


def _pairs_table(pairs: list[Pair], tolerance: float) -> Table:
    """One row a pair; with a column for the error after ICA if any pair has one."""
    ica = any(pair.ica is not None for pair in pairs)
    rows = [
        [
            pair.group,
            spread(pair.error, pair.interval),
            # An unrelated pair has that as its rung, and there is little room.
            "no" if pair.relation == words.UNRELATED else pair.relation,
            percent(pair.variance).replace(" ", ""),
            *[number(None if pair.ica is None else pair.ica.rung.error)] * ica,
            number(pair.cca.mean),
            number(pair.cca.held_out),
            number(pair.cca.chance),
            "!" if pair.warnings else "",
        ]
        for pair in pairs
    ]
    titles = ["rung", "error (95 %)", f"≤ {tolerance:g}", "var.\nexpl."]
    return Table(
        ("a", "b"),
        [(pair.a, pair.b) for pair in pairs],
        [*titles, *["after\nICA"] * ica, "CCA", "held\nout", "chance", ""],
        rows,
        words=3,
        styles=[STYLES[pair.relation] for pair in pairs],
        spare=[range(4 + ica, 7 + ica), (3,)],
        whole=True,
    )


def _nearest_layers(audit: Audit) -> list[Table]:
    """Of every layer of a model the nearest one of the other, if the views are layers of two."""
    sides = two_models([view.name for view in audit.views])
    if sides is None:
        return []
    found = _between(audit)
    names, rows = [], []
    for one in sides[0].views:
        others = [found[one, other] for other in sides[1].views if (one, other) in found]
        if others:
            nearest = min(others, key=lambda pair: pair.error)
            names.append((one, nearest.b if nearest.a == one else nearest.a))
            error = spread(nearest.error, nearest.interval)
            rows.append([nearest.group, error, nearest.relation, percent(nearest.variance)])
    titles = ["rung", "error (95 %)", "", "of the\nvariance"]
    above = "Layer by layer, the nearest of the other model:"
    return [Table(("layer", "nearest"), names, titles, rows, words=3, above=above)]


def _between(audit: Audit) -> dict[tuple[str, str], Pair]:
    """The pair of two views, in either order."""
    found = {(pair.a, pair.b): pair for pair in audit.comparisons}
    return found | {(pair.b, pair.a): pair for pair in audit.comparisons}
