"""Changes of vectors whose cause is known, planted in synthetic and in real embeddings."""

from __future__ import annotations

import numpy as np


def embeddings(rng: np.random.Generator, rows: int = 1000, width: int = 64) -> np.ndarray:
    """Vectors as encoders give them: unit length, a common direction, a falling spectrum."""
    spectrum = np.arange(1, width + 1) ** -0.5
    basis = np.linalg.qr(rng.normal(size=(width, width)))[0]
    points = (rng.normal(size=(rows, width)) * spectrum) @ basis + 0.15 * rng.normal(size=width)
    return unit(points)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def tokens(rng: np.random.Generator, rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """One text model, pooled in two ways: the mean of all tokens, and the first token.

    Tokens share what the text says; the first one, which has a word of its own, says it less.
    """
    text = embeddings(rng, rows, width)
    words = text[:, None] + 0.5 * rng.normal(size=(rows, 12, width)) / np.sqrt(width)
    own = 0.4 * rng.normal(size=(rows, width)) / np.sqrt(width)
    return unit(words.mean(axis=1)), unit(0.5 * text + 0.5 * embeddings(rng, 1, width) + own)


def spread(rows: np.ndarray) -> float:
    return float(np.sqrt(np.square(rows - rows.mean(axis=0)).sum(axis=1).mean()))


def noise(rng: np.random.Generator, rows: np.ndarray, size: float) -> np.ndarray:
    """Noise of so many spreads in every row."""
    drawn = rng.normal(size=rows.shape) / np.sqrt(rows.shape[1])
    return size * spread(rows) * drawn


def bfloat16(rows: np.ndarray) -> np.ndarray:
    bits = rows.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def int8_columns(rows: np.ndarray, *, codes: bool = False) -> np.ndarray:
    """A step for every column, over its range."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    step = np.where(high > low, (high - low) / 255, 1.0)
    found = np.round((rows - low) / step) - 128
    return found.astype(np.int8) if codes else (found + 128) * step + low


def int8_rows(rows: np.ndarray) -> np.ndarray:
    """A step for every row, by its largest number."""
    step = np.abs(rows).max(axis=1, keepdims=True) / 127
    return np.round(rows / step) * step


def rotation(rng: np.random.Generator, width: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(width, width)))[0]


def planted(x: np.ndarray, rng: np.random.Generator) -> dict[tuple[str, str], np.ndarray]:
    """New vectors by (cause, variant); `x` are the pinned ones."""
    n, d = x.shape
    as_before = unit if np.allclose(np.linalg.norm(x, axis=1), 1, atol=1e-2) else np.asarray
    lengths = rng.uniform(0.5, 2, size=(n, 1))
    some = rng.random(n) < 0.1
    few = np.zeros(n, dtype=bool)
    few[rng.choice(n, 3, replace=False)] = True
    mixed = x @ rotation(rng, d)
    constant = rng.normal(size=d) / np.sqrt(d)
    stretch = rotation(rng, d) * np.geomspace(1, 20, d) @ rotation(rng, d)
    return {
        ("same", ""): x.copy(),
        ("rounding", "float32"): x.astype(np.float32),
        ("rounding", "float16"): x.astype(np.float16),
        ("rounding", "bfloat16"): bfloat16(x),
        ("rounding", "sums"): x + noise(rng, x, 3e-6),
        ("quantised", "columns"): int8_columns(x),
        ("quantised", "codes"): int8_columns(x, codes=True),
        ("quantised", "rows"): int8_rows(x),
        ("noise", "1 %"): x + noise(rng, x, 0.01),
        ("noise", "5 %"): x + noise(rng, x, 0.05),
        ("noise", "30 %"): x + noise(rng, x, 0.3),
        ("normalisation", "lengths"): x * lengths,
        ("normalisation", "scale"): 2.5 * x,
        ("normalisation", "centred"): x - x.mean(axis=0),
        ("normalisation", "standardised"): (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9),
        ("prefix", "added"): as_before(x + 0.3 * spread(x) * constant + noise(rng, x, 0.2)),
        ("prefix", "long"): as_before(x + 0.6 * spread(x) * constant + noise(rng, x, 0.4)),
        ("rotation", ""): mixed,
        ("rotation", "and noise"): mixed + noise(rng, x, 0.05),
        ("rotation", "and scale"): 3 * mixed,
        ("row shift", "down"): np.concatenate([x[-7:], x[:-7]]),
        ("row shift", "one more"): np.concatenate([x[:1], x]),
        ("row shift", "from the middle"): np.concatenate([x[: n // 2], x[:1], x[n // 2 :]]),
        ("row permutation", ""): x[rng.permutation(n)],
        ("column permutation", ""): x[:, rng.permutation(d)],
        ("column permutation", "and signs"): x[:, ::-1] * rng.choice([-1, 1], d),
        ("linear map", ""): x @ stretch,
        ("another model", "unrelated"): embeddings(rng, n, d),
        ("another model", "related"): unit(np.tanh(3 * x @ rng.normal(size=(d, d)))),
        ("some rows", "10 %"): np.where(some[:, None], mixed, x),
        ("some rows", "three"): np.where(few[:, None], mixed, x.astype(np.float16)),
        ("some rows", "noise too"): np.where(some[:, None], mixed, x + noise(rng, x, 0.04)),
    }
