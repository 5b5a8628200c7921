"""The ladder of groups: optimal fits, held-out errors from rows, and fitted maps."""

from __future__ import annotations

import json
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file
from scipy.linalg import orthogonal_procrustes
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import identikit as ik
from identikit.alignment import RUNGS, AlignmentMap, HeldOut, join, ladder, load_map
from identikit.alignment._map_file import _digest
from identikit.errors import InputError
from identikit.moments import assign_folds

Array = NDArray[np.float64]
EQUAL_WIDTHS = ("identity", "permutation", "monomial")

every_group = pytest.mark.parametrize("group", RUNGS)
# Those whose maps are planted and fitted here once more, with SciPy.
KNOWN = ("identity", "permutation", "monomial", "rigid", "similarity", "linear", "affine")
every_known_group = pytest.mark.parametrize("group", KNOWN)


def pair(seed: int = 0, n: int = 300, p: int = 4, q: int = 4) -> tuple[Array, Array]:
    """Correlated columns of unequal spread, noise, means away from zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + rng.normal(size=p)
    return X, X @ rng.normal(size=(p, q)) + rng.normal(size=(n, q)) + rng.normal(size=q)


def centred(X: Array) -> Array:
    return X - X.mean(axis=0)


def sse(residual: Array) -> float:
    return float((residual**2).sum())


def fit_rows(group: str, X: Array, Y: Array) -> tuple[Array, Array]:
    """The best map of a group, computed from rows with SciPy."""
    p, q = X.shape[1], Y.shape[1]
    if group in ("rigid", "similarity") and p != q:
        width = max(p, q)
        X, Y = (np.pad(view, ((0, 0), (0, width - view.shape[1]))) for view in (X, Y))
    A, B = centred(X), centred(Y)
    if group == "identity":
        return np.eye(p), np.zeros(q)
    if group == "linear":
        return np.linalg.lstsq(X, Y, rcond=None)[0], np.zeros(q)
    if group == "affine":
        W = np.linalg.lstsq(A, B, rcond=None)[0]
    elif group in ("rigid", "similarity"):
        W, scale = orthogonal_procrustes(A, B)
        W = W[:, :q]  # what the map returns: the target's own columns
        W = W * (scale / sse(A @ W)) if group == "similarity" else W
    else:
        cross = A.T @ B
        slopes = cross / (A**2).sum(axis=0)[:, None] if group == "monomial" else np.sign(cross)
        rows, columns = linear_sum_assignment(-cross * slopes)
        W = np.zeros((p, q))
        W[rows, columns] = slopes[rows, columns]
    W = W[:p]
    return W, Y.mean(axis=0)[:q] - X.mean(axis=0)[:p] @ W


def held_out_rows(group: str, X: Array, Y: Array, fold_of_row: Array) -> float:
    """The error by its definition: fit on the other folds' rows, score on the fold's."""
    residual = total = 0.0
    for fold in np.unique(fold_of_row):
        test = fold_of_row == fold
        total += sse(Y[test] - Y[~test].mean(axis=0))
        W, b = fit_rows(group, X[~test], Y[~test])
        predicted = X[test] @ W + b
        residual += sse(Y[test] - predicted)
    return float(np.sqrt(residual / total))


# Every fit is optimal.


def test_linear_and_affine_residuals_are_orthogonal_to_the_regressors() -> None:
    X, Y = pair()
    residual = Y - ik.align(X, Y, group="linear").transform(X)
    np.testing.assert_allclose(X.T @ residual, 0, atol=1e-8)
    assert np.abs(residual.sum(axis=0)).max() > 1  # no shift: the mean is not explained
    residual = Y - ik.align(X, Y, group="affine").transform(X)
    np.testing.assert_allclose(X.T @ residual, 0, atol=1e-8)
    np.testing.assert_allclose(residual.sum(axis=0), 0, atol=1e-8)


def test_rigid_is_a_rotation_with_a_symmetric_positive_product() -> None:
    X, Y = pair()
    R = ik.align(X, Y, group="rigid").weights_
    np.testing.assert_allclose(R.T @ R, np.eye(4), atol=1e-12)
    product_ = (centred(X).T @ centred(Y)).T @ R
    np.testing.assert_allclose(product_, product_.T, atol=1e-8)
    assert np.linalg.eigvalsh(product_).min() > 0


def test_similarity_scale_is_stationary() -> None:
    X, Y = pair()
    t = ik.align(X, Y, group="similarity")
    gram = t.weights_.T @ t.weights_
    np.testing.assert_allclose(gram, np.eye(4) * gram[0, 0], atol=1e-12)
    fitted = centred(t.transform(X))
    assert np.vdot(fitted, centred(Y) - fitted) == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_permutation_beats_every_other(seed: int) -> None:
    X, Y = pair(seed)
    t = ik.align(X, Y, group="permutation")
    np.testing.assert_array_equal(np.abs(t.weights_).sum(axis=0), 1)
    np.testing.assert_array_equal(np.abs(t.weights_).sum(axis=1), 1)
    others = [
        sse(centred(Y) - centred(X)[:, order] * signs)
        for order in map(list, permutations(range(4)))
        for signs in product([1, -1], repeat=4)
    ]
    assert sse(Y - t.transform(X)) == pytest.approx(min(others), rel=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_monomial_beats_every_other(seed: int) -> None:
    X, Y = pair(seed)
    A, B = centred(X), centred(Y)
    others = []
    for order in map(list, permutations(range(4))):
        scales = (A[:, order] * B).sum(axis=0) / (A[:, order] ** 2).sum(axis=0)
        others.append(sse(B - A[:, order] * scales))
    t = ik.align(X, Y, group="monomial")
    assert np.count_nonzero(t.weights_) == 4
    assert sse(Y - t.transform(X)) == pytest.approx(min(others), rel=1e-10)


@every_group
@pytest.mark.parametrize("seed", range(3))
def test_looser_groups_fit_better_in_sample(group: str, seed: int) -> None:
    """RMS errors nest wherever one group contains another."""
    X, Y = pair(seed)
    own = sse(Y - ik.align(X, Y, group=group).transform(X))
    for looser in RUNGS[group].looser:
        assert own > sse(Y - ik.align(X, Y, group=looser).transform(X))


@every_known_group
def test_fitted_map_is_the_one_from_rows(group: str) -> None:
    X, Y = pair(3)
    t = ik.align(X, Y, group=group)
    W, b = fit_rows(group, X, Y)
    np.testing.assert_allclose(t.weights_, W, atol=1e-9)
    np.testing.assert_allclose(t.shift_, b, atol=1e-9)


# Held-out errors.


@every_known_group
@pytest.mark.parametrize("grouped", [False, True])
def test_held_out_error_from_rows(group: str, grouped: bool) -> None:
    X, Y = pair(4, n=203)
    labels = np.random.default_rng(0).integers(0, 5, size=203) if grouped else None
    # Five labels and five folds: a fold is a label.
    fold_of_row = assign_folds(203, 5).of() if labels is None else labels
    moments = ik.accumulate([X, Y], groups=labels, sample=0)
    forward, backward = ladder(moments, 0, 1)[group]
    assert forward.error == pytest.approx(held_out_rows(group, X, Y, fold_of_row), abs=1e-8)
    assert backward.error == pytest.approx(held_out_rows(group, Y, X, fold_of_row), abs=1e-8)
    assert ik.align(X, Y, group=group, groups=labels).held_out == pytest.approx(
        forward.error, abs=1e-12
    )


@pytest.mark.parametrize(("p", "q"), [(3, 6), (6, 3)])
def test_unequal_widths(p: int, q: int) -> None:
    X, Y = pair(5, p=p, q=q)
    fold_of_row = assign_folds(300, 5).of()
    rungs = ladder(ik.accumulate([X, Y], sample=0))
    assert list(rungs) == ["rigid", "similarity", "linear", "affine"]
    for group, (forward, backward) in rungs.items():
        assert forward.error == pytest.approx(held_out_rows(group, X, Y, fold_of_row), abs=1e-8)
        assert backward.error == pytest.approx(held_out_rows(group, Y, X, fold_of_row), abs=1e-8)
        t = ik.align(X, Y, group=group)
        W, b = fit_rows(group, X, Y)
        np.testing.assert_allclose(t.transform(X), X @ W + b, atol=1e-8)


def test_folds_add_up() -> None:
    X, Y = pair(6)
    forward, _ = ladder(ik.accumulate([X, Y], folds=7, sample=0), names=("affine",))["affine"]
    assert len(forward.residual) == len(forward.total) == 7
    first = assign_folds(300, 7).of() == 0
    assert forward.total[0] == pytest.approx(sse(Y[first] - Y[~first].mean(axis=0)))
    left_out = HeldOut(forward.residual[1:], forward.total[1:]).error
    assert forward.leave_one_out()[0] == pytest.approx(left_out)


def test_only_the_groups_asked_for() -> None:
    moments = ik.accumulate(pair(), sample=0)
    assert list(ladder(moments, names=("affine", "rigid"))) == ["rigid", "affine"]
    with pytest.raises(
        InputError, match=r"no rung 'unitary'; the rungs are identity, .*permutation"
    ):
        ladder(moments, names=("unitary",))


def test_ladder_needs_two_folds_and_something_to_explain() -> None:
    X, Y = pair()
    with pytest.raises(InputError, match="at least two folds with rows"):
        ladder(ik.accumulate([X, Y], folds=1, sample=0))
    for constant in (0.0, 0.1):  # the mean of 0.1 has to be rounded
        level = np.full_like(Y, constant)
        for views in ([X, level], [level, X]):
            with pytest.raises(InputError, match="is constant: all its rows are the same"):
                ladder(ik.accumulate(views, sample=0))


def test_a_constant_column_is_a_linear_map_s_shift() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(400, 3)), np.full(400, 2.0)])
    Y = X[:, :3] @ rng.normal(size=(3, 3)) + [3.0, -4.0, 5.0]
    rungs = ladder(ik.accumulate([X, Y], sample=0))
    assert rungs["linear"][0].error < 1e-6
    t = ik.align(X, Y, group="linear")
    np.testing.assert_array_equal(t.shift_, 0)
    np.testing.assert_allclose(t.transform(X), Y, atol=1e-8)
    without = ladder(ik.accumulate([X[:, :3], Y], sample=0))
    assert without["linear"][0].error > 0.5


@pytest.mark.parametrize("condition", [1e4, 1e6, 1e8])
def test_ill_conditioned_source_keeps_the_affine_error(condition: float) -> None:
    """A linear recoding of the source does not change what it explains, however ill-conditioned."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2000, 6))
    Y = Z + 0.1 * rng.normal(size=Z.shape)
    Q, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    X = Z * np.logspace(0, -np.log10(condition), 6) @ Q
    expected = held_out_rows("affine", Z, Y, assign_folds(2000, 5).of())
    forward, _ = ladder(ik.accumulate([X, Y], sample=0), names=("affine",))["affine"]
    assert expected == pytest.approx(0.1, abs=0.005)
    assert forward.error == pytest.approx(expected, abs=1e-6)
    assert sse(Y - ik.align(X, Y).transform(X)) == pytest.approx(
        sse(centred(Y) - centred(Z) @ np.linalg.lstsq(centred(Z), centred(Y), rcond=None)[0]),
        rel=1e-5,
    )


