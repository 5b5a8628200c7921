"""Planted wells, for the tests of what nelson-batches does with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from identikit.studies._batch_data import Wells, planted


def planted_wells(seed: int, **sizes: Any) -> tuple[Wells, np.ndarray]:
    """Wells of which the independent axes are known, and these axes."""
    return planted(seed, **sizes)
