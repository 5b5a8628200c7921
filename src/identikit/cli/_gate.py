"""What lets an audit pass: its exit code, by --fail-above, --require, --strict and --direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from identikit.cli import _shared as shared
from identikit.errors import InputError

if TYPE_CHECKING:
    from identikit.auditing.result import Audit, Pair


@dataclass(frozen=True)
class Gate:
    """What was asked of an audit; checked before the work."""

    fail_above: float | None
    require: str | None
    strict: bool
    direction: str | None

    def __post_init__(self) -> None:
        from identikit.alignment import RUNGS

        shared.check_limit(self.fail_above, "an error")
        if self.require is not None and self.require not in RUNGS:
            raise InputError(f"--require is {self.require!r}; expected one of {', '.join(RUNGS)}")
        if self.strict and self.fail_above is None:
            raise InputError("--strict is about --fail-above; give a limit with --fail-above ERROR")
        if self.direction is not None and self.fail_above is None and self.require is None:
            raise InputError(
                "--direction says which pair --fail-above or --require judge; give one of these"
            )

    def judge(self, source: str | None, pairs: Sequence[Pair], *, quiet: bool) -> None:
        """Exit with 1 if one of `pairs` does not pass, and say why."""
        limit, strict = self.fail_above, self.strict
        if limit is not None:
            above = [pair for pair in pairs if pair.exceeds(limit, strict=strict, source=source)]
            if above:
                worst = max(above, key=lambda pair: pair.error_of(strict=strict, source=source))
                shared.exit_failed(_above(worst, limit, strict, source), quiet=quiet)
        if self.require is not None:
            looser = [pair for pair in pairs if not pair.meets(self.require)]
            if looser:
                worst = max(looser, key=lambda pair: pair.error)
                shared.exit_failed(_looser(worst, self.require, len(looser)), quiet=quiet)

    def pairs(self, audit: Audit) -> tuple[str | None, Sequence[Pair]]:
        """Which view is mapped, if that was said, and the pairs to judge."""
        if self.direction is None:
            return None, audit.comparisons
        for pair in audit.comparisons:
            for source, target in ((pair.a, pair.b), (pair.b, pair.a)):
                if self.direction == f"{source}:{target}":
                    return source, [pair]
        names = ", ".join(view.name for view in audit.views)
        raise InputError(
            f"--direction is {self.direction!r}; expected two of the views as A:B, and these are "
            f"{names}"
        )


def _above(pair: Pair, limit: float, strict: bool, source: str | None) -> str:
    a, b = (pair.a, pair.b) if source in (None, pair.a) else (pair.b, pair.a)
    where = f"between {a!r} and {b!r}" if source is None else f"of mapping {a!r} to {b!r}"
    error = pair.error_of(strict=strict, source=source)
    if not error <= limit:
        what = "largest upper end of an error's interval" if strict else "largest error"
        return f"the {what}, {error:.3g} ({where}), is above {limit:g}"
    # The error is small, but that is not all there is to say.
    few = pair.influence
    if few is None:
        return f"{pair.a!r} and {pair.b!r} are unrelated, which is above any limit"
    without = few.error_without
    return (
        f"the error {where}, {error:.3g}, is decided by "
        f"{few.rows} of the rows; without {'it' if few.rows == 1 else 'them'} the error "
        f"{'cannot be told' if without is None else f'is {without:.3g}'}, and {limit:g} is "
        "the limit"
    )


def _looser(pair: Pair, required: str, count: int) -> str:
    both = f"{pair.a!r} and {pair.b!r}"
    others = f"; {count} pairs fall short, and this one has the largest error" * (count > 1)
    if len(pair.candidates) > 1:
        found = f"the rows do not tell whether {both} are the same up to "
        found += f"{' or '.join(pair.candidates)}"
    elif pair.group in ("unrelated", "related"):
        found = f"{both} are {pair.group}"
    else:
        found = f"{both} are the same up to {pair.group} maps"
    few = pair.influence
    if pair.meets(required, without_few=False) and few is not None:
        found += f", but {few.rows} of the rows decide that"
    return f"{found}, and {required} was required{others}"
