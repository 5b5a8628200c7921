"""The audit as a whole: its document, its checks on planted faults, its errors, real data."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import identikit as ik
from identikit.alignment import RUNGS
from identikit.auditing import Audit, Check, Pair, checks
from identikit.errors import InputError
from identikit.similarity import MEASURES

Array = NDArray[np.float64]


def clean(seed: int = 0, n: int = 2000, d: int = 4) -> tuple[Array, Array]:
    """A rotation, a shift and a tenth of noise: nothing to warn of."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    R, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return X, X @ R + rng.normal(size=d) + 0.1 * rng.normal(size=(n, d))


@pytest.fixture(scope="module")
def three() -> Audit:
    X, Y = clean()
    noisy = X + 0.5 * np.random.default_rng(1).normal(size=X.shape)
    return ik.audit([X, Y, noisy], names=["first", "second", "noisy"])


def only_pair(views: list[Any], **options: Any) -> Pair:
    (pair,) = ik.audit(views, **options).comparisons
    return pair


# The document.

KEYS = {
    "": {"identikit", "rows", "views", "pairs", "verdict"},
    "views": {"name", "dims", "rank", "effective_rank"},
    "pairs": {
        *("a", "b", "group", "error", "interval", "within_tolerance", "ladder", "cca", "cka"),
        "warnings",
    },
    "ladder": {"group", "error", "interval"},
    "cca": {"mean", "held_out", "chance", "adjusted_r2", "rank"},
    "cka": {"value", "debiased", "chance"},
    "verdict": {"group", "error", "interval", "within_tolerance"},
}


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_document_has_the_documented_keys(three: Audit) -> None:
    document = three.to_dict()
    assert document.keys() >= KEYS[""]
    assert document["identikit"] == ik.__version__
    assert document["rows"] == 2000
    assert all(view.keys() >= KEYS["views"] for view in document["views"])
    for pair in document["pairs"]:
        assert pair.keys() >= KEYS["pairs"]
        assert [rung["group"] for rung in pair["ladder"]] == list(RUNGS)
        assert all(rung.keys() >= KEYS["ladder"] for rung in pair["ladder"])
        assert pair["cca"].keys() >= KEYS["cca"]
        assert pair["cka"].keys() >= KEYS["cka"]
        for low, high in [pair["interval"], *(rung["interval"] for rung in pair["ladder"])]:
            assert 0 <= low <= high
        assert low <= pair["ladder"][-1]["error"] <= high
    assert document["verdict"].keys() >= KEYS["verdict"]


def test_json_is_strict_and_equal_to_the_dictionary(three: Audit) -> None:
    document = strict(three.to_json())
    assert document["verdict"]["interval"] == list(three.verdict.interval)
    assert document["pairs"][0]["ladder"][3]["error"] == three.comparisons[0].ladder[3].error
    assert document["pairs"][0]["a"] == "first"


def test_json_has_null_where_a_value_would_mean_nothing() -> None:
    rng = np.random.default_rng(0)
    audit = ik.audit([rng.normal(size=(20, 30)), rng.normal(size=(20, 25))])
    cca = strict(audit.to_json())["pairs"][0]["cca"]
    assert cca["mean"] is None
    assert cca["adjusted_r2"] is None
    assert isinstance(cca["held_out"], float)


def test_one_row_a_pair(three: Audit) -> None:
    table = three.pairs
    assert list(zip(table["a"], table["b"])) == [
        ("first", "second"),
        ("first", "noisy"),
        ("second", "noisy"),
    ]
    assert table["group"].tolist() == [pair.group for pair in three.comparisons]
    assert table["error_rigid"].tolist() == [pair.ladder[3].error for pair in three.comparisons]
    assert table["high"].tolist() == [pair.interval[1] for pair in three.comparisons]
    assert table["cca_mean"].tolist() == [pair.cca.mean for pair in three.comparisons]
    assert set(MEASURES) - {"cca"} <= set(table.columns)


def test_rungs_a_pair_does_not_have_are_missing_in_the_table() -> None:
    X, Y = clean()
    table = ik.audit([X, Y, X[:, :3]]).pairs
    assert table["error_identity"].isna().tolist() == [False, True, True]


