"""How much of each factor a function of the codes explains."""

from __future__ import annotations

from collections.abc import Sequence

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors import _linear as linear
from identikit.factors._data import prepare
from identikit.factors._factor import Kinds
from identikit.factors._kernel import held_out_kernel
from identikit.factors._linear import Sums, gathered, gathered_each
from identikit.factors._permute import check_held_out, is_reference, pooled, ratio
from identikit.factors._registry import metric
from identikit.factors._result import HELD_OUT, IN_SAMPLE, Score, mean_part, method

Blocks = Sequence[tuple[list[int], Sums]]

PERMUTATIONS = 200
MODELS = ("linear", "kernel")


@metric(
    "R², linear",
    "How much of each factor does a linear map of the codes explain?",
    invariant_to="invertible affine maps",
    place=20,
    reference="Eastwood and Williams 2018",
)
@metric(
    "R², nonlinear",
    "How much of each factor does any smooth function of the codes explain?",
    invariant_to="invertible affine maps",
    place=21,
    reference="Williams and Seeger 2001 (the kernel)",
    name="r2_nonlinear",
    model="kernel",
)
def r2(
    codes: object,
    factors: object = None,
    *,
    names: Sequence[str] | None = None,
    kinds: Kinds = None,
    seed: int = 0,
    preset: str | None = None,
    model: str = "linear",
    permutations: int = PERMUTATIONS,
) -> Score:
    """Mean over factors of R² = 1 − Σ (s − ŝ)² / Σ (s − s̄)², with ŝ fitted on other rows.

    The linear model has an intercept; without one, a constant added to the codes would cost score.
    The nonlinear one is kernel ridge regression (RBF on whitened codes beside the codes themselves,
    at random landmarks, Nyström), with the ridge chosen on a fold between those of fit and score.
    Much nonlinear and little linear R²: present, but not explicit.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As `prepare` takes them; factors of words are left out.
    preset : None or "reference"
        Held out, or least squares in sample (cl-ica, `linear_disentanglement`; linear only).
    model : "linear" or "kernel"
    permutations : int
        For the chance level.

    Examples
    --------
    >>> import numpy as np
    >>> s = np.random.default_rng(0).normal(size=(500, 2))
    >>> round(r2(s @ [[1.0, 2.0], [0.0, 1.0]] + 5.0, s).value, 6)
    1.0
    """
    reference = is_reference(preset)
    if model not in MODELS:
        raise InputError(f"model is {model!r}; expected one of {MODELS}")
    data = prepare(codes, factors, names=names, kinds=kinds, seed=seed)
    scored, excluded = data.numeric("R²")
    width = len(scored)
    if not (reference and model == "linear"):
        check_held_out(data.rows, "R²")
    if model == "kernel":
        over, under, n, words = held_out_kernel(data, scored, permutations)
        values, without = pooled(over, under)
        without = without[:, 0]
    else:
        blocks, n = linear.labelled_sums(data, scored, permutations)
        values, without = _linear(blocks, width, data.eps, reference=reference)
        words = "Least squares with intercept."
    titles = tuple(factor.name for factor in scored)
    parts = (mean_part("R²", values, without, titles),)
    return Score(
        "r2",
        parts,
        n,
        data.code_names,
        titles,
        excluded,
        method(words, parts, IN_SAMPLE if reference and model == "linear" else HELD_OUT),
    )


def _linear(blocks: Blocks, width: int, eps: float, *, reference: bool) -> tuple[Array, Array]:
    """R² (1 + P, K), and that of the true order without each fold (F, K)."""
    if reference:
        whole = [(p, s.total(), s.first(len(p)).without_each()) for p, s in blocks]
        return (
            gathered([(p, _in_sample(total, eps)) for p, total, _ in whole], width)[0],
            gathered([(p, _in_sample(rest, eps)) for p, _, rest in whole], width)[:, 0],
        )
    parts = []
    for places, sums in blocks:
        train = sums.without_each()
        parts.append((places, linear.explained(train, sums, linear.coefficients(train, eps))))
    values, without = pooled(*gathered_each(parts, width))
    return values, without[:, 0]


def _in_sample(sums: Sums, eps: float) -> Array:
    return ratio(*linear.explained(sums, sums, linear.coefficients(sums, eps)))
