"""Does ICA identify the axes of both views?"""

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 0.5) -> Answer | None:
    """Share of the axes that are identified, in the view where it is smaller."""
    ica = evidence.context.ica
    if ica is None:
        return None
    if isinstance(ica, str):
        return Answer(None, threshold, False, f"no axes after ICA: {ica}.")
    sides = dict(zip(evidence.views, (ica.a, ica.b)))
    shares = {view: own.identified / own.components for view, own in sides.items()}
    words = [
        f"{own.identified} of {own.components} axes of view {evidence.name(view)}"
        for view, own in sides.items()
        if shares[view] < threshold
    ]
    message = f"ICA identifies {' and '.join(words)}" if words else ""
    if words:
        message += (
            "; the rest are Gaussian, tied or unstable on these rows, and a large error after ICA "
            "may be due to them (ik.ICA names them)"
        )
    stopped = [evidence.name(view) for view, own in sides.items() if not own.converged]
    if stopped:
        message += f"{'; ' if words else ''}ICA of {' and '.join(stopped)} has not converged"
    return Answer(min(shares.values()), threshold, not message, f"{message}.")
