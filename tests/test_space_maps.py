"""Maps between embedding models: their fits, the choice among them, files, and rows they refuse."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import orthogonal_procrustes
from sklearn.linear_model import Ridge
from typer.testing import CliRunner, Result

import identikit as ik
from conftest import close
from identikit.alignment import load_map, read_map, write_map
from identikit.cli import app
from identikit.errors import InputError
from identikit.retrieval import Look, SpaceMap, fit_space_map, load_space_map, rotation_bound

Array = np.ndarray
TENS = pytest.mark.parametrize("side", ["queries", "documents"])


def rotation(width: int, rng: np.random.Generator) -> Array:
    return np.linalg.qr(rng.normal(size=(width, width)))[0]


def unit(rows: Array) -> Array:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def models(
    n: int = 400, p: int = 12, q: int = 12, noise: float = 0.3, seed: int = 0
) -> tuple[Array, Array]:
    """Two models that share most of what they say, with means away from zero."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, max(p, q))) * np.geomspace(2, 0.5, max(p, q))
    x = z[:, :p] @ rotation(p, rng) + rng.normal(size=p)
    y = z[:, :q] @ rotation(q, rng) + noise * rng.normal(size=(n, q)) - rng.normal(size=q)
    return x, y


# ------------------------------------------------------------------------------------ the kinds


@pytest.mark.parametrize(("p", "q"), [(12, 12), (12, 7), (7, 12)])
def test_a_rigid_map_is_procrustes_about_the_means_with_the_targets_spread(p, q):
    x, y = models(p=p, q=q)
    t = fit_space_map(x, y, kinds=["rigid"], metric="l2")
    a, b = x - x.mean(axis=0), y - y.mean(axis=0)
    width = max(p, q)
    turn, _ = orthogonal_procrustes(*(np.pad(v, ((0, 0), (0, width - v.shape[1]))) for v in (a, b)))
    image = a @ turn[:p, :q]
    image *= np.linalg.norm(b) / np.linalg.norm(image)
    close(t.transform(x), image + y.mean(axis=0), 1e-9)
    assert t.widths == (p, q)
    values = np.linalg.svd(t.weights, compute_uv=False)
    close(values, np.full(min(p, q), values[0]), 1e-9)


def test_queries_by_cosine_are_stretched_as_far_as_the_models_disagree():
    x, y = (unit(rows) for rows in models(noise=0.8))
    plain = fit_space_map(x, y, kinds=["rigid"], metric="l2").weights
    a, b = x - x.mean(axis=0), y - y.mean(axis=0)
    agreement = np.vdot(a @ plain, b) / (np.linalg.norm(a @ plain) * np.linalg.norm(b))
    assert 0.5 < agreement < 0.95
    close(fit_space_map(x, y, kinds=["rigid"]).weights, plain / agreement**2, 1e-9)
    close(fit_space_map(x, y, kinds=["rigid"], side="documents").weights, plain, 1e-9)
    exact = fit_space_map(x, x @ rotation(12, np.random.default_rng(1)))
    assert exact.overlap["rigid"] == 1


def test_columns_without_variance_harm_no_map():
    x, y = models(n=300, p=6, q=6)
    x[:, 2], y[:, 4] = 1.0, 0.0
    x[:, 3] = x[:, 1]
    for kind in ("rigid", "affine"):
        t = fit_space_map(x, y, kinds=[kind], metric="l2", side="documents")
        assert np.isfinite(t.weights).all()
        assert t.held_out[kind] < 1


@TENS
def test_an_affine_map_is_ridge_regression_and_queries_keep_the_spread(side):
    x, y = models(n=40, p=12, q=5)
    t = fit_space_map(x, y, kinds=["affine"], metric="dot", side=side)
    held = ik.AlignmentMap(group="affine").fit(x, y)
    scatter = np.linalg.eigvalsh(np.cov(x.T) * (len(x) - 1))
    fit = Ridge(alpha=held.strength_ * scatter.mean()).fit(x, y)
    assert held.strength_ > 0
    expected = fit.predict(x)
    if side == "queries":
        gaps = expected - y.mean(axis=0)
        gaps *= np.linalg.norm(y - y.mean(axis=0)) / np.linalg.norm(gaps)
        expected = gaps + y.mean(axis=0)
    close(t.transform(x), expected, 1e-8)


