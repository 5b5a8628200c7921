"""`identikit near`: distances between two views after the best map of each rung."""

from __future__ import annotations

from pathlib import Path

from identikit.cli import _shared as shared

EXAMPLE = "identikit near run1.npy run2.npy --report near.html"


def command(
    a: str,
    b: str,
    groups: str | None = None,
    names: list[str] | None = None,
    components: int | None = None,
    fit_share: float = 0.5,
    max_rows: int = 20000,
    seed: int = 0,
    drop_nonfinite: bool = False,
    report: Path | None = None,
    output: Path | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Say how far A and B are from each other after the best map of each rung, and after ICA.

    A : The first view.
    B : Another view of the same rows.
    --components : How many components ICA looks for. By default as many as ranks and rows allow.
    --fit-share : The share of the rows that maps are fitted on. With 1 they are scored in sample.
    --max-rows : If there are more rows than this, use a random sample of as many.
    --seed : The seed of the sample, the split, ICA and the controls.
    """
    from identikit.axes import near_identifiability

    shared.check_targets(output, report, [a, b, groups])
    with shared.progress_bar(quiet) as progress:
        result = near_identifiability(
            a,
            b,
            names=shared.split_names(names),
            groups=shared.read_groups(groups),
            fit_share=fit_share,
            n_components=components,
            max_rows=max_rows,
            seed=seed,
            drop_nonfinite=drop_nonfinite,
            progress=progress,
        )
    shared.deliver(result, output=output, report=report, json=json, quiet=quiet)
