"""What to do, from the values of all options over the same queries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from identikit._linalg import Array
from identikit.retrieval._intervals import Means, drawn_counts, means
from identikit.retrieval._scores import CUT
from identikit.retrieval.migration_result import CHECK_PAIRING, NO_QUERIES, Verdict

#: The overlap with re-embedding from which an option stands in for it, if nothing is judged.
AGREES = 0.9
#: A difference of nDCG that is not worth a vector.
NEGLIGIBLE = 0.005
#: From this held-out error on, a map says nothing about the rows that it maps.
NOTHING = 0.95

#: What each option is called in sentences.
CALLED = {
    "stay": "staying",
    "swap": "new queries on the old vectors",
    "map-queries": "mapping new queries into the old index",
    "map-index": "mapping the old index into the new space",
    "map-rescore": "mapping, then rescoring the best with the new model",
    "re-embed": "re-embedding",
}


def judged_verdict(columns: Mapping[str, Array], resamples: int, seed: int) -> Verdict:
    """The cheapest option within one standard error of the best, if it is not below staying.

    The standard error is that of the paired difference to the best option over queries. This is the
    one-standard-error rule (Breiman, Friedman, Olshen and Stone 1984, section 3.4.3): of options
    that the queries hardly tell apart it takes the cheapest, and it does not pass over one that is
    clearly better, since that is ahead by two. Options that rank nearly alike have tiny standard
    errors, so a difference below `NEGLIGIBLE` counts as none.

    Parameters
    ----------
    columns : mapping
        For each option, from the cheapest to the dearest, nDCG of every judged query.
    """
    names = list(columns)
    values = np.column_stack(list(columns.values()))
    best = names[int(np.argmax(values.mean(axis=0)))]
    gaps = columns[best][:, None] - values
    error = gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
    within = gaps.mean(axis=0) <= np.maximum(error, NEGLIGIBLE)
    counts = drawn_counts(len(values), resamples, [seed, 3])
    behind = means(gaps, counts, alike=True)
    ahead = means(values - columns["stay"][:, None], counts, alike=True)
    choice = next(
        name
        for place, name in enumerate(names)
        if name == best or (within[place] and ahead.value[place] >= 0)
    )
    reason = _judged_reason(names, choice, best, ahead, behind, len(values))
    return Verdict(choice, "ndcg", best, reason)


def _judged_reason(
    names: list[str], choice: str, best: str, ahead: Means, behind: Means, queries: int
) -> str:
    place, top = names.index(choice), names.index(best)
    rests = f"This rests on nDCG@{CUT} of {queries:,} judged queries."
    if choice == best == "stay":
        return f"No option has a larger nDCG@{CUT} than staying. {rests}"
    if choice == "stay":
        return (
            f"The best of the others, {CALLED[best]}, differs from staying by "
            f"{_signed(ahead, top)}: less than {_limit()}. {rests}"
        )
    says = f"{_capital(CALLED[choice])} gains {_signed(ahead, place)} on staying"
    if not ahead.low[place] > 0:
        says += ", which more queries may take back: the interval holds 0"
    says += ". " + (
        f"No option has more, and all cheaper ones are behind by more than {_limit()}."
        if choice == best
        else f"The best option, {CALLED[best]}, is ahead of it by {_signed(behind, place)}: less "
        f"than {_limit()}."
    )
    return f"{says} {rests}"


def agreement_verdict(columns: Mapping[str, Array], resamples: int, seed: int) -> Verdict:
    """The cheapest option that finds what re-embedding finds, for want of judgments.

    Parameters
    ----------
    columns : mapping
        For each option, from the cheapest to the dearest, the overlap with re-embedding of every
        query.
    """
    names = list(columns)
    found = means(
        np.column_stack(list(columns.values())),
        drawn_counts(len(columns["stay"]), resamples, [seed, 3]),
    )
    choice = next(
        name for place, name in enumerate(names) if name == "re-embed" or found.low[place] >= AGREES
    )
    others = [name for name in names if name != "re-embed"]
    near = max(others, key=lambda name: found.value[names.index(name)])
    place = names.index(near if choice == "re-embed" else choice)
    low, high = found.low[place], found.high[place]
    share = f"{found.value[place]:.0%} ({low:.0%} to {high:.0%})"
    if choice == "re-embed":
        says = (
            f"The option that comes closest, {CALLED[near]}, finds {share} of what re-embedding "
            f"finds, and less than {AGREES:.0%} may not stand in for it."
        )
    else:
        says = f"{_capital(CALLED[choice])} finds {share} of what re-embedding finds."
    return Verdict(
        choice,
        "overlap",
        "re-embed",
        f"{says} Without judgments, the new model's own results are the reference: this says what "
        "comes close to it, and not whether it is better than the old one, so that staying cannot "
        "be compared with it. Give judgments of some queries to learn that.",
    )


def without_queries(verdict: Verdict) -> Verdict:
    """The verdict if documents stood in for queries: none, and what they say."""
    return Verdict(
        NO_QUERIES,
        "overlap",
        verdict.best,
        "Documents stood in for queries, and documents flatter: maps are fitted on documents, and "
        "real queries are shorter and differ from them, so that a map that looks safe here may "
        "lose. Give real queries in both models, best with judgments. For what it is worth, the "
        f"documents speak for {CALLED[verdict.choice]}. {verdict.reason}",
    )


def pairing_in_doubt(
    overlaps: Array, chance: float, errors: Mapping[str, float], resamples: int, seed: int
) -> Verdict | None:
    """A verdict if old and new do not seem to have the same rows; None if they do.

    Parameters
    ----------
    overlaps : array
        The overlap of staying with re-embedding, of every query.
    chance : float
        What it is for unrelated results.
    errors : mapping
        The held-out errors of the maps.
    """
    found = means(overlaps[:, None], drawn_counts(len(overlaps), resamples, [seed, 3]))
    # Of fewer queries than an interval needs, every one must be at chance.
    low = found.low[0] if np.isfinite(found.low[0]) else overlaps.max()
    if low > chance:
        return None
    finds = f"Old and new model find no more in common than chance ({found.value[0]:.1%})"
    if min(errors.values()) >= NOTHING:
        says = (
            f"{finds}, and no map explains the vectors of other documents (held-out error "
            f"{min(errors.values()):.2f}; 1 is no better than the mean). So rows of old and new "
            "are probably not the same documents: check their order, or pair them by id."
        )
    else:
        says = (
            f"{finds}, although a map between their documents holds (held-out error "
            f"{min(errors.values()):.2f}). So rows of the old and the new queries are probably not "
            "the same queries: check their order, or pair them by id."
        )
    return Verdict(CHECK_PAIRING, "overlap", "re-embed", says)


def _limit() -> str:
    return f"one standard error, or than {NEGLIGIBLE}"


def _signed(found: Means, place: int) -> str:
    value, low, high = (float(ends[place]) for ends in found)
    ends = "" if np.isnan(low) else f" ({low:+.3f} to {high:+.3f})"
    return f"{value:+.3f}{ends}"


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
