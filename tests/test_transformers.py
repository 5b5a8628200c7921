"""Maps and ICA as scikit-learn's transformers: its own checks, and what a user may hand them."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import identikit as ik
from identikit.alignment import RUNGS, AlignmentMap
from identikit.axes import ICA
from identikit.errors import InputError
from identikit.recover import VarianceICA

#: Checks that are not passed, and why. None fails, for maps neither: a target that is a vector is
#: taken as a view of one column.
LEFT_OUT = {"check_array_api_input": "for arrays of other libraries, if SCIPY_ARRAY_API is set"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator", [ICA(), VarianceICA(), AlignmentMap(), AlignmentMap(group="rigid")]
)
def test_scikit_learns_checks(estimator):
    done = check_estimator(estimator, on_skip=None)
    assert {c["check_name"] for c in done if c["status"] != "passed"} == set(LEFT_OUT)
    assert sum(check["status"] == "passed" for check in done) > 40


def frames(rng, n=80):
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    Y = pd.DataFrame(X.to_numpy() @ rng.normal(size=(3, 2)) + 1, columns=["u", "v"])
    return X, Y


def fitted_both(rng):
    X, Y = frames(rng)
    return [(AlignmentMap().fit(X, Y), X), (ik.align(X, Y), X), (ICA().fit(X), X)]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_refused(rng, value):
    for fitted, X in fitted_both(rng):
        bad = X.to_numpy().copy()
        bad[[7, 9], 1] = value
        with pytest.raises(InputError, match="NaN or infinity in 2 rows, the first is row 7"):
            fitted.transform(bad)
        back = fitted.transform(X)
        back[3, 0] = value
        with pytest.raises(InputError, match="NaN or infinity in 1 rows, the first is row 3"):
            fitted.inverse_transform(back)


def test_complex_and_sparse_rows_are_refused(rng):
    from scipy.sparse import csr_array

    for fitted, X in fitted_both(rng):
        with pytest.raises(InputError, match="Complex data not supported"):
            fitted.transform(X.to_numpy() + 1j)
        with pytest.raises(InputError, match=r"sparse; .* takes dense rows"):
            fitted.transform(csr_array(X.to_numpy()))
    X, Y = frames(rng)
    with pytest.raises(InputError, match="Complex data not supported"):
        AlignmentMap().fit(X, Y + 1j)


def test_columns_in_another_order_are_refused(rng):
    for fitted, X in fitted_both(rng):
        assert list(fitted.feature_names_in_) == ["a", "b", "c"]
        with pytest.raises(InputError, match=r"has the columns c, b, a, but .* fitted on a, b, c"):
            fitted.transform(X[["c", "b", "a"]])
        with pytest.raises(InputError, match="give it these columns, in that order"):
            fitted.transform(X.rename(columns={"a": "z"}))
        assert np.array_equal(fitted.transform(X.to_numpy()), fitted.transform(X))


def test_the_way_back_knows_its_columns_too(rng):
    X, Y = frames(rng)
    fitted = AlignmentMap().fit(X, Y)
    assert np.allclose(fitted.transform(fitted.inverse_transform(Y)), Y)
    with pytest.raises(InputError, match="has the columns v, u, but this map was fitted on u, v"):
        fitted.inverse_transform(Y[["v", "u"]])


def test_files_and_compositions_keep_the_columns(rng, tmp_path):
    X, Y = frames(rng)
    fitted = AlignmentMap().fit(X, Y)
    fitted.save(tmp_path / "map")
    there_and_back = fitted.compose(AlignmentMap().fit(Y, X))
    for again in (
        ik.load_map(tmp_path / "map"),
        pickle.loads(pickle.dumps(fitted)),
        there_and_back,
    ):
        with pytest.raises(InputError, match="in that order"):
            again.transform(X[["b", "a", "c"]])
    assert list(ik.load_map(tmp_path / "map").get_feature_names_out()) == ["u", "v"]
    assert list(there_and_back.get_feature_names_out()) == ["a", "b", "c"]
    # Fitted anew on arrays, it has no names to insist on.
    fitted.fit(X.to_numpy(), Y.to_numpy())
    assert fitted.target_names is None
    fitted.transform(X[["c", "b", "a"]])


def test_names_out_and_set_output(rng):
    X, Y = frames(rng)
    fitted = AlignmentMap().set_output(transform="pandas").fit(X, Y)
    image = fitted.transform(X)
    assert list(image.columns) == ["u", "v"]
    assert image.index.equals(X.index)
    assert list(fitted.get_feature_names_out(["a", "b", "c"])) == ["u", "v"]
    with pytest.raises(InputError, match="not equal to feature_names_in_"):
        fitted.get_feature_names_out(["a", "b", "z"])
    unnamed = AlignmentMap().fit(X.to_numpy(), Y.to_numpy())
    assert list(unnamed.get_feature_names_out()) == ["alignmentmap0", "alignmentmap1"]
    assert list(ICA().set_output(transform="pandas").fit_transform(X).columns) == [
        "ica0",
        "ica1",
        "ica2",
    ]
    pipeline = make_pipeline(StandardScaler(), AlignmentMap()).set_output(transform="pandas")
    assert list(pipeline.fit(X, Y).transform(X).columns) == ["u", "v"]


def test_a_vector_is_a_target_of_one_column(rng):
    X, Y = frames(rng)
    fitted = AlignmentMap().fit(X, Y["u"])
    assert np.array_equal(fitted.transform(X), AlignmentMap().fit(X, Y[["u"]]).transform(X))
    with pytest.raises(InputError, match="requires y"):
        AlignmentMap().fit(X, None)


def test_views_that_are_read_in_blocks_are_taken_as_before(rng, tmp_path):
    X, Y = (frame.to_numpy() for frame in frames(rng))
    np.save(tmp_path / "x.npy", X)
    fitted = AlignmentMap().fit(str(tmp_path / "x.npy"), Y)
    assert np.array_equal(fitted.weights_, AlignmentMap().fit(X, Y).weights_)


def test_ica_without_a_seed(rng):
    S = rng.laplace(size=(500, 2))
    first, second = ICA(seed=None).fit(S), ICA(seed=None).fit(S)
    assert first.get_params()["seed"] is None
    assert np.allclose(first.transform(S), second.transform(S), atol=1e-3)


def test_every_group_is_a_transformer(rng):
    X = rng.normal(size=(60, 3))
    for group in RUNGS:
        assert (
            AlignmentMap(group=group).fit(X, X).set_output(transform="default").transform(X).shape
            == X.shape
        )
