"""A small residual network on top of an affine map between two embedding models."""

from __future__ import annotations

import numpy as np

from identikit._linalg import Array
from identikit.errors import require

#: Units of the hidden layer, steps of Adam, rows of a step, step size and decay of the weights.
UNITS, STEPS, BATCH, RATE, DECAY = 64, 300, 512, 3e-3, 1e-2


def fit_residual(
    x: Array, y: Array, weights: Array, shift: Array, metric: str, seed: int
) -> tuple[Array, Array, Array]:
    """Fit tanh(x W₁ + c) W₂ to what x W + b leaves of y, by AdamW, from the seed alone.

    W₂ starts at zero, so that the first step starts from the affine map. The loss is the mean
    squared distance to y of the sum, scaled to length one if the metric is cosine, which for
    y of length one is 2 − 2 cos.

    Parameters
    ----------
    x, y : array (n, p) and array (n, q)
    weights, shift : array (p, q) and array (q,)
        The affine map.
    metric : str
        cosine, dot or l2.
    seed : int
        Of the first W₁ and of the rows of every step.

    Returns
    -------
    tuple of arrays
        W₁ (p, units), c (units,) and W₂ (units, q).
    """
    torch = require("torch", "torch", "a residual network")
    rng = np.random.default_rng(seed)
    scale = float(np.sqrt(np.square(x).sum(axis=1).mean())) or 1.0
    first = rng.normal(size=(x.shape[1], UNITS)) / scale
    # In units of the target's spread, so that one step size fits all models.
    unit = float(np.sqrt(np.square(y - y.mean(axis=0)).sum(axis=1).mean())) or 1.0
    tensors = [torch.tensor(a, dtype=torch.float32) for a in (x, y, x @ weights + shift)]
    inner = torch.tensor(first, dtype=torch.float32, requires_grad=True)
    bias = torch.zeros(UNITS, requires_grad=True)
    outer = torch.zeros(UNITS, y.shape[1], requires_grad=True)
    optimiser = torch.optim.AdamW([inner, bias, outer], lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    for _ in range(STEPS):
        chosen = torch.from_numpy(rng.choice(len(x), min(BATCH, len(x)), replace=False))
        rows, aims, base = (tensor[chosen] for tensor in tensors)
        image = base + unit * (torch.tanh(rows @ inner + bias) @ outer)
        if metric == "cosine":
            image = torch.nn.functional.normalize(image, dim=1)
        loss = ((image - aims) / unit).square().sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    found = [tensor.detach().numpy().astype(np.float64) for tensor in (inner, bias, outer * unit)]
    return found[0], found[1], found[2]