def test_verdict_is_the_worst_pair(three: Audit) -> None:
    worst = max(three.comparisons, key=lambda pair: pair.error)
    verdict = three.verdict
    assert (verdict.a, verdict.b) == (worst.a, worst.b) == ("second", "noisy")
    assert (verdict.group, verdict.error) == (worst.group, worst.error)
    assert (verdict.interval, verdict.within_tolerance) == (worst.interval, False)
    assert [pair.group for pair in three.comparisons] == ["rigid", "identity", "rigid"]
    assert verdict.loosest == "rigid"


def test_loosest_group_may_belong_to_another_pair() -> None:
    X, _ = clean()
    noisy = X + 0.5 * np.random.default_rng(1).normal(size=X.shape)
    bent = X @ np.diag([1.0, 2.0, 3.0, 4.0]) @ np.linalg.qr(X[:4])[0]
    audit = ik.audit([X, noisy, bent])
    groups = [pair.group for pair in audit.comparisons]
    assert groups[:2] == ["identity", "linear"]
    assert audit.verdict.loosest == "linear"


def test_unrelated_is_never_within_tolerance() -> None:
    rng = np.random.default_rng(0)
    audit = ik.audit([rng.normal(size=(500, 3)) for _ in range(2)], tolerance=5.0)
    assert audit.verdict.group == "unrelated"
    assert not audit.verdict.within_tolerance


def test_tolerance_decides() -> None:
    X, Y = clean()
    error = ik.audit([X, Y]).verdict.error
    assert error == pytest.approx(0.1, abs=0.005)
    assert ik.audit([X, Y], tolerance=error).verdict.within_tolerance
    assert not ik.audit([X, Y], tolerance=error * 0.99).verdict.within_tolerance


def test_settings_say_how_it_was_made() -> None:
    X, Y = clean(n=1500)
    settings = ik.audit([X, Y], folds=6, tolerance=0.2, seed=3).to_dict()["settings"]
    expected = {"folds": 6, "tolerance": 0.2, "seed": 3, "dropped": 0, "sample": 1000}
    assert settings.items() >= expected.items()
    assert settings["fold_rule"] == "scattered blocks of rows"
    grouped = ik.audit([X, Y], groups=np.arange(1500) % 50).to_dict()["settings"]
    assert grouped["fold_rule"] == "whole groups of rows"


def test_effective_rank_counts_equal_axes() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    X = np.linalg.qr(X - X.mean(axis=0))[0]
    views = ik.audit([X, X[:, [0, 1, 2, 2, 2]]]).views
    assert (views[0].dims, views[0].rank) == (6, 6)
    assert views[0].effective_rank == pytest.approx(6)
    assert (views[1].dims, views[1].rank) == (5, 3)
    # Singular values 1, 1, √3.
    share = np.array([1, 1, np.sqrt(3)]) / (2 + np.sqrt(3))
    assert views[1].effective_rank == pytest.approx(np.exp(-(share * np.log(share)).sum()))


def test_spectrum_and_points_are_canonical(three: Audit) -> None:
    pair = three.comparisons[0]
    assert len(pair.correlations) == pair.cca.rank == 4
    assert pair.cca.mean == pytest.approx(pair.correlations.mean())
    assert pair.points.shape == (300, 2, 2)
    drawn = [np.corrcoef(pair.points[:, 0, axis], pair.points[:, 1, axis])[0, 1] for axis in (0, 1)]
    np.testing.assert_allclose(drawn, pair.correlations[:2], atol=0.01)
    np.testing.assert_allclose(pair.points.std(axis=0), 1, atol=0.15)


def test_names_are_told_apart() -> None:
    X, Y = clean()
    audit = ik.audit([X, Y, X], names=["run", "run", "run"])
    assert [view.name for view in audit.views] == ["run", "run (2)", "run (3)"]
    assert (audit.comparisons[-1].a, audit.comparisons[-1].b) == ("run (2)", "run (3)")


def test_same_seed_same_audit() -> None:
    X, Y = clean()
    first, again, other = (ik.audit([X, Y], seed=seed) for seed in (7, 7, 8))
    assert first.to_json() == again.to_json()
    np.testing.assert_array_equal(first.comparisons[0].points, again.comparisons[0].points)
    # The seed is that of the row sample and of the folds.
    both = [audit.comparisons[0].measures for audit in (first, other)]
    changed = {
        name
        for name, scored in both[0].items()
        if scored.value != pytest.approx(both[1][name].value, abs=1e-12)
    }
    assert changed == {name for name, measure in MEASURES.items() if measure.rows}
    for a, b in zip(first.comparisons[0].ladder, other.comparisons[0].ladder):
        assert a != b
        assert a.error == pytest.approx(b.error, rel=0.01)


