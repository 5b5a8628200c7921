"""What is shown of a check against a pin: what has changed in each layer, why, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from identikit.report._shown import BAD, GOOD, Shown, Table, shows
from identikit.report.numbers import number, small, spread
from identikit.report.words import check as words

if TYPE_CHECKING:
    from identikit.retrieval import CheckResult, LayerCheck

#: Rows that a page lists.
LISTED = 200


@shows("CheckResult")
def check(found: CheckResult) -> Shown:
    """Whether it passes, the likeliest cause, and the errors of the ladder."""
    notes = [_paired(found)]
    notes += [f"{layer.name}: {note}." for layer in found.layers for note in layer.notes]
    if said := words.fingerprints(found):
        notes.append(said)
    worst = found.worst
    if worst.changed:
        first = ", ".join(worst.changed[: words.LISTED])
        more = ", …" if len(worst.changed) > words.LISTED else ""
        notes.append(f"Rows that have changed: {first}{more}.")
    return Shown(
        "check",
        "Have the vectors changed since they were pinned, and why?",
        words.summary(found),
        [_layers(found), *_foreign(found)],
        headline=words.headline(found),
        tone=GOOD if found else BAD,
        facts=[
            f"{worst.rows:,} rows, {worst.pinned_rows:,} pinned",
            f"{worst.compared:,} compared one by one",
            f"same up to {found.require}, error at most {found.fail_above:g}",
        ],
        further=[_causes(worst), *_flagged(found)],
        notes=notes,
        methods=[
            (
                "Error",
                "√(E‖y − h(x)‖² / E‖y − E y‖²) of the pinned rows and the same rows now, the worse "
                "of both directions; h is the best map of a rung, fitted on one half of the rows "
                "and scored on the other. Rungs looser than one that explains nearly everything "
                "are not computed.",
            ),
            ("Intervals", "95 %, over independent rows, with the fitted maps taken as given."),
            (
                "Causes",
                "A list of patterns, each with a score; the first is the likeliest, and vectors "
                "alone cannot prove it.",
            ),
            (
                "Foreign rows",
                "Those further out than nearly all rows of the pinned model are: by the distance "
                "(x − μ)ᵀ(Σ + r I)⁻¹(x − μ), and if some rows form a population of their own, also "
                "in the direction of its mean, which is fitted on other rows. The threshold is a "
                "quantile of the pinned sample, each row left out of μ and Σ. The share has "
                "false alarms taken off.",
            ),
        ],
        names=[layer.name for layer in found.layers],
        version=found.version,
    )


def _paired(found: CheckResult) -> str:
    how = dict.fromkeys(layer.pairing for layer in found.layers)
    text = "; ".join(how)
    return f"{text[:1].upper()}{text[1:]}."


def _layers(found: CheckResult) -> Table:
    rows = []
    for layer in found.layers:
        error = small(layer.error)
        if layer.interval is not None:
            error = spread(layer.error, layer.interval)
        cause = "–" if layer.cause is None else layer.cause.name
        moments = layer.moments
        rows.append(
            [layer.group or "–", cause, error, number(moments.mean), number(moments.spread)]
        )
    titles = ("same up to", "likeliest cause", "error (95 %)", "mean\nmoved by", "spread\ngrew by")
    names = [(layer.name,) for layer in found.layers]
    return Table(("layer",), names, titles, rows, words=2, spare=[(3, 4)])


def _causes(layer: LayerCheck) -> Table:
    rows = [[cause.says, cause.look, number(cause.score, 2)] for cause in layer.causes]
    return Table(
        ("cause",),
        [(cause.name,) for cause in layer.causes],
        ("evidence", "look at", "score"),
        rows,
        words=2,
        above=f"Causes that the evidence speaks for, in {layer.name}",
    )


def _foreign(found: CheckResult) -> list[Table]:
    foreign = found.foreign
    if foreign is None:
        return []
    names, rows = [("all rows",)], [_share(foreign.rows, len(foreign.flagged), foreign)]
    for each in foreign.slices:
        names.append((each.name,))
        rows.append(_share(each.rows, each.flagged, each))
    if foreign.compared is not None:
        names.append((foreign.compared.name,))
        rows.append(_share(foreign.compared.rows, foreign.compared.flagged, foreign.compared))
    return [
        Table(
            ("slice",),
            names,
            ("rows", "flagged", "foreign (95 %)"),
            rows,
            above="Rows that do not look as if the pinned model had made them",
            below=f"Calibrated on {foreign.calibrated_on:,} pinned rows to a false-alarm rate of "
            f"{foreign.false_alarms:.1%}. {words.population(foreign)}".strip(),
        )
    ]


def _share(rows: int, flagged: int, of: object) -> list[str]:
    low, high = of.interval  # type: ignore[attr-defined]
    share: float = of.share  # type: ignore[attr-defined]
    return [f"{rows:,}", f"{flagged:,}", f"{share:.1%} ({low:.1%}–{high:.1%})"]


def _flagged(found: CheckResult) -> list[Table]:
    foreign = found.foreign
    if foreign is None or not foreign.flagged:
        return []
    ids = foreign.ids or tuple(map(str, foreign.flagged))
    rows = [
        [f"{number_:,}", f"{distance:.1f}"]
        for number_, distance in list(zip(foreign.flagged, foreign.distances))[:LISTED]
    ]
    return [
        Table(
            ("row" if foreign.ids is None else "id",),
            [(each,) for each in ids[:LISTED]],
            ("number", "far out by"),
            rows,
            above=f"The first {len(rows)} of {len(ids):,} flagged rows",
            below="In standard deviations over the mean of the pinned rows; flagged above "
            f"{foreign.threshold:.1f}.",
        )
    ]