# Fitted maps.


def planted(group: str, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(100, 3)) * [1.0, 2.0, 3.0] + 1
    P = np.eye(3)[[2, 0, 1]] * [1.0, -1.0, 1.0]
    R, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    A, b = rng.normal(size=(3, 3)) + 2 * np.eye(3), np.array([1.0, -2.0, 4.0])
    Y = {
        "identity": X,
        "permutation": X @ P + b,
        "monomial": X @ P * [0.5, 2.0, 3.0] + b,
        "rigid": X @ R + b,
        "similarity": 0.7 * X @ R + b,
        "linear": X @ A,
        "affine": X @ A + b,
    }[group]
    return X, Y


@every_known_group
def test_transform_and_back(group: str) -> None:
    X, Y = planted(group)
    t = ik.align(X, Y, group=group, names=["old", "new"])
    assert isinstance(t, AlignmentMap)
    assert t.group == group
    assert t.error < 1e-7
    assert (t.source_, t.target_, t.n_features_in_) == ("old", "new", 3)
    np.testing.assert_allclose(t.transform(X), Y, atol=1e-9)
    np.testing.assert_allclose(t.inverse_transform(Y), X, atol=1e-9)
    np.testing.assert_allclose(t.inverse_transform(t.transform(X[:1])), X[:1], atol=1e-9)