def test_a_low_rank_map_finds_the_rank_and_wins_where_few_axes_are_shared(rng):
    n, d, rank = 120, 60, 8
    shared = rng.normal(size=(n, rank))
    x = shared @ rng.normal(size=(rank, d)) + 2.0 * rng.normal(size=(n, d))
    y = shared @ rng.normal(size=(rank, d)) + 2.0 * rng.normal(size=(n, d))
    t = fit_space_map(x, y, kinds=["low_rank"], metric="l2")
    assert np.linalg.matrix_rank(t.weights) in (8, 16)
    # Fewer columns than the smallest rank leave nothing to choose.
    few = fit_space_map(x[:, :5], y[:, :5], kinds=["low_rank"], metric="l2")
    same = fit_space_map(x[:, :5], y[:, :5], kinds=["affine"], metric="l2")
    close(few.weights, same.weights, 1e-12)


@pytest.mark.extra("torch")
def test_a_network_is_taken_where_the_map_bends_and_not_where_it_is_straight():
    pytest.importorskip("torch", reason="a residual network needs the extra torch")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(700, 3))
    bent = np.column_stack([np.sin(2 * x[:, 0]), x[:, 1] ** 2, np.abs(x[:, 2]), x])
    kinds = ["rigid", "affine", "network"]
    t = fit_space_map(x, bent, kinds=kinds, metric="l2", side="documents")
    assert t.kind == "network"
    assert t.overlap["network"] > t.overlap["affine"] + 0.1
    assert t.held_out["network"] < t.held_out["affine"] - 0.1
    again = fit_space_map(x, bent, kinds=["network"], metric="l2", side="documents")
    for one, other in zip(t.layers, again.layers, strict=True):
        np.testing.assert_array_equal(one, other)
    straight = x[:300] @ rng.normal(size=(3, 6))
    assert fit_space_map(x[:300], straight, kinds=kinds, metric="l2").kind != "network"


# --------------------------------------------------------------------------- the choice of a kind


def top(queries: Array, index: Array, metric: str, count: int) -> list[set[int]]:
    """The nearest rows by plain loops."""
    found = []
    for query in queries:
        if metric == "l2":
            scores = [-float(((query - row) ** 2).sum()) for row in index]
        else:
            scores = [float(query @ row) for row in index]
        found.append(set(np.argsort(scores)[-count:].tolist()))
    return found


@TENS
@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_overlap_and_error_are_those_of_plain_loops(side, metric):
    x, y = models(n=90, p=6, q=4, noise=0.6)
    found = fit_space_map(x, y, metric=metric, side=side, seed=3)
    if metric == "cosine":
        x, y = unit(x), unit(y)
    fold = np.random.default_rng(3).permutation(90) % 5
    shared, missed, spread = [], 0.0, 0.0
    for k in range(5):
        a, b, c, d = x[fold != k], y[fold != k], x[fold == k], y[fold == k]
        t = fit_space_map(a, b, kinds=["rigid"], metric=metric, side=side)
        missed += float(((t.transform(c) - d) ** 2).sum())
        spread += float(((d - b.mean(axis=0)) ** 2).sum())
        if side == "queries":
            count = 10
            pairs = zip(top(t.transform(c), b, metric, count), top(c, a, metric, count))
        else:
            count = len(c) // 4
            pairs = zip(top(b, t.transform(c), metric, count), top(b, d, metric, count))
        shared += [len(one & other) / count for one, other in pairs]
    close(found.overlap["rigid"], np.mean(shared), 1e-12)
    close(found.held_out["rigid"], (missed / spread) ** 0.5, 1e-9)


