"""What moves no logit counts for nothing: not in κ, not in the gap, not in the verdict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import close
from identikit.auditing import ModelPair, audit_models
from identikit.auditing.models_result import SAME
from identikit.errors import InputError
from identikit.family import SoftmaxModel, gauge

# Sizes of f and of g along the junk directions: none of these products moves a logit.
JUNK = {
    "f is tiny": (1e-9, 1.0),
    "g is tiny": (1.0, 1e-12),
    "both are small": (1e-6, 1e-6),
    "f is nil": (0.0, 1.0),
    "g is constant": (1.0, 0.0),
    "f is large, g constant": (1e3, 0.0),
}


def with_junk(rng, f, g, of_f, of_g, extra=23, turned=True, constant=0.0):
    """The model (f, g) with more directions, of these sizes, in other axes."""
    f = np.hstack([f, of_f * rng.normal(size=(len(f), extra))])
    g = np.hstack([g, of_g * rng.normal(size=(len(g), extra)) + constant])
    A = rng.normal(size=(f.shape[1],) * 2) if turned else np.eye(f.shape[1])
    return f @ A.T, g @ np.linalg.inv(A)


def pair_of(rng, of_f, of_g, kind="f8", noise=2e-7, constant=0.0):
    """Two copies of a model with logits of rank 9 and M = 32, each with junk of its own."""
    f, g = rng.normal(size=(400, 9)), rng.normal(size=(40, 9))
    near = f * (1 + noise * rng.normal(size=f.shape))
    a = with_junk(rng, f, g, of_f, of_g, turned=False, constant=constant)
    b = with_junk(rng, near, g, of_f, of_g, constant=constant)
    return tuple(
        SoftmaxModel(*(part.astype(kind) for part in each), name=name)
        for each, name in ((a, "a"), (b, "b"))
    )


def only(models) -> ModelPair:
    (pair,) = audit_models(models).pairs
    return pair


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("junk", JUNK)
def test_copies_with_other_junk_are_the_same(junk, kind, rng):
    pair = only(pair_of(rng, *JUNK[junk], kind))
    rounding = 1e-6 if kind == "f8" else 1e-3 if "large" in junk else 2e-5
    assert pair.gauge.logit_gap < rounding
    assert pair.gauge.kappa < rounding
    assert (pair.gauge.identified, pair.gauge.free) == (9, (23, 23))
    assert pair.finding == SAME
    assert "a linear map on the 9 identified dimensions" in pair.sentence
    assert "hardly move" not in pair.sentence
    assert pair.embedding.error < rounding
    document = pair.embedding.to_dict()
    assert (document["cca"]["rank"], document["cca"]["mean"] > 0.9999) == (9, True)


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_rounding_of_a_large_constant_is_no_direction(kind, rng):
    """g is 100 everywhere along 23 directions, which other axes then round unequally."""
    found = gauge(*pair_of(rng, 1.0, 0.0, kind, constant=100.0))
    assert found.identified == 9
    assert found.error < 1e-4


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.sampled_from(sorted(JUNK)), st.booleans())
def test_junk_changes_nothing(seed, junk, bias):
    """Against the same two models without junk, which differ by a tenth."""
    rng = np.random.default_rng(seed)
    f, g, A = rng.normal(size=(60, 3)), rng.normal(size=(12, 3)), rng.normal(size=(3, 3))
    f2, g2 = f @ A.T, g @ np.linalg.inv(A)
    f2 = f2 * (1 + 0.1 * rng.normal(size=f.shape))
    add = rng.normal(size=(2, 12)) if bias else (None, None)
    plain = SoftmaxModel(f, g, add[0], name="a"), SoftmaxModel(f2, g2, add[1], name="b")
    of_f, of_g = JUNK[junk]
    more = tuple(
        SoftmaxModel(*with_junk(rng, m.f, m.g, of_f, of_g, extra=4), m.bias, name=m.name)
        for m in plain
    )
    expected, found = gauge(*plain), gauge(*more)
    assert found.identified == expected.identified == 3
    close(found.kappa, expected.kappa, 1e-7)
    close(found.logit_gap, expected.logit_gap, 1e-7)
    # And the maps do the same to logits.
    for one, other in ((expected.A_from_f, found.A_from_f), (expected.A_from_g, found.A_from_g)):
        logits = plain[1].centred_g @ one @ plain[0].f.T
        close(more[1].centred_g @ other @ more[0].f.T, logits, 1e-6, np.abs(logits).max())


@pytest.mark.parametrize("junk", JUNK)
def test_junk_changes_no_verdict(junk, rng):
    """A pair of each finding keeps it, and its error of f, under junk on both sides."""
    f, g, A = rng.normal(size=(200, 4)), rng.normal(size=(30, 4)), rng.normal(size=(4, 4))
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    others = {
        "same": (f @ A.T, g @ np.linalg.inv(A)),
        "two maps": (f @ turn, g @ turn.T),
        "unrelated": (rng.normal(size=f.shape), rng.normal(size=g.shape)),
    }
    found = {}
    for name, other in others.items():
        plain = only((SoftmaxModel(f, g), SoftmaxModel(*other)))
        both = [with_junk(rng, *m, *JUNK[junk], extra=5) for m in ((f, g), other)]
        more = only([SoftmaxModel(*m) for m in both])
        assert more.finding == plain.finding, name
        close(more.gauge.kappa, plain.gauge.kappa, 1e-6)
        found[name] = plain.finding
    assert len(set(found.values())) == 3


def test_kappa_is_the_gap_of_the_logits_within_their_spaces(rng):
    """‖P (Z_b − Z_a) Q‖/‖Z_a‖ with the projections on the columns and rows of Z_a: brute force."""
    f, g = rng.normal(size=(80, 3)) + 1, rng.normal(size=(15, 3))
    f2, g2 = np.tanh(f) @ rng.normal(size=(3, 3)), g + 0.4 * rng.normal(size=g.shape)
    a, b = SoftmaxModel(f, g), SoftmaxModel(f2, g2)
    za, zb = (m.logits() - m.logits().mean(axis=1, keepdims=True) for m in (a, b))
    U, _, Vt = np.linalg.svd(za, full_matrices=False)
    U, Vt = U[:, :3], Vt[:3]
    found = gauge(a, b)
    expected = np.linalg.norm(U.T @ (zb - za) @ Vt.T) / np.linalg.norm(za)
    close(found.kappa, expected, 1e-10)
    assert found.kappa < found.logit_gap


def test_kappa_counts_a_direction_by_what_it_moves(rng):
    """One direction of four is mirrored: κ is 2 times its share of the logits, at any size."""
    f, g = rng.normal(size=(500, 4)), rng.normal(size=(50, 4))
    f = np.linalg.qr(f)[0]
    g = np.linalg.qr(g - g.mean(axis=0))[0]
    for size in (1.0, 1e-2, 1e-4):
        scales = np.array([1.0, 1.0, 1.0, size])
        mirrored = f * [1, 1, 1, -1]
        found = gauge(SoftmaxModel(f, g * scales), SoftmaxModel(mirrored, g * scales))
        assert found.identified == 4
        close(found.kappa, 2 * size / np.linalg.norm(scales), 1e-9)
        close(found.kappa_raw, 1.0, 1e-6)


def test_directions_that_hardly_move_the_logits_are_told(rng):
    """Here f has large unrelated directions that count, at 1e-4 of the logits: said, not judged."""
    pair = only(pair_of(rng, 10.0, 1e-5))
    assert pair.gauge.identified == 32
    assert pair.finding == SAME
    assert pair.gauge.kappa < 1e-3
    assert "f still has directions that hardly move the logits" in pair.sentence


def test_falling_spectra_in_float32_are_all_identified(rng):
    """f and g fall as 1/j, so the logits fall as 1/j²: 6e-5 at the end, and far above rounding."""
    M = 128
    f, g = (rng.normal(size=(rows, M)) / np.arange(1, M + 1) for rows in (1000, 500))
    Q, A = np.linalg.qr(rng.normal(size=(M, M)))[0], rng.normal(size=(M, M))
    both = (f @ Q, g @ Q), (f @ Q @ A.T, g @ Q @ np.linalg.inv(A))
    found = gauge(*(SoftmaxModel(*(side.astype("f4") for side in model)) for model in both))
    assert (found.identified, found.free) == (M, (0, 0))
    assert max(found.kappa, found.logit_gap) < 1e-5


def test_a_deficient_f_keeps_its_own_axes(rng):
    """f of rank 2 in 4 axes under a rotation stays rigid, whatever g is where f does not reach."""
    f = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 4))
    g, Q = rng.normal(size=(20, 4)), np.linalg.qr(rng.normal(size=(4, 4)))[0]
    beyond = np.linalg.svd(f)[2][2:]
    other = (g + rng.normal(size=(20, 2)) @ beyond) @ Q
    a, b = SoftmaxModel(f, g), SoftmaxModel(f @ Q, other)
    pair = only((a, b))
    assert pair.gauge.free == (2, 2)
    assert pair.embedding.group == "rigid"
    close(a.f @ a.identified(affine=False).to_f @ a.identified(affine=False).axes.T, f, 1e-9)


def test_coordinates_are_dual_and_give_the_logits(rng):
    """u · v are the centred logits, and of f only its part along g's differences is left."""
    model = SoftmaxModel(rng.normal(size=(50, 6)), rng.normal(size=(4, 6)))
    seen = model.identified(affine=False)
    assert seen.rank == 3
    close(seen.axes.T @ seen.axes, np.eye(3), 1e-12)
    close(seen.to_g.T @ seen.to_f, np.eye(3), 1e-10)
    logits = (model.f @ seen.to_f) @ (model.centred_g @ seen.to_g).T
    close(logits, model.f @ model.centred_g.T, 1e-10)
    onto = np.linalg.svd(model.centred_g)[2][:3]
    close(model.f @ seen.to_f @ seen.axes.T, model.f @ onto.T @ onto, 1e-10)