def test_inverse_between_unequal_widths_has_least_norm() -> None:
    X, Y = pair(p=5, q=3)
    t = ik.align(X, Y)
    back = t.inverse_transform(Y)
    np.testing.assert_allclose(t.transform(back), Y, atol=1e-8)
    assert back.shape == X.shape


@every_known_group
def test_save_and_load(group: str, tmp_path: Path) -> None:
    X, Y = planted(group)
    t = ik.align(X, Y, group=group, names=["old", "new"])
    t.save(tmp_path / "map.safetensors")
    again = load_map(tmp_path / "map.safetensors")
    np.testing.assert_array_equal(again.weights_, t.weights_)
    np.testing.assert_array_equal(again.shift_, t.shift_)
    assert (again.group, again.error) == (group, t.error)
    assert (again.source_, again.target_, again.n_features_in_) == ("old", "new", 3)
    np.testing.assert_array_equal(again.transform(X), t.transform(X))
    assert [path.name for path in tmp_path.iterdir()] == ["map.safetensors"]


def test_save_overwrites_unless_told_not_to(tmp_path: Path) -> None:
    path = tmp_path / "map.safetensors"
    ik.align(*planted("rigid"), group="rigid").save(path)
    ik.align(*planted("affine"), group="affine").save(str(path))
    before = path.read_bytes()
    assert load_map(path).group == "affine"
    with pytest.raises(InputError, match="exists already"):
        ik.align(*planted("rigid"), group="rigid").save(path, overwrite=False)
    assert path.read_bytes() == before


