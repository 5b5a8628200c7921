"""`identikit merge`: several moments files into one."""

from __future__ import annotations

from pathlib import Path

import typer

from identikit.cli import _shared as shared
from identikit.cli._moments import in_words, say_written, summary

EXAMPLE = "identikit merge part*.moments -o all.moments"


def command(
    parts: list[str],
    output: Path,
    names: list[str] | None = None,
    force: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Merge the statistics of different rows of the same views, in any order.

    Parts must agree in the names and widths of their views and in their folds (with --names, they
    may call the views what they like), and no shard may come twice.

    PART : Files that identikit moments or identikit merge has written.
    --output, -o FILE.moments : Where to save the whole.
    """
    from identikit.moments import check_suffix, merge_moments

    check_suffix(output)
    shared.check_target(output, parts, overwrite=force)
    merged = merge_moments(parts, shared.split_names(names))
    merged.save(output, overwrite=force)
    if json:
        shared.print_json(summary(merged, output) | {"parts": parts})
        return
    typer.echo(f"Merged {len(parts)} files with {len(merged.shards)} shards. {in_words(merged)}")
    if not quiet:
        known = sum(shard.rows for shard in merged.shards)
        if known < merged.rows + merged.dropped:
            typer.echo(
                f"{merged.rows + merged.dropped - known} rows came without digests: nobody can "
                "tell whether they were counted twice",
                err=True,
            )
        say_written(output)