def test_the_simplest_kind_that_none_beats_beyond_the_interval():
    x, y = models(n=600, noise=0.5)
    assert fit_space_map(x, y, metric="l2").kind == "rigid"
    stretched = x @ np.diag(np.geomspace(0.1, 10, 12))
    for side in ("queries", "documents"):
        t = fit_space_map(x, stretched, metric="l2", side=side, kinds=["affine", "rigid"])
        if side == "documents":
            assert t.kind == "affine"
        assert list(t.overlap) == list(t.held_out) == ["rigid", "affine"]


@pytest.mark.slow
@TENS
def test_overlap_chooses_at_least_as_well_as_the_error_on_real_queries(data_dir, side):
    """The rule of choice, on pairs that it was not made on (CACM)."""
    with np.load(data_dir / "retrieval" / "cacm.npz") as held:
        names = ("wordllama_256", "para_l3", "gte_small", "granite_30m")
        documents = {name: held[f"doc_{name}"].astype(float) for name in names}
        queries = {name: held[f"query_{name}"].astype(float) for name in names}
    chosen, by_error = [], []
    for source in names:
        for target in names:
            if source == target:
                continue
            fits = {
                kind: fit_space_map(
                    documents[source][::2], documents[target][::2], kinds=[kind], side=side
                )
                for kind in ("rigid", "affine")
            }
            kept = {}
            for kind, t in fits.items():
                new = source if side == "queries" else target
                index = {name: unit(rows[1::2]) for name, rows in documents.items()}
                right = top(unit(queries[new]), index[new], "dot", 10)
                if side == "queries":
                    got = top(t.transform(queries[source]), index[target], "dot", 10)
                else:
                    got = top(
                        unit(queries[target]), t.transform(documents[source][1::2]), "dot", 10
                    )
                kept[kind] = np.mean([len(a & b) / 10 for a, b in zip(got, right)])
            own = fit_space_map(documents[source][::2], documents[target][::2], side=side)
            chosen.append(kept[own.kind])
            by_error.append(kept[min(own.held_out, key=own.held_out.__getitem__)])
    assert np.mean(chosen) >= np.mean(by_error) - 0.005


# ------------------------------------------------------------------------------------ transform


@given(st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_under_cosine_lengths_do_not_matter_and_zeros_stay(seed, scale):
    x, y = models(n=40, p=5, q=3, seed=seed % 7)
    t = fit_space_map(x, y, kinds=["rigid"])
    rows = np.random.default_rng(seed).normal(size=(6, 5))
    rows[2] = 0
    mapped = t.transform(rows * scale)
    close(mapped, t.transform(rows), 1e-12)
    lengths = np.linalg.norm(mapped, axis=1)
    close(lengths, [1, 1, 0, 1, 1, 1], 1e-12)


def test_other_metrics_take_rows_as_they_are():
    x, y = models()
    for metric in ("dot", "l2"):
        t = fit_space_map(x, y, metric=metric)
        close(t.transform(3 * x), 3 * x @ t.weights + t.shift, 1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kinds": ["round"]}, "kinds is \\['round'\\]; give a list of some of rigid, affine"),
        ({"kinds": "rigid"}, "give a list"),
        ({"kinds": []}, "give a list"),
        ({"metric": "angle"}, "the metric is 'angle'; give one of cosine, dot, l2"),
        ({"side": "both"}, "the side is 'both'; give one of queries, documents"),
        ({"target": np.ones((7, 2))}, "the source has 400 rows and the target 7"),
        ({"target": np.ones(400)}, r"the target has the shape \(400,\)"),
        ({"queries": np.ones((30, 5))}, "the queries have 5 columns, but the source has 12"),
    ],
)
def test_what_cannot_be_fitted_is_said(change: dict[str, Any], words: str):
    x, y = models()
    arguments: dict[str, Any] = {"source": x, "target": y, **change}
    with pytest.raises(InputError, match=words):
        fit_space_map(**arguments)