JOINS = {
    ("identity", "identity"): "identity",
    ("identity", "linear"): "linear",
    ("permutation", "permutation"): "permutation",
    ("permutation", "monomial"): "monomial",
    ("permutation", "rigid"): "rigid",
    ("permutation", "similarity"): "similarity",
    ("permutation", "linear"): "affine",
    ("monomial", "rigid"): "affine",
    ("monomial", "similarity"): "affine",
    ("monomial", "linear"): "affine",
    ("rigid", "rigid"): "rigid",
    ("rigid", "similarity"): "similarity",
    ("linear", "rigid"): "affine",
    ("linear", "linear"): "linear",
    ("linear", "affine"): "affine",
}


@pytest.mark.parametrize(("first", "second"), JOINS)
def test_join_table(first: str, second: str) -> None:
    assert join(first, second) == join(second, first) == JOINS[first, second]


@pytest.mark.parametrize("first", KNOWN)
@pytest.mark.parametrize("second", KNOWN)
def test_composed_maps_belong_to_the_group_they_claim(first: str, second: str) -> None:
    X, Y = planted(first, 1)
    Z = planted(second, 2)[1]
    s = ik.align(X, Y, group=first, names=["x", "y"])
    t = ik.align(planted(second, 2)[0], Z, group=second, names=["y", "z"])
    both = s.compose(t)
    np.testing.assert_allclose(both.transform(X), t.transform(s.transform(X)), atol=1e-9)
    assert (both.source_, both.target_, both.error) == ("x", "z", None)
    # The best map of that group onto the composition's own images leaves nothing.
    assert ik.align(X, both.transform(X), group=both.group).error < 1e-6


