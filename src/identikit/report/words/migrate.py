"""What is said of a migration."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from identikit.retrieval import Migration

#: The verdict in a few words.
HEADLINES = {
    "stay": "Stay with the old model",
    "swap": "Embed queries with the new model; no map is needed",
    "map-queries": "Map new queries into the old index",
    "map-index": "Map the old index into the new space",
    "map-rescore": "Map, then rescore the best with the new model",
    "re-embed": "Re-embed the documents",
    "cannot say without queries": "Cannot say without queries",
    "check the pairing": "Check that rows are paired rightly",
}

#: What each option is, for the table.
OPTIONS = {
    "stay": "stay",
    "swap": "swap without a map",
    "map-queries": "map queries",
    "map-index": "map the index",
    "map-rescore": "map, rescore",
    "re-embed": "re-embed",
}


def summary(found: Migration) -> str:
    """The verdict, and what it rests on."""
    return f"{HEADLINES[found.verdict.choice]}. {found.verdict.reason}"


def cost(found: Migration) -> str:
    """When rescoring costs more than re-embedding."""
    after = -(-found.documents // found.n)
    return (
        f"Vectors to compute: map, rescore needs {found.n} for every query. If they are not kept, "
        f"that is as many as re-embedding after {after:,} queries; if they are, it never is more."
    )