def test_order_of_views_turns_the_ladder_round() -> None:
    X, Y = clean()
    one, two = only_pair([X, Y]), only_pair([Y, X])
    assert one.group == two.group
    for a, b in zip(one.ladder, two.ladder):
        assert (a.forward, a.backward) == pytest.approx((b.backward, b.forward), abs=1e-12)
        assert a.error == max(a.forward, a.backward)


def test_progress_is_told() -> None:
    X, Y = clean()
    told: list[tuple[str, int, int]] = []
    ik.audit([X, Y, X], progress=lambda *args: told.append(args))
    assert told[0][0] == "reading"
    assert ("reading", 2000, 2000) in told
    assert told[-1] == ("comparing", 3, 3)


# Files.


def test_save_writes_the_document(three: Audit, tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    path.write_text("old")
    three.save(path)
    assert strict(path.read_text()) == strict(three.to_json())
    assert list(tmp_path.iterdir()) == [path]


def test_report_is_one_page(three: Audit, tmp_path: Path) -> None:
    three.report(str(tmp_path / "audit.html"))
    page = (tmp_path / "audit.html").read_text()
    assert "<html" in page
    assert "noisy" in page
    assert [path.name for path in tmp_path.iterdir()] == ["audit.html"]


@pytest.mark.parametrize("method", ["save", "report"])
def test_files_are_written_whole_or_not_at_all(
    three: Audit, tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write: Callable[[Path], None] = getattr(three, method)
    with pytest.raises(InputError, match="is a directory; give the name of a file"):
        write(tmp_path)
    with pytest.raises(InputError, match=r"the directory .* does not exist"):
        write(tmp_path / "nowhere" / "audit")
    path = tmp_path / "audit"
    path.write_text("old")

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(InputError, match="No space left on device; what was there before is"):
        write(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# Errors.


def test_calls_that_make_no_sense_are_refused() -> None:
    X, Y = clean(n=100)
    with pytest.raises(InputError, match="an audit compares views: give at least two"):
        ik.audit([X])
    with pytest.raises(InputError, match="at least 5 folds for its intervals, not 4"):
        ik.audit([X, Y], folds=4)
    with pytest.raises(InputError, match="need at least 10 rows; the views have 9"):
        ik.audit([X[:9], Y[:9]])
    for tolerance in (-0.1, float("nan"), float("inf")):
        with pytest.raises(InputError, match=f"the tolerance is {tolerance}; give a finite number"):
            ik.audit([X, Y], tolerance=tolerance)
    with pytest.raises(InputError, match=r"'view0' has 100 rows and view 'view1' has 90"):
        ik.audit([X, Y[:90]])


def test_ten_rows_are_enough() -> None:
    X, Y = clean(n=10, d=2)
    assert ik.audit([X, Y]).rows == 10


def test_groups_must_fit() -> None:
    X, Y = clean(n=100)
    with pytest.raises(InputError, match=r"groups has shape \(99,\), but the views have 100 rows"):
        ik.audit([X, Y], groups=np.arange(99))
    with pytest.raises(InputError, match="there are 2 groups of rows, and leaving one"):
        ik.audit([X, Y], groups=np.arange(100) % 2)
    lonely = np.minimum(np.arange(100), 4)  # four folds of one row each
    with pytest.raises(InputError, match="a fold has only 1 rows left; give more rows"):
        ik.audit([X, Y], groups=lonely)


@pytest.mark.parametrize("constant", [0.0, 3.0, 0.1])
def test_a_constant_view_is_refused(constant: float) -> None:
    X, _ = clean(n=100)
    with pytest.raises(InputError, match="view 'flat' is constant: all its rows are the same"):
        ik.audit([X, np.full((100, 3), constant)], names=["x", "flat"])


def test_nan_is_refused_or_dropped() -> None:
    X, Y = clean(n=100)
    X[7, 1] = np.nan
    Y[[7, 50], 0] = np.inf
    with pytest.raises(InputError, match=r"'view0' has NaN or infinity in 1 of 100 .*row 7"):
        ik.audit([X, Y])
    audit = ik.audit([X, Y], drop_nonfinite=True)
    keep = np.setdiff1d(np.arange(100), [7, 50])
    assert (audit.rows, audit.settings.dropped) == (98, 2)
    exact = ik.cca(ik.accumulate([X[keep], Y[keep]])).mean
    assert audit.comparisons[0].cca.mean == pytest.approx(exact, abs=1e-12)


# Checks: each fires on a planted fault, and none on clean data.

Planted = tuple[list[Any], dict[str, Any]]


def duplicated_column() -> Planted:
    X, Y = clean()
    return [np.column_stack([X, X[:, 0]]), np.column_stack([Y, Y[:, 1]])], {}


def spectrum_into_the_rounding() -> Planted:
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.normal(size=(20, 20)))
    X = (rng.normal(size=(2000, 20)) * np.logspace(0, -6, 20) @ Q).astype(np.float32)
    return [X, X[:, ::-1]], {}


def more_columns_than_rows() -> Planted:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 40))
    return [X, X + 0.1 * rng.normal(size=X.shape)], {}