def test_composed_map_is_saved_without_an_error(tmp_path: Path) -> None:
    t = ik.align(*planted("rigid"), group="rigid")
    t.compose(t).save(tmp_path / "twice")
    assert load_map(tmp_path / "twice").error is None


def test_compose_needs_maps_that_follow_each_other() -> None:
    narrow = ik.align(*pair(p=4, q=3), names=["a", "b"])
    wide = ik.align(*pair(p=4, q=4), names=["c", "d"])
    with pytest.raises(InputError, match="'b' with 3 columns, the second starts from 'c' with 4"):
        narrow.compose(wide)


def test_wrong_width_is_refused() -> None:
    t = ik.align(*pair(p=4, q=3), names=["old", "new"])
    with pytest.raises(InputError, match=r"X has 3 features, .* expecting 4 .* those of 'old'"):
        t.transform(np.zeros((2, 3)))
    with pytest.raises(InputError, match=r"rows of 'new' with 3 columns, .* shape \(3,\)"):
        t.inverse_transform(np.zeros(3))


def test_unfitted_maps_say_so(tmp_path: Path) -> None:
    empty, fitted = AlignmentMap(group="rigid"), ik.align(*planted("rigid"), group="rigid")
    calls = (
        lambda: empty.transform(np.zeros((1, 3))),
        lambda: empty.inverse_transform(np.zeros((1, 3))),
        lambda: empty.save(tmp_path / "map"),
        lambda: empty.compose(fitted),
        lambda: fitted.compose(empty),
    )
    for call in calls:
        with pytest.raises(NotFittedError, match=r"call fit\(X, Y\) first"):
            call()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("group", EQUAL_WIDTHS)
def test_equal_width_groups_refuse_unequal_widths(group: str) -> None:
    X, Y = pair(p=4, q=3)
    message = (
        f"rung '{group}' needs views of the same width, but 'old' has 4 columns and 'new' has 3; "
        "possible here: rigid, similarity, linear, affine"
    )
    with pytest.raises(InputError, match=message):
        ik.align(X, Y, group=group, names=["old", "new"])


def test_unknown_group_is_refused() -> None:
    with pytest.raises(InputError, match="there is no rung 'unitary'; the rungs are identity"):
        ik.align(*pair(), group="unitary")


def test_files_that_are_no_maps_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "map.safetensors"
    with pytest.raises(InputError, match="there is no file"):
        load_map(path)
    with pytest.raises(InputError, match="there is no file"):
        load_map(tmp_path)
    for garbage in (b"", b"garbage", bytes(100), b"\xff" * 64):
        path.write_bytes(garbage)
        with pytest.raises(InputError, match="not a readable safetensors file"):
            load_map(path)
    ik.align(*planted("rigid"), group="rigid").save(path)
    whole = path.read_bytes()
    for length in (4, 40, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="not a readable safetensors file"):
            load_map(path)
    save_file({"weights": np.eye(2), "shift": np.zeros(2)}, path)
    with pytest.raises(InputError, match="not a map written by this version of identikit"):
        load_map(path)


def write_map(path: Path, header: object, **arrays: Array) -> None:
    text = json.dumps(header)
    digest = _digest(text, arrays) if len(arrays) == 2 else ""
    save_file(arrays, path, metadata={"identikit": text, "digest": digest})


HEADER = {
    "format": "identikit-map-2",
    "group": "rigid",
    "error": 0.1,
    "interval": None,
    "held_out": None,
    "ridge": None,
    "source": {"name": "a", "width": 2, "columns": None},
    "target": {"name": "b", "width": 2, "columns": None},
}