def test_rows_without_a_direction_or_a_number_are_refused():
    x, y = models()
    x[[5, 9]] = 0
    with pytest.raises(InputError, match="the source has 2 rows of zeros, the first of them row 5"):
        fit_space_map(x, y)
    assert fit_space_map(x, y, metric="dot").kind == "rigid"
    y[3, 0] = np.inf
    with pytest.raises(InputError, match="NaN or infinity in 1 rows, the first of them row 3"):
        fit_space_map(x, y, metric="dot")
    with pytest.raises(InputError, match="at least 20 of them"):
        fit_space_map(x[10:20], y[10:20])


# ---------------------------------------------------------------------------------------- files


def saved(path: Path, **options: Any) -> SpaceMap:
    x, y = models()
    t = fit_space_map(
        x, y, source_model={"model": "new", "revision": "3"}, target_model="old", **options
    )
    t.save(path)
    return t


def test_a_file_holds_all_of_a_map(tmp_path):
    x, _ = models()
    t = saved(tmp_path / "m.safetensors", queries=x[:50], side="documents")
    back = load_space_map(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(back.transform(x), t.transform(x))
    for name in ("kind", "metric", "side", "held_out", "overlap", "widths"):
        assert getattr(back, name) == getattr(t, name), name
    for name in ("source", "target", "queries"):
        one, other = getattr(back, name), getattr(t, name)
        assert one.model == other.model
        assert one.fingerprint == other.fingerprint
        np.testing.assert_array_equal(one.distances(x[:, : len(one.mean)]), other.distances(x))
    assert back.source.model == {"model": "new", "revision": "3"}
    assert back.source.fingerprint != back.target.fingerprint
    with pytest.raises(InputError, match="exists"):
        t.save(tmp_path / "m.safetensors", overwrite=False)


@pytest.mark.extra("torch")
def test_a_file_holds_a_network_and_is_used_without_torch(tmp_path):
    pytest.importorskip("torch", reason="a residual network needs the extra torch")
    x, _ = models()
    t = saved(tmp_path / "m.safetensors", kinds=["network"])
    assert len(t.layers) == 3
    back = load_space_map(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(back.transform(x), t.transform(x))


def test_files_of_the_two_sorts_of_maps_are_told_apart(tmp_path):
    saved(tmp_path / "space.safetensors")
    ik.align(*models()).save(tmp_path / "align.safetensors")
    with pytest.raises(InputError, match="between embedding models; `identikit apply`"):
        load_map(tmp_path / "space.safetensors")
    with pytest.raises(InputError, match="a map of `identikit align`"):
        load_space_map(tmp_path / "align.safetensors")


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("header", {"kind": "round"}),
        ("header", {"metric": 7}),
        ("header", {"held_out": [1]}),
        ("header", {"source": None}),
        ("source", {"rest": 0.0}),
        ("target", {"model": "new"}),
        ("arrays", {"source_mean": np.zeros(3)}),
        ("arrays", {"shift": np.zeros(5)}),
        ("arrays", {"inner": np.zeros((12, 4))}),
        ("arrays", {"target_axes": np.zeros((3, 2))}),
    ],
)
def test_a_file_whose_parts_do_not_fit_is_refused(tmp_path, part, change):
    path = tmp_path / "m.safetensors"
    saved(path)
    header, arrays = read_map(path)
    {"header": header, "arrays": arrays}.get(part, header.get(part)).update(change)
    write_map(header, arrays, path, overwrite=True)
    with pytest.raises(InputError, match="is damaged"):
        load_space_map(path)


def test_a_flipped_bit_is_found(tmp_path):
    path = tmp_path / "m.safetensors"
    saved(path)
    whole = bytearray(path.read_bytes())
    for place in np.random.default_rng(0).integers(len(whole) - 2000, len(whole), size=20):
        broken = bytearray(whole)
        broken[place] ^= 4
        path.write_bytes(broken)
        with pytest.raises(InputError, match="damaged"):
            load_space_map(path)


# ---------------------------------------------------------------------------------------- apply