def few_rows() -> Planted:
    return list(clean(n=100, d=20)), {}


def one_large_column() -> Planted:
    X, Y = clean()
    return [X * [10, 1, 1, 1], Y], {}


def one_large_row() -> Planted:
    X, Y = clean()
    X[1000] *= 1000
    return [X, Y], {}


def every_row_twice() -> Planted:
    half = np.random.default_rng(7).permutation(2000) // 2
    return [view[half] for view in clean()], {}


def far_mean() -> Planted:
    X, _ = clean()
    A = np.array([[1.0, 2, 0, 0], [0, 1, 2, 0], [1, 0, 1, 1], [0, 1, 0, 2]])
    return [X + 100, (X + 100) @ A + 1], {}


def unequal_widths() -> Planted:
    X, Y = clean()
    return [X, np.column_stack([Y, Y[:, :2] * 1.0 + 0.1 * X[:, :2] ** 2])], {}


def sorted_rows() -> Planted:
    X, Y = clean()
    order = np.argsort(X[:, 0])
    return [X[order], Y[order]], {}


def a_part_of_the_other() -> Planted:
    X, _ = clean()
    rng = np.random.default_rng(5)
    lost = X.copy()
    lost[:, :2] = 0.1 * rng.normal(size=(2000, 2))
    return [X, lost], {}


def rows_with_nan() -> Planted:
    X, Y = clean()
    X[3, 0] = np.nan
    return [X, Y], {"drop_nonfinite": True}


def three_donors() -> Planted:
    return list(clean()), {"groups": np.arange(len(clean()[0])) % 3}


def one_row_late() -> Planted:
    X, Y = clean()
    return [X[1:], Y[:-1]], {}


def gaussian_views() -> Planted:
    X = np.random.default_rng(0).normal(size=(2000, 4))
    return [X, X @ [[0.6, 0.8, 0, 0], [-0.8, 0.6, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]], {"ica": True}


def too_few_rows_for_ica() -> Planted:
    X = np.random.default_rng(0).laplace(size=(600, 40))
    return [X, X[:, ::-1]], {"ica": True}


def rows_reordered() -> Planted:
    X, Y = clean()
    order = np.random.default_rng(1).permutation(600)
    return [X[:600], Y[:600][order]], {}


def rows_for_columns() -> Planted:
    X = np.random.default_rng(0).normal(size=(12, 60))
    return [X, X[:, ::-1]], {}


def noise_beside_a_steep_spectrum() -> Planted:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20)) / np.arange(1, 21) ** 1.5
    return [X, X + 0.6 * np.sqrt(np.square(X).mean()) * rng.normal(size=X.shape)], {}