def test_damaged_maps_are_refused(tmp_path: Path) -> None:
    path, good = tmp_path / "map", {"weights": np.eye(2), "shift": np.zeros(2)}
    write_map(path, HEADER, **good)
    assert load_map(path).group == "rigid"
    write_map(path, HEADER | {"format": "identikit-map-1"}, **good)
    with pytest.raises(InputError, match="says 'identikit-map-1', expected 'identikit-map-2'"):
        load_map(path)
    write_map(path, HEADER, weights=np.eye(2))
    with pytest.raises(InputError, match="not a map written by this version"):
        load_map(path)
    damaged = (
        (HEADER | {"group": "unitary"}, good),
        (HEADER, good | {"shift": np.zeros(3)}),
        (HEADER, good | {"weights": np.zeros(2)}),
        (HEADER | {"source": {"name": "a", "width": 3, "columns": None}}, good),
        (HEADER | {"interval": [0.1]}, good),
        (HEADER, good | {"weights": np.array([[1.0, np.nan], [0.0, 1.0]])}),
        (HEADER, good | {"shift": np.array([0.0, np.inf])}),
    )
    for header, arrays in damaged:
        write_map(path, header, **arrays)
        with pytest.raises(InputError, match="is damaged: its arrays do not fit its header"):
            load_map(path)


def test_maps_that_were_changed_are_refused(tmp_path: Path, rng: np.random.Generator) -> None:
    """Whatever byte is damaged: it is refused, or the map is what it was."""
    path = tmp_path / "map"
    fitted = ik.align(*planted("affine"))
    fitted.save(path)
    whole = path.read_bytes()
    for _ in range(300):
        damaged = bytearray(whole)
        for place in rng.integers(len(whole), size=rng.integers(1, 4)):
            damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            again = load_map(path)
        except InputError:
            continue
        assert np.array_equal(again.weights_, fitted.weights_)
        assert np.array_equal(again.shift_, fitted.shift_)
        assert (again.group, again.error, again.interval) == (
            fitted.group,
            fitted.error,
            fitted.interval,
        )
    # A number in the middle of the weights, which safetensors itself does not look at.
    place = whole.index(fitted.weights_.tobytes())
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.raises(InputError, match="its bytes are not those that were written"):
        load_map(path)


def test_a_map_that_is_not_finite_is_not_saved(tmp_path: Path) -> None:
    fitted = ik.align(*planted("affine"))
    fitted.shift_ = np.full_like(fitted.shift_, np.nan)
    with pytest.raises(InputError, match="cannot be saved: it has numbers that are not finite"):
        fitted.save(tmp_path / "map")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["group", "error", "source", "target"])
def test_maps_with_a_header_that_lacks_something_are_refused(missing: str, tmp_path: Path) -> None:
    header = {key: value for key, value in HEADER.items() if key != missing}
    write_map(tmp_path / "map", header, weights=np.eye(2), shift=np.zeros(2))
    with pytest.raises(InputError):
        load_map(tmp_path / "map")


@pytest.mark.parametrize("header", [[], None, "rigid", 3])
def test_maps_whose_header_is_no_object_are_refused(header: object, tmp_path: Path) -> None:
    write_map(tmp_path / "map", header, weights=np.eye(2), shift=np.zeros(2))
    with pytest.raises(InputError):
        load_map(tmp_path / "map")


# scikit-learn.


def test_map_in_a_pipeline() -> None:
    X, Y = planted("affine")
    pipeline = Pipeline([("scale", StandardScaler()), ("map", AlignmentMap(group="affine"))])
    np.testing.assert_allclose(pipeline.fit(X, Y).transform(X), Y, atol=1e-9)
    np.testing.assert_allclose(pipeline.inverse_transform(Y), X, atol=1e-9)
    np.testing.assert_allclose(pipeline.fit_transform(X, Y), Y, atol=1e-9)


