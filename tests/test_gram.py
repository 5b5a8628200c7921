"""The product of rows with themselves, of which moments are sums."""

from __future__ import annotations

import threading
import time

import numpy as np
from scipy.linalg import blas

from conftest import close
from identikit.moments._part import add_gram


def test_the_gram_product_is_that_of_blas_and_lets_other_threads_run(rng):
    rows, gram = rng.normal(size=(300, 17)), np.full((17, 17), np.nan)
    add_gram(rows, gram, False)
    expected = blas.dsyrk(1.0, rows.T, lower=1)
    lower = np.tril_indices(17)
    close(gram[lower], expected[lower], 1e-12, np.abs(expected).max())
    add_gram(rows, gram, True)
    close(gram[lower], 2 * expected[lower], 1e-12, np.abs(expected).max())
    assert np.isnan(gram[0, 1])  # the other triangle is left alone

    wide, ticks, stop = rng.normal(size=(4000, 1000)), [], threading.Event()

    def tick() -> None:
        while not stop.wait(0.001):
            ticks.append(time.perf_counter())

    def ticks_meanwhile() -> bool:
        before = time.perf_counter()
        add_gram(wide, np.empty((1000, 1000)), False)
        after = time.perf_counter()
        return any(before < t < after for t in ticks)

    thread = threading.Thread(target=tick)
    thread.start()
    # On a busy machine the other thread may have no turn during one product.
    seen = any(ticks_meanwhile() for _ in range(100))
    stop.set()
    thread.join()
    assert seen