PLANTED: dict[str, tuple[Callable[[], Planted], set[str], str]] = {
    "row shift": (one_row_late, set(), r"row t \+ 1 of view .* far better than row t .*--id"),
    "rank": (duplicated_column, set(), "rank 4 of 5.*constant, duplicated or linearly"),
    "rank gap": (spectrum_into_the_rounding, {"rank"}, "no clear gap between directions"),
    "saturation": (
        more_columns_than_rows,
        {"rank", "chance"},
        "30 rows, and 29 linearly independent columns",
    ),
    "chance": (few_rows, set(), "100 rows are few for 20 and 20 dim.*at least 1000 rows"),
    "dominant column": (one_large_column, {"asymmetry"}, "column 0 of view 'view0' holds 9"),
    "outlier rows": (
        one_large_row,
        {"asymmetry", "dominant column", "influence"},
        "outlier rows dominate the scatter of view",
    ),
    "influence": (
        one_large_row,
        {"asymmetry", "dominant column", "outlier rows"},
        "the verdict is decided by 1 row .number 1000, counting from 0.: without it the error is",
    ),
    "duplicate rows": (
        every_row_twice,
        {"row shift"},
        "only 1000 of 2000 rows are distinct.*--groups duplicates",
    ),
    "origin": (far_mean, set(), "linear and affine cannot be distinguished here"),
    "widths": (unequal_widths, set(), "6 and 4 columns: identity, permutation and monomial make"),
    "dependent rows": (sorted_rows, set(), r"depend on those nearby \(sorted, drifting.*--groups"),
    "asymmetry": (a_part_of_the_other, set(), "view 'view0' predicts 'view1' with an error of"),
    "ica axes": (gaussian_views, set(), "0 of 4 axes of view 'view0' and .* Gaussian, tied or"),
    "ica variance": (
        too_few_rows_for_ica,
        {"ica axes", "chance"},
        "17 components of view .*cannot be below",
    ),
    "few groups": (three_donors, set(), "3 folds of whole groups.*2 degrees of freedom"),
    "dropped rows": (rows_with_nan, set(), "1 rows with NaN or infinity were left out"),
    "noise": (
        noise_beside_a_steep_spectrum,
        {"asymmetry", "dominant column"},
        "identity explains all that .* does if noise is allowed for.*is the better one",
    ),
    "reordered": (rows_reordered, set(), "may be in another order; pair them by id with --id"),
    "transposed": (
        rows_for_columns,
        {"saturation", "chance"},
        r"fewer rows \(12\) than columns \(60\): are the views transposed",
    ),
}


def fired(pair: Pair) -> dict[str, Check]:
    return {check.name: check for check in pair.checks if not check.ok}


def test_every_check_has_a_planted_fault() -> None:
    files = {module.name for module in pkgutil.iter_modules(checks.__path__)}
    assert files == {name.replace(" ", "_") for name in PLANTED}


@pytest.mark.filterwarnings("ignore:there are fewer rows")
@pytest.mark.parametrize("name", PLANTED)
def test_check_fires_on_its_fault(name: str) -> None:
    plant, may_fire, message = PLANTED[name]
    views, options = plant()
    pair = only_pair(views, **options)
    found = fired(pair)
    assert name in found
    assert set(found) - {name} <= may_fire
    check = found[name]
    assert check.question.endswith("?")
    assert check.message.endswith(".")
    assert re.search(message, check.message)
    assert check.message in pair.warnings
    assert check.value is not None


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("d", [2, 4, 20])
def test_clean_data_raises_no_warning(d: int, seed: int) -> None:
    pair = only_pair(list(clean(seed, d=d)))
    assert pair.warnings == []
    asked = {check.name for check in pair.checks}
    assert asked >= {"rank", "saturation", "chance", "outlier rows", "widths", "dependent rows"}
    # Questions that do not arise are not asked.
    assert asked.isdisjoint({"rank gap", "origin"})
    assert ("dominant column" in asked) == (d > 2)


def test_linear_about_the_origin_is_clear() -> None:
    (X, Y), _ = far_mean()
    X = X - 100
    pair = only_pair([X, X @ np.linalg.lstsq(X, Y - Y.mean(axis=0), rcond=None)[0]])
    assert pair.group == "linear"
    assert {check.name: check.ok for check in pair.checks}["origin"]


def test_rank_says_when_rows_are_too_few() -> None:
    pair = only_pair(more_columns_than_rows()[0])
    assert "rank 29 of 40: there are too few rows for more" in fired(pair)["rank"].message.replace(
        " and view 'view1' has rank 29 of 40", ""
    )


