"""R²: how much of each factor's variance a function of the codes explains."""

from __future__ import annotations

from identikit.errors import InputError
from identikit.factors._linear import coefficients, explained, held_out_fit, labelled_sums
from identikit.factors._metric import Trial, also, metric
from identikit.factors._penalised import LANDMARKS, ROWS, held_out_kernel
from identikit.factors._resample import pooled, ratio
from identikit.factors._result import HELD_OUT, Score

MODELS = ("linear", "kernel")


@also(
    "r2_nonlinear",
    "R², nonlinear",
    "How much of each factor does any smooth function of the codes explain?",
    reference="Williams and Seeger 2001 (the kernel)",
    place=21,
    model="kernel",
)
@metric(
    "R², linear",
    "How much of each factor does a linear map of the codes explain?",
    invariant_to="invertible affine maps",
    reference="Eastwood and Williams 2018",
    permutations=200,
    called="R²",
    place=20,
)
def r2(trial: Trial, *, model: str = "linear") -> Score:
    """Mean over factors of R² = 1 − Σ (s − ŝ)² / Σ (s − s̄)², with ŝ fitted on other rows.

    The linear model has an intercept; without one, adding a constant to the codes would lower the
    score. The nonlinear model is kernel ridge regression with an RBF kernel on whitened codes at
    random landmarks (Nyström), and with the codes themselves as further features. Its ridge is
    chosen on a separate fold. A high nonlinear and a low linear R² mean that a factor is present in
    the codes but not explicit. Factors whose values are words are left out. preset="reference" is
    least squares in sample (cl-ica, `linear_disentanglement`; linear only).

    Parameters
    ----------
    model : "linear" or "kernel"

    Examples
    --------
    >>> import numpy as np
    >>> s = np.random.default_rng(0).normal(size=(500, 2))
    >>> round(r2(s @ [[1.0, 2.0], [0.0, 1.0]] + 5.0, s).value, 6)
    1.0
    """
    if model not in MODELS:
        raise InputError(f"model is {model!r}; expected one of {MODELS}")
    trial, eps = trial.numeric(), trial.data.eps
    if model == "kernel":
        trial.needs_folds()
        over, under, n = held_out_kernel(trial)
        part = trial.mean_part("R²", *pooled(over, under))
        words = f"Kernel ridge, {LANDMARKS} landmarks, on at most {ROWS:,} rows."
        return trial.score(part, words, HELD_OUT, rows=n)

    blocks = labelled_sums(trial)
    if trial.reference:
        values, without = blocks.in_sample(
            lambda sums: ratio(*explained(sums, sums, coefficients(sums, eps)))
        )
        part = trial.mean_part("R²", values[0], without[:, 0])
    else:
        part = trial.mean_part("R²", *pooled(*blocks.each(lambda sums: held_out_fit(sums, eps))))
    return trial.score(part, "Least squares with intercept.", rows=blocks.rows)
