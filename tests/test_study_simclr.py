"""The images of reizinger-aninfonce: their augmentations, and what is read off the networks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from conftest import close
from identikit.studies import Data, Settings
from identikit.studies import reizinger_aninfonce as study
from identikit.studies._simclr import (
    LOSSES,
    PARAMETERS,
    RIDGE,
    SMALLEST,
    augmented,
    linear_reading,
    probe,
)


def test_augmentations_do_what_their_parameters_say():
    torch = pytest.importorskip("torch")
    across = torch.linspace(-1 + 1 / 32, 1 - 1 / 32, 32).expand(200, 3, 32, 32)
    images = torch.stack([across[:, 0], across[:, 0].mT, across[:, 0] * 0], 1)
    views, drawn = augmented(images, 16, torch.Generator().manual_seed(0))
    size, x, y, flip, brightness, contrast = drawn.numpy().astype(float).T
    assert size.min() >= SMALLEST
    assert ((np.abs(x) <= 1 - size + 1e-6) & (np.abs(y) <= 1 - size + 1e-6)).all()
    assert set(flip) == {0, 1}
    # Channels hold the horizontal place, the vertical place and nothing, before the colours change.
    middle = views.numpy()[:, :, 7:9, 7:9].mean((2, 3))
    mean = views.numpy().mean((1, 2, 3)) - brightness
    before = (middle - brightness[:, None] - mean[:, None]) / (1 + contrast)[:, None]
    close(before + mean[:, None], np.column_stack([x, y, 0 * x]), 0.02)
    slope = views.numpy()[:, 0, 0, 10] - views.numpy()[:, 0, 0, 6]
    assert ((slope < 0) == (flip == 1)).all()


def test_a_linear_reading_is_ridge_regression(rng):
    x, y, new = rng.normal(size=(80, 5)), rng.normal(size=(80, 2)), rng.normal(size=(30, 5))
    x[:, 2] = 7 * x[:, 2] + 3
    mean, spread = x.mean(axis=0), x.std(axis=0)
    fit = Ridge(alpha=80 * RIDGE).fit((x - mean) / spread, y)
    close(linear_reading(x, y, new), fit.predict((new - mean) / spread), 1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_images_are_read_before_and_after(loss: str):
    pytest.importorskip("torch")
    tiny = Settings(study.SMOKE | {"images": 100, "probed": 80, "image_steps": 2})
    record = probe(loss, 1000, Data("digits"), tiny)
    rows = pd.DataFrame(record.rows)
    assert list(rows["trained"]) == [False, True]
    assert rows["classes"].between(0, 1).all()
    close(rows["augmentations"], rows[list(PARAMETERS)].mean(axis=1), 1e-9)
    learned = record.arrays["concentrations"]
    assert bool(np.ptp(learned) == 0) is (loss != "aninfonce")