@pytest.fixture(scope="module")
def cranfield(data_dir: Path) -> dict[str, Array]:
    with np.load(data_dir / "retrieval" / "cranfield.npz") as held:
        return {name: held[name] for name in held.files}


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def granite_to_minilm(cranfield) -> SpaceMap:
    new, old = (cranfield[f"doc_{model}"][:700] for model in ("granite_30m", "minilm_l6"))
    queries = cranfield["query_granite_30m"][:120]
    return fit_space_map(new, old, queries=queries, source_model="granite", target_model="minilm")


@pytest.fixture
def folder(tmp_path, monkeypatch, cranfield, granite_to_minilm) -> Path:
    """A map of new queries into the old index, and files of both models and of a third one."""
    monkeypatch.chdir(tmp_path)
    for file, model in (("new", "granite_30m"), ("old", "minilm_l6"), ("third", "gte_small")):
        np.save(f"{file}.npy", cranfield[f"doc_{model}"])
        np.save(f"{file}_queries.npy", cranfield[f"query_{model}"])
    granite_to_minilm.save("map.safetensors")
    return tmp_path


def test_apply_writes_the_queries_side_and_keeps_ids(folder, cranfield):
    pytest.importorskip("pyarrow", reason="Parquet needs the extra io")
    queries = np.load("new_queries.npy").astype(np.float32)
    table = pd.DataFrame({"query": cranfield["query_ids"], "text": "what"})
    table["emb"] = list(queries)
    table.to_parquet("q.parquet")
    said = run("apply", "map.safetensors", "q.parquet::emb", "-o", "mapped.parquet").stderr
    assert "warning" not in said
    found = pd.read_parquet("mapped.parquet")
    assert found["query"].tolist() == table["query"].tolist()
    expected = load_space_map("map.safetensors").transform(queries)
    close(np.stack(found["emb"].tolist()), expected, 1e-6)


def test_apply_streams(folder, monkeypatch):
    monkeypatch.setattr("identikit.cli._apply.BLOCK_BYTES", 8 * 768 * 10)
    queries = np.load("new_queries.npy").astype(np.float64)
    queries[4], queries[7] = np.nan, 0.0
    np.save("q.npy", queries)
    said = run("apply", "map.safetensors", "q.npy", "-o", "out.npy").stderr
    assert "1 rows with NaN or infinity came out as NaN" in said
    found = np.load("out.npy")
    assert np.isnan(found[4]).all()
    assert not found[7].any()
    others = np.delete(np.arange(len(queries)), 4)
    expected = load_space_map("map.safetensors").transform(queries[others])
    close(found[others], expected, 1e-12)


def refused(*arguments: object) -> str:
    result = run(*arguments, "-o", "out.npy", code=2)
    assert not Path("out.npy").exists()
    return " ".join(result.stderr.split())


@pytest.mark.parametrize("file", ["old.npy", "old_queries.npy"])
def test_apply_refuses_the_wrong_direction_although_widths_agree(folder, file):
    sentence = refused("apply", "map.safetensors", file)
    assert "looks like rows of minilm, which this map leads to" in sentence
    assert "fit a map from the model of these rows" in sentence
    assert "leads one way" in refused("apply", "map.safetensors", "new.npy", "--inverse")


def test_one_row_is_enough_to_tell_the_direction(folder):
    np.save("one.npy", np.load("old_queries.npy")[:1])
    assert "which this map leads to" in refused("apply", "map.safetensors", "one.npy")
    np.save("one.npy", np.load("new_queries.npy")[:1])
    assert "warning" not in run("apply", "map.safetensors", "one.npy", "-o", "out.npy").stderr


def test_apply_refuses_the_wrong_width(folder, cranfield):
    np.save("wide.npy", cranfield["doc_mpnet_base"])
    assert "takes rows of granite with 384 columns" in refused(
        "apply", "map.safetensors", "wide.npy"
    )
    wide, new = cranfield["doc_mpnet_base"][:100], np.load("new.npy")[:100]
    fit_space_map(new, wide, kinds=["rigid"], target_model="mpnet").save("wider.safetensors")
    sentence = refused("apply", "wider.safetensors", "wide.npy")
    assert "it leads to mpnet, whose rows have 768: is this the wrong direction?" in sentence


