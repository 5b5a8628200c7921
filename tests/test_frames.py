"""Data frames are paired by their indexes where these are ids, and by position where not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from identikit import audit
from identikit.errors import InputError
from identikit.sources import paired


@pytest.fixture
def arrays(rng):
    x = rng.normal(size=(300, 3))
    return x, x @ rng.normal(size=(3, 3))


LABELS = {
    "text": lambda n: [f"well {k}" for k in range(n)],
    "integers": lambda n: list(range(7, 7 + 3 * n, 3)),
    "dates": lambda n: pd.date_range("2020-01-01", periods=n),
    "tuples": lambda n: pd.MultiIndex.from_tuples([(k // 10, f"f{k % 10}") for k in range(n)]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_a_reordered_frame_is_put_in_the_order_of_the_first(arrays, rng, kind):
    x, y = arrays
    labels = LABELS[kind](300)
    first = pd.DataFrame(x, index=labels)
    other = pd.DataFrame(y, index=labels).iloc[rng.permutation(300)]
    expected = audit([x, y]).verdict
    found = audit([first, other])
    assert found.settings.pairing == (
        "paired by the index of the data frames: 300 rows matched by label; without a partner: none"
    )
    assert found.verdict.group == expected.group == "linear"
    assert found.verdict.error == pytest.approx(expected.error, abs=1e-9)


def test_rows_without_a_partner_are_left_out_and_counted(arrays, rng):
    x, y = arrays
    labels = np.array([f"w{k}" for k in range(300)])
    some = rng.permutation(300)[:280]
    first, other = pd.DataFrame(x, index=labels), pd.DataFrame(y[some], index=labels[some])
    found = audit([first, other, first * 2], groups=np.arange(300) // 2)
    assert found.rows == 280
    assert "20 of the 300 rows of 'view0'" in found.settings.pairing
    assert all(pair.within_tolerance for pair in found.comparisons)
    with paired([first, other]) as (_, _, matched):
        assert matched.pick(labels).tolist() == [w for w in labels if w in set(labels[some])]


def test_ids_that_are_given_go_before_the_index(arrays, rng):
    x, y = arrays
    order = rng.permutation(300)
    first, other = pd.DataFrame(x, index=order), pd.DataFrame(y[order], index=np.arange(300, 600))
    found = audit([first, other], ids=[np.arange(300), order])
    assert found.settings.pairing == "300 rows matched by id; without a partner: none"
    assert found.verdict.within_tolerance


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (None, "reversed"),  # a default index numbers rows, it does not name them
        ("reversed", None),
        ("same", "same"),
        ("same", "others"),
        ("twice", "same"),
        ("text", "same"),
    ],
)
def test_other_indexes_leave_rows_where_they_are(arrays, left, right):
    numbers = np.arange(5, 305)
    indexes = {
        None: None,
        "same": numbers,
        "reversed": np.arange(300)[::-1],
        "others": numbers + 1000,
        "twice": np.minimum(numbers, 303),
        "text": numbers.astype(str),
    }
    views = [pd.DataFrame(view, index=indexes[i]) for view, i in zip(arrays, (left, right))]
    with paired(views) as (same, _, matched):
        assert same is views
        assert matched is None
    assert audit(views).settings.pairing == "paired by position"


def test_a_frame_beside_an_array_goes_by_position(arrays):
    x, y = arrays
    found = audit([pd.DataFrame(x, index=np.arange(300)[::-1]), y])
    assert found.settings.pairing == "paired by position"
    assert found.verdict.within_tolerance


def test_few_common_labels_are_an_error_that_says_what_to_do(arrays):
    x, y = arrays
    views = [pd.DataFrame(x, index=np.arange(1, 301)), pd.DataFrame(y, index=np.arange(281, 581))]
    with pytest.raises(InputError, match=r"share only 20 labels of 300 \(281, 282, 283 among"):
        audit(views)
    found = audit([view.reset_index(drop=True) for view in views])
    assert found.verdict.within_tolerance
