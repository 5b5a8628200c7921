"""The published tables on linear systems, cell by cell, for comparison with our measurements.

Rajendran et al. 2024 (arXiv 2311.18048). B and C are the identity (I) or a Gaussian matrix (G).
"""

from __future__ import annotations

import pandas as pd

DIMENSIONS = (2, 3, 5, 8, 10)
#: Table 1: MCC, mean and standard deviation over five runs, by column; a pair for each dimension.
TABLE_1 = {
    "μ≠0 I/I": ((0.866, 0.033), (0.901, 0.054), (0.892, 0.057), (0.943, 0.006), (0.939, 0.011)),
    "μ≠0 I/G": ((0.767, 0.158), (0.910, 0.061), (0.929, 0.025), (0.940, 0.008), (0.915, 0.023)),
    "μ≠0 G/I": ((0.730, 0.191), (0.916, 0.044), (0.928, 0.026), (0.941, 0.009), (0.925, 0.017)),
    "μ≠0 G/G": ((0.697, 0.090), (0.861, 0.062), (0.911, 0.045), (0.867, 0.039), (0.924, 0.042)),
    "μ=0 I/I": ((0.633, 0.104), (0.659, 0.201), (0.657, 0.116), (0.585, 0.144), (0.708, 0.042)),
    "μ=0 I/G": ((0.675, 0.132), (0.618, 0.241), (0.618, 0.079), (0.479, 0.129), (0.611, 0.043)),
    "μ=0 G/I": ((0.734, 0.158), (0.633, 0.110), (0.620, 0.025), (0.523, 0.016), (0.604, 0.063)),
    "μ=0 G/G": ((0.725, 0.115), (0.667, 0.109), (0.539, 0.078), (0.414, 0.031), (0.525, 0.097)),
    "maximum": ((0.968, 0.055), (1.000, 0.000), (0.995, 0.009), (0.977, 0.011), (0.996, 0.006)),
}
#: The same runs on unshuffled batches, from the results in the authors' repository (Table 1 is of
#: the last training batch); None where there is none.
VALIDATION = {
    "maximum": (0.864, 0.997, 0.824, 0.436, 0.733),
    "μ≠0 G/G": (0.596, 0.792, 0.745, 0.663, None),
}
#: Table 2: G/G, random means, three runs; by the noise variance that is named there.
NOISE = (0.0, 1e-4, 1e-2, 1e-1, 1.0)
TABLE_2 = {
    2: ((0.627, 0.090), (0.679, 0.162), (0.643, 0.068), (0.590, 0.034), (0.625, 0.038)),
    3: ((0.886, 0.057), (0.823, 0.052), (0.718, 0.168), (0.637, 0.194), (0.796, 0.022)),
}


def table_1() -> pd.DataFrame:
    """One row per cell of Table 1: cell (its column), d, published, published_sd, validation."""
    rows = [
        (column, d, *cell, other)
        for column, cells in TABLE_1.items()
        for d, cell, other in zip(DIMENSIONS, cells, VALIDATION.get(column, [None] * len(cells)))
    ]
    return pd.DataFrame(rows, columns=["cell", "d", "published", "published_sd", "validation"])


def table_2() -> pd.DataFrame:
    """One row per cell of Table 2: d, nominal, published, published_sd."""
    rows = [
        (d, nominal, *cell) for d, cells in TABLE_2.items() for nominal, cell in zip(NOISE, cells)
    ]
    return pd.DataFrame(rows, columns=["d", "nominal", "published", "published_sd"])
