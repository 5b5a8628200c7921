"""What reizinger-weights trains: its data and its networks, and the released shuffle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import loadmat

from conftest import close
from identikit.errors import InputError
from identikit.studies import Data
from study_units import chorales

torch = pytest.importorskip("torch")

from identikit.studies import _weight_problems as problems  # noqa: E402
from identikit.studies._weight_problems import (  # noqa: E402
    JSB,
    Released,
    digits,
    keys_scored,
    read_chorales,
    windows,
)


def piece(*chords: list[int]) -> np.ndarray:
    frames = np.zeros((len(chords), 88))
    for row, keys in enumerate(chords):
        frames[row, keys] = 1
    return frames


PIECES = {
    "traindata": [piece([0], [1], [2], [3]), piece([5], [5], [5])],
    "validdata": [piece([1], [2], [3])],
    # Targets are the frames from the third on: {3}, {3, 4} and {7}, after {2}, {3} and {6, 7}.
    "testdata": [piece([1], [2], [3], [3, 4]), piece([9], [6, 7], [7])],
}


def test_chorales_by_hand(tmp_path: Path):
    """Silence misses 4 of 3 · 88 keys; the frame before misses 2 (2 for 3), 1 (4) and 1 (6)."""
    found = read_chorales(chorales(tmp_path / "JSB_Chorales.mat", PIECES))
    assert [len(found[name]) for name in ("train", "valid", "test")] == [2, 1, 2]
    x, y = (part.numpy() for part in windows(found["test"]))
    assert x.shape == (3, 2, 88)
    assert y.shape == (3, 88)
    close(x[1], piece([2], [3]), 0)
    close(y, piece([3], [3, 4], [7]), 0)
    nothing, before = (keys_scored(20 * (2.0 * on - 1), y) for on in (0 * y, x[:, -1]))
    close(nothing["accuracy"], 1 - 4 / 264, 1e-12)
    assert nothing["silence"] == nothing["accuracy"]
    assert nothing["f1"] == 0
    close(before["accuracy"], 1 - 4 / 264, 1e-12)
    # Two keys are right, two too many, two missed.
    close(before["f1"], 2 * 2 / (2 * 2 + 2 + 2), 1e-12)
    close(before["nll"], 4 * 20 / 264, 1e-6)


def test_the_real_chorales_if_they_are_there():
    """77 chorales, 4,571 targets; silence scores .9558 and the frame before .9436.

    A file of docs/chorales.py has other chorales in its test data. Over random splits of them,
    silence has a standard deviation of .0001 and the frame before one of .0009.
    """
    path = Data().find(JSB)
    if path is not None:
        pieces = read_chorales(path)["test"]
        x, y = (part.numpy() for part in windows(pieces))
        original = "source" not in loadmat(path, variable_names=["source"])
        if original:
            assert len(pieces) == 77
            assert y.shape == (4571, 88)
        close((y == 0).mean(), 0.9558, 5e-5 if original else 0.003)
        close((y == x[:, -1]).mean(), 0.9436, 5e-5 if original else 0.006)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(b"no such thing"), "is damaged or of another kind"),
        (lambda path: chorales(path, {"traindata": PIECES["traindata"]}), "damaged .*validdata"),
        (
            lambda path: chorales(path, PIECES | {"testdata": [np.zeros((4, 12))]}),
            r"the frames of testdata have the shapes \[\(12,\)\]; expected JSB Chorales",
        ),
    ],
)
def test_other_files_are_refused(tmp_path: Path, spoil: Callable[[Path], Any], message: str):
    path = tmp_path / "JSB_Chorales.mat"
    spoil(path)
    with pytest.raises(InputError, match=message):
        read_chorales(path)


def test_digits_are_split_once_and_for_all():
    (x, y), (test, labels) = digits()
    assert (x.shape, test.shape, len(y), len(labels)) == ((1200, 64), (597, 64), 1200, 597)
    assert float(x.max()) == 1.0
    again = digits()
    assert (again[1][0] == test).all()


def test_networks_have_the_sizes_of_the_paper():
    assert sum(t.numel() for t in problems.mlp().parameters()) == 65 * 48 + 49 * 16 + 17 * 10
    for side in (16, 32):
        net = problems.lenet(side)
        assert net.f(torch.zeros(2, 3, side, side)).shape == (2, 84)
        assert net.f[0][0].weight.shape == (6, 3, 5, 5)
    net = problems.recurrent()
    assert net.f(torch.zeros(2, 2, 88)).shape == (2, 88)
    # Other than in the authors' network, probabilities are not kept between .27 and .73.
    x, y = torch.zeros(4, 2, 88), torch.zeros(4, 88)
    with torch.no_grad():
        net.bias.fill_(-20.0)
        assert float(problems.keys_loss(net, x, y)) < 1e-6


def test_the_released_shuffle_is_a_loop_of_exchanged_views():
    """The loop itself, as NumPy's shuffle does it on a tensor, with the same j."""
    kick = Released(1.0, 1.0, None, None)
    distinct = []
    for seed in range(50):
        order = kick.order(10, torch.Generator().manual_seed(seed))
        assert (order <= torch.arange(10)).all()
        looped = torch.arange(10.0)
        for i in reversed(range(1, 10)):
            j = int(order[i])
            looped[i], looped[j] = looped[j], looped[i]
        assert torch.equal(looped, torch.arange(10.0)[order])
        distinct.append(len(looped.unique()))
    # The regression to guard against: numbers are lost.
    assert max(distinct) < 10
    assert min(distinct) <= 4
