"""The members of the softmax family: their entries, their heads, their groups, and the verb."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
from rich.cells import cell_len
from scipy.linalg import block_diag
from scipy.stats import ortho_group
from typer.testing import CliRunner, Result

from conftest import close
from identikit.cli import app
from identikit.errors import InputError
from identikit.family import SoftmaxModel
from identikit.family.members import GAUGES, MEMBERS, NON_MEMBERS, Member, find

n, K, M = 30, 40, 6


def softmax(scores: np.ndarray, axis: int = 1) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


def scores(parts: tuple) -> np.ndarray:
    f, g, bias = parts
    return f @ g.T + (0 if bias is None else bias)


def p(parts: tuple) -> np.ndarray:
    return softmax(scores(parts))


def invertible(rng: np.random.Generator) -> np.ndarray:
    """Not orthogonal, and not so ill-conditioned that rounding would show."""
    left, right = (ortho_group.rvs(M, random_state=rng) for _ in range(2))
    return left @ np.diag(np.linspace(0.4, 2.5, M)) @ right


def sides(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(n, M)), rng.normal(size=(K, M))


# The entries

EXPECTED_GROUPS = {
    "supervised": "linear",
    "supervised-bias": "affine",
    "diet": "linear",
    "cpc": "linear",
    "gpt": "linear",
    "bert": "affine",
    "xlnet": "affine",
    "quickthought": "linear",
    "n-pair": "orthogonal",
    "nplm": "affine",
    "simclr": "orthogonal",
    "infonce-fixed": "orthogonal",
    "infonce-learned": "orthogonal",
    "aninfonce": "block-orthogonal",
    "clip": "orthogonal",
    "two-tower": "linear",
    "prototypical": "rigid",
}


def test_the_groups_of_the_literature():
    assert {name: entry.group for name, entry in MEMBERS.items()} == EXPECTED_GROUPS
    assert set(EXPECTED_GROUPS.values()) == set(GAUGES)


def test_the_non_members():
    required = {"word2vec", "siglip", "triplet", "byol", "vicreg", "mae"}
    assert required <= set(NON_MEMBERS)
    assert not set(NON_MEMBERS) & set(MEMBERS)


@pytest.mark.parametrize("entry", [*MEMBERS.values(), *NON_MEMBERS.values()], ids=lambda e: e.name)
def test_every_field_says_something(entry):
    assert {**MEMBERS, **NON_MEMBERS}[entry.name] is entry
    for field in fields(entry):
        value = getattr(entry, field.name)
        if field.name == "head":
            assert callable(value)
        elif field.name == "aliases":
            assert all(value)
        else:
            assert value.strip() == value != "", field.name


def test_a_name_leads_to_one_entry_only():
    words = [w for e in (*MEMBERS.values(), *NON_MEMBERS.values()) for w in (e.name, *e.aliases)]
    keys = ["".join(filter(str.isalnum, word.lower())) for word in words]
    assert len(set(keys)) == len(keys)
    for word in words:
        entry = find(word)
        assert word in (entry.name, *entry.aliases)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("gpt2", "gpt"),
        ("GPT-2", "gpt"),
        ("LLaMA", "gpt"),
        ("BERT", "bert"),
        ("SimCLR", "simclr"),
        ("InfoNCE", "simclr"),
        ("CLIP", "clip"),
        ("dpr", "two-tower"),
        ("Two Tower", "two-tower"),
        ("N_pair", "n-pair"),
        ("protonet", "prototypical"),
        ("word2vec", "word2vec"),
        ("SGNS", "word2vec"),
        ("Barlow Twins", "vicreg"),
    ],
)
def test_find_by_alias(alias, name):
    assert find(alias).name == name


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("gtp2", "gpt"),
        ("bert-base-uncased", "bert"),
        ("meta-llama/Llama-3.2-1B", "gpt"),
        ("prototypcal", "prototypical"),
    ],
)
def test_an_unknown_name_gets_a_suggestion(wrong, meant):
    with pytest.raises(InputError, match=rf"{wrong}.*did you mean {meant}\?.*identikit family"):
        find(wrong)


@pytest.mark.parametrize("wrong", ["", "zzzzzz"])
def test_a_name_like_no_other_gets_the_list(wrong):
    with pytest.raises(InputError, match="identikit family") as caught:
        find(wrong)
    assert "did you mean" not in str(caught.value)


# The heads against each model's own definition, written out pair by pair

#: The cases of DIET: whether f and w are at unit norm.
UNIT_SIDES = [("C1", True, True), ("C2", True, False), ("C3", False, True), ("C4", False, False)]


def by_pair(score) -> np.ndarray:
    return softmax(np.array([[score(i, j) for j in range(K)] for i in range(n)]))


@pytest.mark.parametrize("name", ["supervised", "gpt", "quickthought", "n-pair", "two-tower"])
def test_dot_product(name, rng):
    F, G = sides(rng)
    parts = MEMBERS[name].head(F, G)
    assert parts[2] is None
    close(p(parts), by_pair(lambda i, j: sum(F[i, m] * G[j, m] for m in range(M))), 1e-12)


@pytest.mark.parametrize("name", ["supervised-bias", "bert", "xlnet"])
def test_dot_product_with_bias(name, rng):
    F, G = sides(rng)
    b = rng.normal(size=K)
    close(p(MEMBERS[name].head(F, G, b)), by_pair(lambda i, j: F[i] @ G[j] + b[j]), 1e-12)


def test_cpc(rng):
    c, W, z = rng.normal(size=(n, 9)), rng.normal(size=(M, 9)), rng.normal(size=(K, M))
    close(p(MEMBERS["cpc"].head(c, W, z)), by_pair(lambda i, j: z[j] @ (W @ c[i])), 1e-12)


def test_nplm(rng):
    r, C = rng.normal(size=(n, 4, 5)), rng.normal(size=(4, M, 5))
    q, b = rng.normal(size=(K, M)), rng.normal(size=K)

    def score(i: int, j: int) -> float:
        predicted = sum(C[place] @ r[i, place] for place in range(4))
        return predicted @ q[j] + b[j]

    close(p(MEMBERS["nplm"].head(r, C, q, b)), by_pair(score), 1e-12)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return a @ b / np.sqrt((a @ a) * (b @ b))


@pytest.mark.parametrize(("case", "of_f", "of_w"), UNIT_SIDES)
def test_diet(case, of_f, of_w, rng):
    F, G = sides(rng)

    def score(i: int, j: int) -> float:
        f, w = F[i] / (np.linalg.norm(F[i]) if of_f else 1), G[j]
        return f @ w / (np.linalg.norm(w) if of_w else 1) / 0.2

    close(p(MEMBERS["diet"].head(F, G, case, 0.2)), by_pair(score), 1e-12)


@pytest.mark.parametrize("name", ["simclr", "infonce-fixed", "infonce-learned"])
def test_cosine_with_temperature(name, rng):
    F, G = sides(rng)
    f, g, bias = MEMBERS[name].head(F, G, 0.07)
    close(p((f, g, bias)), by_pair(lambda i, j: cosine(F[i], G[j]) / 0.07), 1e-12)
    close(np.linalg.norm(np.vstack([f, g]), axis=1), np.full(n + K, 0.07**-0.5), 1e-12)


def test_simclr_where_a_view_is_no_candidate_of_its_own(rng):
    z = rng.normal(size=(n, M))
    others = np.array([[j for j in range(n) if j != i] for i in range(n)])
    model = SoftmaxModel(*MEMBERS["simclr"].head(z, z, 0.5), candidates=others)
    expected = [[np.exp(cosine(z[i], z[j]) / 0.5) for j in others[i]] for i in range(n)]
    expected = np.array(expected) / np.sum(expected, axis=1, keepdims=True)
    close(np.exp(model.log_prob()), expected, 1e-12)


def test_clip_in_both_directions(rng):
    F, G = sides(rng)
    logits = scores(MEMBERS["clip"].head(F, G, np.log(20.0)))
    expected = [[20 * cosine(F[i], G[j]) for j in range(K)] for i in range(n)]
    close(logits, expected, 1e-12, scale=20)


def test_prototypical(rng):
    F, G = sides(rng)
    parts = MEMBERS["prototypical"].head(F, G)
    close(p(parts), by_pair(lambda i, j: -np.sum((F[i] - G[j]) ** 2)), 1e-12)


def test_aninfonce(rng):
    F, G = sides(rng)
    lam = rng.uniform(1, 20, size=M)

    def score(i: int, j: int) -> float:
        apart = F[i] / np.linalg.norm(F[i]) - G[j] / np.linalg.norm(G[j])
        return -np.sum(lam * apart**2) / 2

    close(p(MEMBERS["aninfonce"].head(F, G, lam)), by_pair(score), 1e-12)


# The groups: inside, and just outside


def test_linear_leaves_p_and_a_shift_of_f_does_not(rng):
    F, G = sides(rng)
    A, c = invertible(rng), rng.normal(size=M)
    head = MEMBERS["supervised"].head
    close(p(head(F @ A.T, G @ np.linalg.inv(A) + c)), p(head(F, G)), 1e-12)
    assert np.abs(p(head(F + c, G)) - p(head(F, G))).max() > 0.1


def test_affine_leaves_p_if_the_bias_makes_up_for_the_shift(rng):
    F, G = sides(rng)
    A, a, c, b = invertible(rng), rng.normal(size=M), rng.normal(size=M), rng.normal(size=K)
    moved = G @ np.linalg.inv(A)
    head = MEMBERS["supervised-bias"].head
    same = head(F @ A.T + a, moved + c, b - moved @ a + 1.7)
    close(p(same), p(head(F, G, b)), 1e-12)
    assert np.abs(p(head(F @ A.T + a, moved + c, b)) - p(head(F, G, b))).max() > 0.1


def test_n_pair_has_one_network_so_only_orthogonal_maps(rng):
    F, _ = sides(rng)
    head = MEMBERS["n-pair"].head
    Q, A = ortho_group.rvs(M, random_state=rng), invertible(rng)
    close(p(head(F @ Q.T, F @ Q.T)), p(head(F, F)), 1e-12)
    assert np.abs(p(head(F @ A.T, F @ A.T)) - p(head(F, F))).max() > 0.5


def test_simclr_keeps_rotations_and_feels_the_temperature(rng):
    F, G = sides(rng)
    head = MEMBERS["simclr"].head
    Q, A = ortho_group.rvs(M, random_state=rng), invertible(rng)
    close(p(head(F @ Q.T, G @ Q.T, 0.1)), p(head(F, G, 0.1)), 1e-12)
    assert np.abs(p(head(F @ A.T, G @ np.linalg.inv(A), 0.1)) - p(head(F, G, 0.1))).max() > 0.1
    assert np.abs(p(head(F, G, 0.2)) - p(head(F, G, 0.1))).max() > 0.1


@pytest.mark.parametrize(("case", "of_f", "of_w"), UNIT_SIDES)
def test_diet_keeps_of_the_linear_gauge_what_its_normalisation_leaves(case, of_f, of_w, rng):
    """Any A and c where nothing is normalised; unit f leave rotations, unit w take the shift."""
    F, G = sides(rng)
    head = MEMBERS["diet"].head
    Q, A, c = ortho_group.rvs(M, random_state=rng), invertible(rng), rng.normal(size=M)

    def gap(f: np.ndarray, g: np.ndarray) -> float:
        return float(np.abs(p(head(f, g, case, 0.2)) - p(head(F, G, case, 0.2))).max())

    assert gap(F @ Q.T, G @ Q.T) < 1e-12
    for moved, kept in (
        (gap(F @ A.T, G @ np.linalg.inv(A)), not (of_f or of_w)),
        (gap(F, G + c), not of_w),
        (gap(2 * F, G / 2), not (of_f ^ of_w)),
    ):
        assert moved < 1e-12 if kept else moved > 0.1


def test_aninfonce_keeps_rotations_inside_blocks_of_equal_concentration_only(rng):
    F, G = sides(rng)
    head, lam = MEMBERS["aninfonce"].head, np.repeat([25.0, 3.0], M // 2)
    turn = [ortho_group.rvs(M // 2, random_state=rng) for _ in range(2)]
    Q, P = block_diag(*turn), np.eye(M)[rng.permutation(M)] * rng.choice([-1, 1], M)
    given = p(head(F, G, lam))
    close(p(head(F @ Q.T, G @ Q.T, lam)), given, 1e-12)
    close(p(head(F @ P.T, G @ P.T, np.abs(P) @ lam)), given, 1e-12)
    Q = ortho_group.rvs(M, random_state=rng)
    assert np.abs(p(head(F @ Q.T, G @ Q.T, lam)) - given).max() > 0.1
    # Concentrations that all differ leave none of the rotations.
    Q, distinct = block_diag(*turn), np.linspace(3, 25, M)
    moved = p(head(F @ Q.T, G @ Q.T, distinct)) - p(head(F, G, distinct))
    assert np.abs(moved).max() > 0.05


def test_clip_has_no_shift_because_of_the_loss_over_images(rng):
    """A 40 × 40 batch: c is invisible to the softmax over texts only."""
    f, g, _ = MEMBERS["clip"].head(rng.normal(size=(40, M)), rng.normal(size=(40, M)), np.log(10.0))
    Q, c = ortho_group.rvs(M, random_state=rng), 10 * rng.normal(size=M)
    rows, columns = (softmax(f @ g.T, axis) for axis in (1, 0))
    shifted, turned = f @ (g + c).T, (f @ Q.T) @ (g @ Q.T).T
    close(softmax(shifted, 1), rows, 1e-12)
    assert np.abs(softmax(shifted, 0) - columns).max() > 0.5
    close(softmax(turned, 1), rows, 1e-12)
    close(softmax(turned, 0), columns, 1e-12)


def test_prototypical_keeps_rigid_motions_and_nothing_else(rng):
    F, G = 2 * rng.normal(size=(500, M)), 2 * rng.normal(size=(K, M))
    head = MEMBERS["prototypical"].head
    Q, a, A = ortho_group.rvs(M, random_state=rng), rng.normal(size=M), invertible(rng)
    close(p(head(F @ Q.T + a, G @ Q.T + a)), p(head(F, G)), 1e-12)
    assert np.abs(p(head(F @ A.T, G @ np.linalg.inv(A))) - p(head(F, G))).max() > 0.9


def test_prototypical_with_few_prototypes_is_freer_than_rigid(rng):
    """M + 1 points lie on many quadrics: a shift of f makes up for any A, as `diversity` says."""
    F, G = sides(rng)
    G, A = G[: M + 1], invertible(rng)
    moved = G @ np.linalg.inv(A)
    # 2aᵀg' must be ‖g'‖² − ‖g‖² up to a constant, for each of the prototypes.
    gain = np.square(moved).sum(axis=1) - np.square(G).sum(axis=1)
    a = np.linalg.solve(2 * (moved[1:] - moved[0]), gain[1:] - gain[0])
    head = MEMBERS["prototypical"].head
    close(p(head(F @ A.T + a, moved)), p(head(F, G)), 1e-10)


# What the heads refuse

TWO = (np.ones((4, 3)), np.ones((5, 3)))
SCALARS = {"supervised-bias": (np.ones(5),), "bert": (np.ones(5),), "xlnet": (np.ones(5),)}
SCALARS |= dict.fromkeys(("simclr", "infonce-fixed", "infonce-learned"), (0.1,))
SCALARS |= {"clip": (1.0,), "aninfonce": (np.ones(3),)}
FITTING = {name: (*TWO, *SCALARS.get(name, ())) for name in MEMBERS}
FITTING["cpc"] = (np.ones((4, 2)), np.ones((3, 2)), np.ones((5, 3)))
FITTING["nplm"] = (np.ones((4, 2, 6)), np.ones((2, 3, 6)), np.ones((5, 3)), np.ones(5))
FITTING["diet"] = (*TWO, "C1", 1.0)
#: Rows of which the third has no direction.
ZERO = np.ones((5, 3)) * (np.arange(5) != 2)[:, None]
ARRAYS = [
    (name, place)
    for name, arguments in FITTING.items()
    for place, value in enumerate(arguments)
    if isinstance(value, np.ndarray)
]


def changed(name: str, place: int, value: object) -> list[object]:
    arguments: list[object] = list(FITTING[name])
    arguments[place] = value
    return arguments


@pytest.mark.parametrize("name", MEMBERS)
def test_a_head_takes_numbers_of_any_type_and_gives_float64(name):
    as_float32 = [v if isinstance(v, str) else np.float32(v) for v in FITTING[name]]
    f, g, bias = MEMBERS[name].head(*as_float32)
    assert (f.shape, g.shape) == ((4, 3), (5, 3))
    assert bias is None or bias.shape == (5,)
    assert all(part.dtype == np.float64 for part in (f, g, bias) if part is not None)


@pytest.mark.parametrize(("name", "place"), ARRAYS)
def test_a_shape_that_does_not_fit(name, place):
    good = FITTING[name][place]
    longer = np.ones((*good.shape[:-1], good.shape[-1] + 1))
    with pytest.raises(InputError, match=r"has shape \(.*expected \(.* in \w+: is one transposed"):
        MEMBERS[name].head(*changed(name, place, longer))
    with pytest.raises(InputError, match=rf"expected \(.*{good.ndim} axes and not {good.ndim + 1}"):
        MEMBERS[name].head(*changed(name, place, good[None]))


def test_the_error_names_the_argument_and_both_sizes():
    with pytest.raises(InputError) as caught:
        MEMBERS["cpc"].head(np.ones((4, 2)), np.ones((2, 3)), np.ones((5, 3)))
    assert str(caught.value) == (
        "weights has shape (2, 3); expected (M, C), and C is 2 in contexts: is one transposed?"
    )


@pytest.mark.parametrize(
    ("name", "place", "bad", "words"),
    [
        ("prototypical", 1, np.full((5, 3), np.nan), "prototypes has NaN or infinity"),
        ("prototypical", 1, np.full((5, 3), np.inf), "prototypes has NaN or infinity"),
        ("gpt", 1, np.ones((5, 3), dtype=complex), "g has dtype"),
        ("gpt", 1, [["a"] * 3] * 5, "g has dtype"),
        ("diet", 2, "C5", "no case 'C5'; choose C1, C2, C3 or C4"),
        *((name, 1, ZERO, r"row 2 of \w+ is zero") for name in ("simclr", "clip", "aninfonce")),
        *(
            (name, place, bad, "temperature is .* above zero")
            for name, place in (("simclr", 2), ("diet", 3))
            for bad in (0.0, -0.1, np.nan, np.inf)
        ),
        *(("aninfonce", 2, [1.0, bad, 1.0], "concentrations are .* above") for bad in (0.0, -2.0)),
        *(("clip", 2, bad, "logit_scale is .* logarithm") for bad in (1000.0, -1000.0, np.nan)),
    ],
)
def test_numbers_that_a_head_cannot_use(name, place, bad, words):
    with pytest.raises(InputError, match=words):
        MEMBERS[name].head(*changed(name, place, bad))


# The verb


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["family", *arguments])


def widest(text: str) -> int:
    return max(cell_len(line) for line in text.splitlines())


def test_the_list_has_everybody_and_fits():
    result = run()
    assert result.exit_code == 0
    assert widest(result.stdout) <= 100
    members, others = result.stdout.split("Not members")
    for part, entries in ((members, MEMBERS), (others, NON_MEMBERS)):
        listed = [line.split()[0] for line in part.splitlines() if line[:1].isalpha()]
        assert [name for name in listed if name in entries] == list(entries)
    row = next(line for line in members.splitlines() if line.startswith("prototypical "))
    assert "rigid" in row
    assert "identikit family NAME" in result.stderr


@pytest.mark.parametrize("name", [*MEMBERS, *NON_MEMBERS])
def test_an_explanation_says_all_and_fits(name):
    result = run(name)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert widest(result.stdout) <= 100
    printed = " ".join(result.stdout.split())
    entry = find(name)
    said = [entry.title, entry.reference]
    if isinstance(entry, Member):
        said += [entry.f, entry.g, entry.candidates, entry.layer, entry.diversity, entry.remarks]
        said += [f"{entry.group}: {GAUGES[entry.group]}"]
    else:
        said += [entry.reason, entry.what_holds_instead]
    # The label of a line stands before its text, never inside it: only wraps are undone.
    for text in said:
        assert text in printed


def test_an_explanation_by_alias():
    stdout = run("GPT2").stdout
    assert stdout.startswith("gpt: a member of the softmax family, identified up to linear maps\n")
    assert "identikit.family.find('gpt').head(f, g)" in stdout
    assert run("sgns").stdout.startswith("word2vec: not a member")


def test_json_of_the_list():
    result = run("--json")
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert [entry["name"] for entry in document["members"]] == list(MEMBERS)
    assert [entry["name"] for entry in document["non_members"]] == list(NON_MEMBERS)
    assert {entry["name"]: entry["group"] for entry in document["members"]} == EXPECTED_GROUPS


def test_json_of_one():
    result = run("cpc", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert document["member"] is True
    assert document["head"] == "cpc(contexts, weights, encodings)"
    assert document["f"] == MEMBERS["cpc"].f
    other = json.loads(run("word2vec", "--json").stdout)
    assert other["member"] is False
    assert other["reason"] == NON_MEMBERS["word2vec"].reason


@pytest.mark.parametrize("json_flag", [[], ["--json"]])
def test_an_unknown_name_ends_with_2_and_a_suggestion(json_flag):
    result = run("gtp2", *json_flag)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'gtp2'" in result.stderr
    assert "did you mean gpt?" in result.stderr
    assert result.stderr.count("\n") == 1


def test_help_has_an_example():
    assert "Example: identikit family gpt2" in run("--help").stdout


def test_the_verb_itself_imports_nothing_heavy():
    code = "import sys, identikit.cli._family; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