def test_a_clear_gap_is_no_rank_gap() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 6)).astype(np.float32)
    X[:, 5] = X[:, 4] * (1 + 1e-7 * rng.normal(size=2000))  # rounding, far from what counts
    found = fired(only_pair([X, X[:, ::-1]]))
    assert set(found) == {"rank"}


def test_grouped_rows_get_other_advice() -> None:
    X, Y = clean()
    labels = np.arange(2000) // 200
    level = 3 * np.random.default_rng(0).normal(size=(10, 4))[labels]
    check = fired(only_pair([X + level, Y + level], groups=labels))["dependent rows"]
    assert "the groups themselves differ, so intervals are only approximate" in check.message


# Real data.


def test_two_trainings_on_mnist(data_dir: Path) -> None:
    """Logits of two trainings, units × items in the file, and items sorted by class.

    In shuffled order the models share a linear map with half of the spread unexplained, though a
    mean CCA of 0.71 is far above its chance level of 0.03. In the file's order the verdict is the
    same, and the audit says that the rows are dependent: classes that are left out as a whole are
    not predicted.
    """
    with np.load(data_dir / "svcca_two_seeds.npz", allow_pickle=False) as file:
        logits = [file[f"MNIST_model{seed}"].T for seed in (0, 1)]
    order = np.random.default_rng(0).permutation(10000)
    pair = only_pair([view[order] for view in logits])
    assert pair.group in ("linear", "affine")
    assert 0.48 < pair.error < 0.58
    assert not pair.within_tolerance
    assert pair.cca.mean == pytest.approx(0.706, abs=0.001)
    assert pair.cca.held_out == pytest.approx(pair.cca.mean, abs=0.01)
    assert pair.cca.chance < 0.03
    assert pair.warnings == []
    by_class = only_pair(logits)
    assert set(fired(by_class)) == {"dependent rows"}
    assert by_class.group == pair.group
    assert by_class.error == pytest.approx(pair.error, abs=0.01)
    assert by_class.blocked.error > 0.9


def test_two_trainings_on_svhn(data_dir: Path) -> None:
    """A layer of 200 units on 1000 items: in-sample CCA hardly above chance, CKA well above."""
    with np.load(data_dir / "svcca_two_seeds.npz", allow_pickle=False) as file:
        pair = only_pair([file["SVHN_model0"], file["SVHN_model1"]])
    assert pair.group in ("linear", "affine")
    rung = next(rung for rung in pair.ladder if rung.group == pair.group)
    assert 0.6 < pair.error < 0.65 < rung.without_ridge  # five rows a column: the ridge helps
    assert pair.cca.held_out < pair.cca.chance < pair.cca.mean < 0.6
    assert 0.8 < pair.cka.debiased < pair.cka.value < 0.9
    assert "chance" in fired(pair)


@pytest.mark.slow
def test_quantised_embeddings_are_the_same(data_dir: Path) -> None:
    """MiniLM and its int8 twin: the same, at an error of 3.5 %; a fine-tuned successor is not."""
    path = data_dir / "embedding_versions" / "gutenberg.npz"
    names = ["minilm_l6_v2", "minilm_l6_int8", "sre_finetuned"]
    with np.load(path, allow_pickle=False) as file:
        labels = file["label"]
    audit = ik.audit([f"{path}::{name}" for name in names], names=names, groups=labels)
    twin, successor, _ = audit.comparisons
    assert (twin.group, twin.within_tolerance) == ("identity", True)
    assert 0.02 < twin.error < 0.05
    assert twin.cka.value > 0.999
    assert successor.group in ("linear", "affine")
    assert not successor.within_tolerance
    assert 0.35 < successor.error < 0.55
    assert successor.ladder[0].error > 1
    assert audit.verdict.error == max(pair.error for pair in audit.comparisons)


def test_two_releases_of_a_pipeline(data_dir: Path) -> None:
    """spaCy's token vectors of 3.6 and 3.8: retrained, so a linear map with a large error."""
    path = data_dir / "embedding_versions" / "spacy_en_core_web_sm_36_vs_38.npz"
    pair = only_pair([f"{path}::v36", f"{path}::v38"])
    assert pair.group == "linear"
    assert 0.5 < pair.error < 0.65
    assert pair.ladder[0].error > 1
    assert pair.cka.value > 0.8  # CKA alone would have called them much alike
    assert pair.cca.mean == pytest.approx(0.54, abs=0.02)
