"""What is said of a check against a pin, in sentences and as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from identikit._text import plain, shorten
from identikit.report.numbers import small

if TYPE_CHECKING:
    from identikit.retrieval import Cause, CheckResult, LayerCheck
    from identikit.retrieval.check_result import ForeignRows

#: Flagged or changed rows that a sentence lists.
LISTED = 10


def headline(found: CheckResult) -> str:
    """Whether it passes, in a few words."""
    cause = found.cause
    if found:
        return "Passed" if cause is None else f"Passed: {CAUSE.get(cause.name, cause.name)}"
    foreign = found.foreign
    if foreign is not None and foreign.interval[0] > 0:
        return f"Failed: about {foreign.share:.0%} of the rows come from another model"
    return "Failed" if cause is None else f"Failed: {CAUSE.get(cause.name, cause.name)}"


#: The causes as they are named in a headline.
CAUSE = {
    "same": "nothing has changed",
    "rounding": "rounding",
    "some rows": "some rows have changed",
    "row shift": "the rows are shifted",
    "row permutation": "the rows are in another order",
    "normalisation": "another normalisation",
    "quantised": "quantised vectors",
    "column permutation": "the columns are in another order",
    "rotation": "a rotation",
    "linear map": "a linear map",
    "noise": "noise, as int8 weights give",
    "prefix": "a prefix is missing or another one",
    "pooling": "the same model used in another way, such as another pooling",
    "another model": "another model",
}


def summary(found: CheckResult) -> str:
    """Whether it passes and why, and the likeliest cause of what has changed."""
    against = f"{shorten(found.view, 40)!r} against {shorten(found.reference, 40)!r}"
    if not found:
        why = "" if found.cause is None else _why(found.cause)
        more = [] if found.foreign is None else remarks(found.foreign)
        return " ".join([f"Failed, {against}: {'; '.join(found.failures)}.{why}", *more])
    words = [_layer(layer) for layer in found.layers[:1]]
    many = f" in {len(found.layers)} layers, the worst of which is {found.worst.name!r}"
    if len(found.layers) > 1:
        words = [_layer(found.worst)]
    text = f"Passed, {against}{many if len(found.layers) > 1 else ''}: {words[0]}."
    if found.foreign is not None:
        text += (
            f" No more rows look foreign than false alarms explain "
            f"({len(found.foreign.flagged):,} of {found.foreign.rows:,})."
        )
        text += "".join(f" {each}" for each in remarks(found.foreign))
    return text


def remarks(foreign: ForeignRows) -> list[str]:
    """What else is known of foreign rows: a population of their own, and compared rows."""
    said = [population(foreign)]
    compared = foreign.compared
    if compared is not None and compared.flagged:
        low, high = compared.interval
        said.append(
            f"Of {compared.rows:,} rows that were compared one by one, {compared.flagged:,} have "
            f"changed, {compared.share:.1%} ({low:.1%} to {high:.1%})."
        )
    return [each for each in said if each]


def population(foreign: ForeignRows) -> str:
    """Whether some rows form a population of their own; empty if none do."""
    found = foreign.population
    if found is None:
        return ""
    low, high = found.interval
    text = (
        f"About {found.share:.1%} of the rows ({low:.1%} to {high:.1%}) form a population of their "
        f"own, whose mean is {found.apart:.2g} times as far from the pinned mean as a row is"
    )
    if found.told:
        return f"{text}, as those of another model are."
    return (
        f"{text}: other contents, or a close relative of the pinned model, such as a fine-tuned "
        "version. Vectors alone do not tell which; rows with the pinned ids would."
    )


def _why(cause: Cause) -> str:
    return f" The likeliest cause is {cause.name!r}: {cause.says}. Look at {cause.look}."


def _layer(layer: LayerCheck) -> str:
    if layer.cause is None:
        if layer.interval is None and layer.group is None and not layer.compared:
            change = layer.moments
            return (
                f"rows were not compared one by one; mean and covariance of all rows changed by "
                f"{small(change.mean)} and {small(change.covariance)}"
            )
        return f"error {small(layer.error)}"
    return f"error {small(layer.error)} on {layer.compared:,} rows, {layer.cause.says}"


def fingerprints(found: CheckResult) -> str:
    """What was said of the model when it was pinned; empty if nothing was."""
    said = ", ".join(f"{key} {value!r}" for key, value in found.fingerprints.items())
    return f"Pinned with {said}." if said else ""


def markdown(found: CheckResult) -> str:
    """The result as Markdown, for the summary of a job."""
    lines = [f"### identikit check: {_cell(headline(found))}", "", _cell(summary(found)), ""]
    lines += ["| layer | rows compared | same up to | error | likeliest cause |"]
    lines += ["|---|---:|---|---:|---|"]
    for layer in found.layers:
        cause = "–" if layer.cause is None else CAUSE.get(layer.cause.name, layer.cause.name)
        cells = (layer.name, f"{layer.compared:,}", layer.group or "–", small(layer.error), cause)
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    foreign = found.foreign
    if foreign is not None:
        low, high = foreign.interval
        lines += ["", "| slice | rows | flagged | foreign share (95 %) |", "|---|---:|---:|---:|"]
        share = f"{foreign.share:.1%} ({low:.1%} to {high:.1%})"
        lines.append(f"| all | {foreign.rows:,} | {len(foreign.flagged):,} | {share} |")
        for each in [*foreign.slices, *([foreign.compared] if foreign.compared else [])]:
            share = "{:.1%} ({:.1%} to {:.1%})".format(each.share, *each.interval)
            counts = f"{each.rows:,} | {each.flagged:,}"
            lines.append(f"| {_cell(each.name)} | {counts} | {share} |")
    if said := fingerprints(found):
        lines += ["", _cell(said)]
    return "\n".join(lines) + "\n"


def _cell(text: object) -> str:
    """Text that Markdown and HTML take for nothing but text."""
    safe = plain(text).replace("\n", " ")
    for sign, instead in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        safe = safe.replace(sign, instead)
    return "".join(f"\\{sign}" if sign in "\\|`*_[]#!" else sign for sign in safe)
