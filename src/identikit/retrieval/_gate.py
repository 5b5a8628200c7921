"""What a check must meet to pass, and why it does not."""

from __future__ import annotations

from dataclasses import dataclass

from identikit.retrieval.check_result import ForeignRows, LayerCheck


@dataclass(frozen=True)
class Gate:
    """What a layer must meet."""

    require: str
    fail_above: float
    strict: bool

    def failures(self, layer: LayerCheck, *, several: bool) -> list[str]:
        """Why a layer does not pass; empty if it does."""
        where = f"layer {layer.name!r}: " if several else ""
        if layer.interval is None:
            if layer.error <= self.fail_above:
                return []
            what = "mean or covariance of all rows changed by"
            return [f"{where}{what} {layer.error:.3g}, and {self.fail_above:g} is the limit"]
        value = layer.interval[1] if self.strict else layer.error
        if not value <= self.fail_above:
            what = "upper end of the error's interval" if self.strict else "error"
            up_to = "" if self.require == "identity" else f" up to {self.require} maps"
            return [f"{where}the {what}{up_to}, {value:.3g}, is above {self.fail_above:g}"]
        if layer.causes[0].name == "some rows":
            return [f"{where}{len(layer.changed)} of {layer.compared} rows have changed"]
        change, same_rows = layer.moments, layer.rows == layer.pinned_rows
        # The same rows have the same moments, up to what their own changes can do.
        beyond = change.mean > layer.error + 0.02 or change.covariance > 3 * layer.error + 0.05
        if self.require == "identity" and same_rows and beyond:
            return [
                f"{where}the compared rows are the same, but mean or covariance of all rows "
                f"changed by {change.error:.3g}: rows that are not in the sample have changed "
                "(--rows looks for them)"
            ]
        return []


def foreign_failures(found: ForeignRows | None) -> list[str]:
    """Why an index does not pass: more rows are flagged than false alarms explain."""
    if found is None or found.interval[0] <= 0:
        return []
    low, high = found.interval
    return [
        f"about {found.share:.1%} of the rows ({low:.1%} to {high:.1%}) do not come from the "
        f"pinned model: {len(found.flagged):,} of {found.rows:,} are flagged, at a false-alarm "
        f"rate of {found.false_alarms:.1%}"
    ]