def warned(file: str) -> str:
    said = run("apply", "map.safetensors", file, "-o", "out.npy", "--force").stderr
    return " ".join(said.split()) if "warning" in said else ""


def test_apply_warns_of_another_model(folder):
    for file in ("third.npy", "third_queries.npy"):
        assert "is this another model" in warned(file)
    assert not warned("new_queries.npy")


def test_apply_warns_of_a_missing_prefix(folder):
    """Queries that are all displaced alike, as by another instruction before the text."""
    rng = np.random.default_rng(0)
    queries = np.load("new_queries.npy").astype(float)[120:]
    spread = queries.var(axis=0).sum()
    step = rng.normal(size=384)
    step *= np.sqrt(0.4 * spread) / np.linalg.norm(step)
    np.save("shifted.npy", unit(queries + step))
    sentence = warned("shifted.npy")
    assert "does not look like the queries that this map knows from granite" in sentence
    assert "a missing prefix?" in sentence
    np.save("unshifted.npy", queries)
    assert not warned("unshifted.npy")


def test_rows_of_real_models_are_known_and_told_apart(cranfield):
    """Every pair of five models of one width: no false alarm, and no direction missed."""
    names = ["para_l3", "minilm_l6", "minilm_l6_sre", "gte_small", "granite_30m"]
    for a, b in combinations(names, 2):
        x, y = (cranfield[f"doc_{name}"][:600] for name in (a, b))
        t = fit_space_map(x, y, kinds=["rigid"])
        for rows in (cranfield[f"doc_{a}"][600:], cranfield[f"query_{a}"]):
            assert t.look(rows) == Look(), (a, b)
        for rows in (cranfield[f"doc_{b}"][600:], cranfield[f"query_{b}"]):
            assert t.look(rows).error, (a, b)


def test_a_copy_in_int8_is_not_taken_for_the_wrong_direction(cranfield):
    x, y = cranfield["doc_minilm_l6"], cranfield["doc_minilm_l6_int8"]
    t = fit_space_map(x[:600], y[:600])
    assert not t.look(x[600:]).error
    assert not t.look(y[600:]).error


def test_zeros_have_no_look():
    t = fit_space_map(*models())
    assert not t.look(np.zeros((3, 12))).warning


# ------------------------------------------------------------------------------------ the bound


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_the_bound_holds_and_is_what_all_pairs_of_rows_say(seed, p, q, centred):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(30, p)) * rng.uniform(0.1, 3, size=p) + rng.normal(size=p)
    y = rng.normal(size=(30, q)) + x @ rng.normal(size=(p, q)) * rng.uniform(0, 2)
    found = rotation_bound(ik.accumulate([x, y]), centred=centred)
    if centred:
        x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    width = max(p, q)
    close(found.delta, np.sqrt(np.mean((x @ x.T - y @ y.T) ** 2)), 1e-9, 1 + found.delta)
    x, y = (np.pad(v, ((0, 0), (0, width - v.shape[1]))) for v in (x, y))
    turn, _ = orthogonal_procrustes(x, y)
    close(found.distance, ((x @ turn - y) ** 2).sum(axis=1).mean(), 1e-9, 1 + found.trivial)
    assert found.distance <= found.bound + 1e-9
    assert found.distance <= found.trivial + 1e-9


def test_the_bound_is_nothing_for_a_rotation_and_says_nothing_of_strangers(rng):
    x = rng.normal(size=(200, 5)) * [3, 1, 1, 0.3, 0.1]
    same = rotation_bound(ik.accumulate([x, x @ rotation(5, rng)]))
    assert same.bound < 1e-6
    assert same.says_something
    strangers = rotation_bound(ik.accumulate([x, rng.permutation(x)]))
    assert not strangers.says_something