# Tables of log-probabilities in the type they are stored in.


def bfloat16(table):
    torch = pytest.importorskip("torch")
    return torch.tensor(table).bfloat16()


TYPES = {
    "float64": (lambda t: t, 1e-12),
    "float32": (lambda t: t.astype("f4"), 1e-6),
    "float16": (lambda t: t.astype("f2"), 2e-3),
    "bfloat16": (bfloat16, 2e-2),
}


@pytest.mark.parametrize("rank", [1, 5, 12])
@pytest.mark.parametrize("kind", TYPES)
def test_a_table_has_its_rank_in_every_type(kind, rank, rng):
    cast, rounding = TYPES[kind]
    truth = SoftmaxModel(rng.normal(size=(500, rank)), rng.normal(size=(40, rank)), name="truth")
    model = SoftmaxModel.from_log_prob(cast(truth.log_prob()), kind)
    assert rank == model.M
    assert model.log_prob().dtype == np.float64
    pair = only((truth, model))
    assert pair.finding == SAME
    assert max(pair.gauge.logit_gap, pair.gauge.kappa) < rounding
    assert "free" not in pair.sentence


def test_the_type_that_a_file_had_decides(rng, tmp_path):
    truth = SoftmaxModel(rng.normal(size=(500, 5)), rng.normal(size=(20, 5)))
    table = bfloat16(truth.log_prob())
    from safetensors.torch import save_file  # needs torch, as the line above does

    save_file({"log_prob": table}, tmp_path / "half.safetensors")
    assert SoftmaxModel.load(tmp_path / "half.safetensors").M == 5


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_rounding_excuses_no_table_that_is_none(kind, rng):
    logits = rng.normal(size=(30, 5))
    with pytest.raises(InputError, match="off from one"):
        SoftmaxModel.from_log_prob(TYPES[kind][0](logits))
    with pytest.raises(InputError, match=r"row 3 .* off from one by inf"):
        SoftmaxModel.from_log_prob(
            np.where(np.arange(30)[:, None] == 3, 1e4, -np.log(5.0)) + 0 * logits
        )


def test_embeddings_in_half_precision(rng):
    """Norms of float16 would overflow: they are taken in float64."""
    f, g = 30 * rng.normal(size=(3000, 6)), 30 * rng.normal(size=(60, 6))
    a = SoftmaxModel(f, g, name="a")
    for cast in (lambda x: x.astype("f2"), bfloat16):
        pair = only((a, SoftmaxModel(cast(f), cast(g), name="half")))
        assert pair.finding == SAME
        assert pair.distances.M == 6
        assert pair.gauge.identified == 6