def test_clone_and_parameters() -> None:
    X, Y = planted("rigid")
    t = AlignmentMap(group="rigid", folds=7).fit(X, Y)
    twin = clone(t)
    assert twin.get_params() == {"group": "rigid", "folds": 7, "ridge": "auto"}
    assert not hasattr(twin, "weights_")
    assert twin.set_params(group="affine").fit(X, Y).group == "affine"
    np.testing.assert_allclose(twin.transform(X), Y, atol=1e-9)


def test_stated_error_is_that_of_the_map_that_is_returned() -> None:
    """Between unequal widths too: 100 columns to 50, applied to rows that it has not seen."""
    rng = np.random.default_rng(0)
    signal, mix = rng.normal(size=(6000, 50)), rng.normal(size=(50, 100)) / 10
    X = signal @ mix + 0.1 * rng.normal(size=(6000, 100))
    Y = signal + 0.2 * rng.normal(size=signal.shape)
    for A, B in ((X, Y), (Y, X)):
        for group in ("rigid", "similarity", "linear", "affine"):
            t = ik.align(A[:1000], B[:1000], group=group)
            missed = sse(B[1000:] - t.transform(A[1000:])) / sse(centred(B[1000:]))
            assert t.error == pytest.approx(np.sqrt(missed), rel=0.03)


@pytest.mark.parametrize(("n", "d"), [(200, 64), (1000, 64), (200, 8)])
def test_interval_covers_the_error_of_the_map_that_one_gets(n: int, d: int) -> None:
    covered = 0
    for seed in range(20):
        rng = np.random.default_rng([seed, n, d])
        A = rng.normal(size=(d, d)) / np.sqrt(d)
        X = rng.normal(size=(n + 4000, d))
        Y = X @ A + 0.5 * rng.normal(size=X.shape)
        t = ik.align(X[:n], Y[:n])
        missed = np.sqrt(sse(Y[n:] - t.transform(X[n:])) / sse(centred(Y[n:])))
        low, high = t.interval
        covered += low <= missed <= high
    assert covered >= 16


def test_ridge_needs_no_rows_to_be_left_out_and_helps_where_rows_are_few() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 60)) / 8
    X = rng.normal(size=(5000, 60)) / np.arange(1, 61)
    Y = X @ A + 0.1 * rng.normal(size=X.shape)
    free, ridged = (ik.align(X[:80], Y[:80], ridge=how) for how in (None, "auto"))
    assert free.strength_ == 0.0 < ridged.strength_
    missed = [
        np.sqrt(sse(Y[80:] - t.transform(X[80:])) / sse(centred(Y[80:]))) for t in (free, ridged)
    ]
    assert missed[1] < 0.8 * missed[0]
    assert ik.align(X, Y).strength_ == 0.0  # many rows: plain least squares


def test_ridge_is_that_of_scikit_learn() -> None:
    from sklearn.linear_model import Ridge

    X, Y = pair(3)
    strength = 0.3
    penalty = strength * sse(centred(X)) / X.shape[1]
    reference = Ridge(alpha=penalty).fit(X, Y)
    t = ik.align(X, Y, ridge=strength)
    np.testing.assert_allclose(t.weights_, reference.coef_.T, atol=1e-10)
    np.testing.assert_allclose(t.shift_, reference.intercept_, atol=1e-10)
    uncentred = ik.align(X, Y, group="linear", ridge=strength)
    penalty = strength * sse(X) / X.shape[1]
    reference = Ridge(alpha=penalty, fit_intercept=False).fit(X, Y)
    np.testing.assert_allclose(uncentred.weights_, reference.coef_.T, atol=1e-10)


@pytest.mark.parametrize("ridge", ["much", -1, float("nan"), True])
def test_ridge_must_be_a_strength(ridge: object) -> None:
    X, Y = pair(3)
    with pytest.raises(ik.errors.InputError, match="ridge is"):
        ik.align(X, Y, ridge=ridge)


def test_a_rotation_has_no_ridge() -> None:
    X, Y = planted("rigid")
    with pytest.raises(ik.errors.InputError, match="only linear and affine maps can have"):
        ik.align(X, Y, group="rigid", ridge=0.5)
