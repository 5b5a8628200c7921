"""`identikit models`: compare softmax models as what they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from identikit.cli import _shared as shared
from identikit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXAMPLE = "identikit models run1.npz run2.npz --report models.html --fail-above 0.1"


def command(
    models: list[str],
    groups: str | None = None,
    slice_: str | None = None,
    names: list[str] | None = None,
    tolerance: float = 0.1,
    fail_above: float | None = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    memory: str | None = None,
    report: Path | None = None,
    output: Path | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Compare models f(x)ᵀg(y): the same distribution, the same embedding, or neither.

    MODEL : Two or more .npz or .safetensors files of the same inputs and labels. Each has arrays f
        and g, and perhaps bias and candidates, or log_prob. Folders that identikit extract has
        written are accepted too.
    --slice FILE : A file with a label for each input, read as --groups is. Every pair is then also
        compared on the inputs of each label, and the sentence says where it is the same.
    --names A,B,... : The names of the models. If a name has a comma, repeat the option for each
        name.
    --tolerance : The largest relative logit gap, and κ, that count as the same.
    --fail-above GAP : Exit with 1 if a relative logit gap is larger than this.
    --seed : The seed of the inputs that d_LLV chooses from.
    """
    from identikit.auditing import audit_models
    from identikit.family import SoftmaxModel
    from identikit.sources import read_labels, tell_apart

    shared.check_limit(fail_above, "a logit gap")
    shared.check_targets(output, report, [*models, groups, slice_])
    given = shared.split_names(names)
    if given is not None and len(given) != len(models):
        raise InputError(f"expected {len(models)} names, one a model, got {given!r}")
    if given is None:
        paths = [Path(model).absolute() for model in models]
        given = tell_apart([path.stem for path in paths], list(map(str, paths)))
    room = shared.parse_size(memory)
    labels = None if slice_ is None else read_labels(slice_, "slices")
    with shared.progress_bar(quiet) as progress:
        loaded = []
        for place, path in enumerate(models):
            progress("reading", place, len(models))
            loaded.append(
                SoftmaxModel.load(path, given[place], memory=room and room // len(models))
            )
        result = audit_models(
            loaded,
            tolerance=tolerance,
            seed=seed,
            progress=progress,
            groups=_shared_groups(models) if groups is None else shared.read_groups(groups),
            slices=labels,
        )
    shared.deliver(result, output=output, report=report, json=json, quiet=quiet)
    worst = result.worst
    between = f"between {worst.a!r} and {worst.b!r}"
    shared.exit_above(fail_above, worst.gauge.logit_gap, "relative logit gap", between, quiet=quiet)


def _shared_groups(models: list[str]) -> NDArray[Any] | None:
    """The sentences that extracted folders name; they must be those of the same text."""
    import numpy as np

    from identikit.sources import read_labels

    files = [Path(model) / "groups.npy" for model in models]
    if not all(file.is_file() for file in files):
        return None
    first, *others = (read_labels(file) for file in files)
    for file, other in zip(files[1:], others):
        if not np.array_equal(first, other):
            raise InputError(
                f"{files[0]} and {file} differ: the models were extracted on other sentences or "
                "with other tokenizers, so their rows are not the same inputs"
            )
    return first
