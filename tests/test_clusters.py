"""Which views belong together: planted clusters, the tree and its cuts, the plane, the words."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy.cluster.hierarchy import cophenet, is_valid_linkage
from scipy.spatial.distance import pdist, squareform

import identikit as ik
from conftest import close
from fake_audit import LOW_RANK, make_audit, make_pair, many_views, of_errors, two_views
from identikit.auditing import Audit, Cluster
from identikit.auditing.result import Check
from identikit.report import html, print_result
from identikit.report._pair_svg import pair_svg
from identikit.report.layer_names import two_models
from identikit.report.plots import plot_clusters


def sets(clusters: tuple[Cluster, ...]) -> list[set[str]]:
    """The views of each cluster."""
    return [set(one.views) for one in clusters]


def families(*groups: str, within: float, between: float) -> Audit:
    """Views called by single letters, the same distance apart within a family and between them."""
    own = {name: group for group in groups for name in group}
    return of_errors(
        {(a, b): within if own[a] == own[b] else between for a, b in combinations(own, 2)}
    )


# The clusters of planted errors


def test_four_that_agree_and_a_control():
    errors = {pair: 0.23 + 0.01 * n for n, pair in enumerate(combinations("abcd", 2))}
    errors |= {(name, "control"): 0.95 for name in "abcd"}
    found = of_errors(errors).clusters
    assert sets(found.at_gap) == [set("abcd"), {"control"}]
    assert found.alone == ("control",)
    close(found.gap, [found.tree[2, 2], 0.95], 1e-12)
    assert found.order[-1] == "control"
    seeds, control = found.at_gap
    assert seeds == Cluster(
        ("a", "b", "c", "d"), "affine", (0.23, 0.28), (1 - 0.28**2, 1 - 0.23**2)
    )
    assert control == Cluster(("control",), None, None, None)
    assert sets(found.at_tolerance) == [{name} for name in ("a", "b", "c", "d", "control")]


def test_two_families_of_three():
    found = families("abc", "xyz", within=0.08, between=0.6).clusters
    assert sets(found.at_gap) == sets(found.at_tolerance) == [set("abc"), set("xyz")]
    assert found.alone == ()
    assert found.order in (("a", "b", "c", "x", "y", "z"), ("x", "y", "z", "a", "b", "c"))


def test_all_the_same():
    found = families("abcde", within=0.04, between=1).clusters
    assert sets(found.at_gap) == sets(found.at_tolerance) == [set("abcde")]
    assert found.gap is not None
    close(found.gap, [0.04, 1.0], 1e-12)
    assert found.best[0].group == "affine"


def test_all_unrelated():
    found = families(*"abcde", within=0, between=1.01).clusters
    assert found.gap is None
    assert found.at_gap == ()
    assert found.alone == tuple("abcde")
    assert sets(found.best) == [{name} for name in "abcde"]


def test_tolerance_and_gap_can_differ():
    found = of_errors({("a", "b"): 0.2, ("a", "c"): 0.9, ("b", "c"): 0.9}).clusters
    assert sets(found.at_tolerance) == [{"a"}, {"b"}, {"c"}]
    assert sets(found.at_gap) == [{"a", "b"}, {"c"}]


@pytest.mark.parametrize(("near", "far", "clear"), [(0.6, 0.91, True), (0.67, 0.95, False)])
def test_a_gap_is_clear_from_a_ratio_of_one_and_a_half(near, far, clear):
    found = of_errors({("a", "b"): near, ("a", "c"): far, ("b", "c"): far}).clusters
    assert found.gap == (pytest.approx((near, far)) if clear else None)


def test_of_gaps_about_as_wide_the_highest_counts():
    errors = {("a", "b"): 0.1, ("a", "c"): 0.3, ("b", "c"): 0.3}
    errors |= {(name, "d"): 0.95 for name in "abc"}
    assert sets(of_errors(errors).clusters.at_gap) == [set("abc"), {"d"}]


def test_views_the_same_within_the_tolerance_are_never_parted_by_the_gap():
    """The ratio of two errors that are both negligible says nothing."""
    errors = {("a", "b"): 1e-9, ("a", "c"): 0.09, ("b", "c"): 0.09}
    assert sets(of_errors(errors).clusters.at_gap) == [set("abc")]


def test_a_cluster_at_the_tolerance_has_no_pair_above_it():
    """Though the mean error between the branches is within it."""
    found = of_errors({("a", "b"): 0.05, ("a", "c"): 0.06, ("b", "c"): 0.13}).clusters
    assert sets(found.at_tolerance) == [{"a", "b"}, {"c"}]
    assert sets(found.at_gap) == [set("abc")]


def test_a_pair_whose_verdict_rests_on_a_few_rows_is_not_the_same():
    pairs = [make_pair(a, b, error=0.05, rows=10) for a, b in combinations("abc", 2)]
    pairs[0] = replace(pairs[0], within_tolerance=False)
    found = make_audit(list("abc"), pairs).clusters
    assert max(map(len, sets(found.at_tolerance))) == 2
    assert {"a", "b"} not in sets(found.at_tolerance)


def test_an_unrelated_pair_is_in_no_cluster_whatever_its_error():
    """As one that shares nothing but the order of its rows, which a map can explain."""
    pairs = [make_pair(a, b, error=0.2, rows=10) for a, b in combinations("abc", 2)]
    pairs[0] = replace(pairs[0], group="unrelated", candidates=("unrelated",), order_only=True)
    found = make_audit(list("abc"), pairs).clusters
    assert found.tree[-1, 2] == pytest.approx(0.6)
    assert not any({"a", "b"} <= one for one in (*sets(found.at_gap), *sets(found.at_tolerance)))


def test_pairs_that_were_not_compared_count_as_unrelated():
    audit = families("ab", "xy", within=0.05, between=0.3)
    some = tuple(pair for pair in audit.comparisons if pair.error < 0.1)
    found = replace(audit, comparisons=some).clusters
    assert sets(found.best) == [set("ab"), set("xy")]
    assert found.tree[-1, 2] == 1


def test_two_views_have_clusters_too():
    near, far = two_views(error=0.08).clusters, two_views(group="unrelated", error=0.99).clusters
    assert sets(near.best) == [{"seed 0", "seed 1"}]
    assert far.alone == ("seed 0", "seed 1")
    close(near.tree, [[0, 1, 0.08, 2]], 1e-12)
    close(np.ptp(near.coordinates, axis=0), [0.08, 0], 1e-12)
    assert near.in_plane == pytest.approx(1)


def test_equal_views_do_not_break_the_plane():
    found = of_errors(dict.fromkeys(combinations("abcd", 2), 0.0)).clusters
    close(found.coordinates, np.zeros((4, 2)), 1e-12)
    assert found.in_plane == 1
    assert sets(found.best) == [set("abcd")]


def test_a_real_audit(rng):
    """Four linear images of the same noisy rows, and rows of their own."""
    shared = rng.normal(size=(600, 4))
    views = {
        f"seed {n}": shared @ rng.normal(size=(4, 4)) + 0.1 * rng.normal(size=(600, 4))
        for n in range(4)
    }
    audit = ik.audit(views | {"control": rng.normal(size=(600, 4))})
    assert sets(audit.clusters.best) == [set(views), {"control"}]
    assert audit.clusters.alone == ("control",)
    assert audit.verdict.group == "unrelated"  # that of the worst pair, as ever
    assert audit.summary().startswith(
        "Of 5 views over 600 rows, seed 0, seed 1, seed 2 and seed 3 agree up to an invertible "
    )


# What holds for any errors


@st.composite
def audits(draw: st.DrawFn) -> Audit:
    """Errors from a few values, so that many are equal, or any."""
    count = draw(st.integers(2, 8))
    size = st.one_of(st.sampled_from([0.0, 0.05, 0.3, 0.9, 1.2]), st.floats(0, 1.5))
    names = [f"view {n}" for n in range(count)]
    return of_errors({pair: draw(size) for pair in combinations(names, 2)})


@given(audits())
def test_clusters_partition_the_views_along_the_tree(audit):
    found, names = audit.clusters, [view.name for view in audit.views]
    assert sorted(found.order) == sorted(names)
    assert is_valid_linkage(found.tree)
    for clusters in filter(None, (found.at_tolerance, found.at_gap)):
        assert sorted(name for one in clusters for name in one.views) == sorted(names)
        # Views of a cluster are beside each other in the order of the leaves.
        for one in clusters:
            places = sorted(found.order.index(name) for name in one.views)
            assert places[-1] - places[0] == len(places) - 1
    relation = {frozenset((pair.a, pair.b)): pair.relation for pair in audit.comparisons}
    for clusters, allowed in (
        (found.at_tolerance, {"same"}),
        (found.at_gap, {"same", "related"}),
    ):
        for one in clusters:
            assert {relation[frozenset(pair)] for pair in combinations(one.views, 2)} <= allowed
    # What is the same is together at the gap as well.
    if found.at_gap:
        assert all(
            any(small <= big for big in sets(found.at_gap)) for small in sets(found.at_tolerance)
        )


@given(audits(), st.randoms(use_true_random=False))
def test_the_order_of_the_views_does_not_matter(audit, random):
    views, pairs = list(audit.views), list(audit.comparisons)
    random.shuffle(views)
    random.shuffle(pairs)
    other = replace(audit, views=tuple(views), comparisons=tuple(pairs)).clusters
    for one, two in (
        (audit.clusters.at_gap, other.at_gap),
        (audit.clusters.at_tolerance, other.at_tolerance),
    ):
        assert set(map(frozenset, sets(one))) == set(map(frozenset, sets(two)))
    close(audit.clusters.tree[:, 2:], other.tree[:, 2:], 1e-12)
    # Heights between views are those of the same views.
    places = [[view.name for view in views].index(view.name) for view in audit.views]
    close(
        squareform(cophenet(audit.clusters.tree)),
        squareform(cophenet(other.tree))[np.ix_(places, places)],
        1e-12,
    )


def test_the_plane_keeps_distances_that_fit_into_one(rng):
    points = rng.uniform(0, 0.5, size=(7, 2))
    distances = squareform(pdist(points))
    names = [f"view {n}" for n in range(7)]
    found = of_errors(
        {(names[i], names[j]): float(distances[i, j]) for i, j in combinations(range(7), 2)}
    ).clusters
    close(squareform(pdist(found.coordinates)), distances, 1e-9)
    assert found.in_plane == pytest.approx(1)


# A pair in three words, and its variance


@pytest.mark.parametrize(
    ("group", "error", "relation"),
    [
        ("linear", 0.08, "same"),
        ("linear", 0.3, "related"),
        ("unrelated", 0.99, "unrelated"),
    ],
)
def test_a_pair_has_a_variance_and_a_relation(group, error, relation):
    audit = two_views(group=group, error=error)
    (pair,) = audit.comparisons
    assert pair.variance == 1 - error**2
    assert pair.relation == relation
    assert (pair.to_dict()["variance"], pair.to_dict()["relation"]) == (1 - error**2, relation)
    assert list(audit.pairs.relation) == [relation]
    assert list(audit.pairs.variance) == [1 - error**2]


def test_the_variance_is_never_negative():
    assert make_pair("a", "b", "unrelated", 1.3).variance == 0


def test_views_that_only_neighbours_relate_are_related():
    pair = replace(make_pair("a", "b", "affine", 0.98), group="related", candidates=("related",))
    assert pair.relation == "related"


def test_clusters_are_in_the_json():
    audit = many_views(6, control=True)
    document = json.loads(audit.to_json())["clusters"]
    assert document == audit.clusters.to_dict()
    assert list(document) == [
        "at_tolerance",
        "at_gap",
        "gap",
        "alone",
        "order",
        "tree",
        "coordinates",
        "in_plane",
    ]
    assert document["alone"] == ["shuffled"]
    assert set(document["at_gap"][0]) == {"views", "group", "error", "variance"}
    close(np.array(document["tree"]), audit.clusters.tree, 0)


# The words


def control() -> Audit:
    """Four views that agree, and one that agrees with none."""
    errors = {pair: 0.23 + 0.012 * n for n, pair in enumerate(combinations("abcd", 2))}
    return of_errors(errors | {(name, "control"): 0.95 for name in "abcd"})


def headline(audit: Audit) -> str:
    found = re.search("<strong>(.*?)</strong>", html(audit))
    assert found is not None
    return found[1]


def test_sentence_of_a_cluster_and_a_control():
    assert control().summary() == (
        "Of 5 views over 10,000 rows, a, b, c and d agree up to an invertible linear map and a "
        "shift (error 0.23 to 0.29, 92 to 95 % of the variance); control agrees with none of them "
        "(error 0.95 or more, at most 10 %). No two of the views are the same within the tolerance "
        "of 0.1."
    )
    assert headline(control()) == "4 of 5 views agree; the other agrees with none of them"


def test_sentence_of_two_families():
    audit = families("abc", "xyz", within=0.08, between=0.6)
    assert audit.summary() == (
        "Of 6 views over 10,000 rows, a, b and c are the same up to an invertible linear map and a "
        "shift (error 0.08, 99.4 % of the variance); x, y and z are the same up to an invertible "
        "linear map and a shift (error 0.08, 99.4 % of the variance)."
    )
    assert headline(audit) == "2 groups of views of 3 and 3"
    many = families("ab", "cd", "ef", "gh", "ij", "k", within=0.08, between=0.6)
    assert headline(many) == ("5 groups of views, the largest of 2, 2, 2 and 2; 1 agrees with none")
    assert "; 1 more groups agree among themselves; k agrees with none of them" in many.summary()


def test_sentence_of_views_that_are_all_the_same_names_the_worst_pair():
    audit = of_errors({("a", "b"): 0.02, ("a", "c"): 0.05, ("b", "c"): 0.04})
    assert audit.summary().startswith(
        "All 3 views are the same up to an invertible linear map and a shift: over 10,000 rows, "
        "even in the worst pair (a, c) one explains 99.8 % of the variance of the other, with a "
        "relative error of 0.050"
    )
    assert headline(audit) == "The same, up to an invertible linear map and a shift"


def test_sentence_of_unrelated_views():
    audit = families(*"abcd", within=0, between=1)
    assert audit.summary() == (
        "Of 4 views over 10,000 rows, no two agree: no map explains one from another beyond chance."
    )
    assert headline(audit) == "No two of 4 views agree"


def test_sentence_of_views_that_hardly_agree_names_the_nearest():
    errors = {("a", "b"): 0.8, ("a", "c"): 0.9, ("b", "c"): 1.0}
    assert of_errors(errors).summary() == (
        "Of 3 views over 10,000 rows, no two agree within the tolerance of 0.1, and none clearly "
        "more than others: a and b come nearest, up to an invertible linear map and a shift, with "
        "error 0.80 (36 % of the variance); 1 of 3 pairs are unrelated."
    )


def test_sentence_of_one_cluster_says_which_views_are_the_same():
    audit = of_errors({("a", "b"): 0.05, ("a", "c"): 0.3, ("b", "c"): 0.3})
    assert audit.summary() == (
        "Over 10,000 rows, all 3 views agree up to an invertible linear map and a shift (error "
        "0.05 to 0.30, 91 to 99.8 % of the variance). Within the tolerance of 0.1, a and b are the "
        "same up to an invertible linear map and a shift (error 0.05, 99.8 % of the variance)."
    )
    assert headline(audit).startswith("All 3 views agree up to an invertible linear map")


def test_sentence_of_many_views_lists_a_few():
    text = many_views(30, control=True).summary()
    assert "seed 0, seed 1, seed 2, seed 3, seed 4, seed 5 and 23 others agree" in text
    assert "shuffled agrees with none of them (unrelated)" in text


def test_two_views_have_the_sentence_of_their_pair():
    audit = two_views(error=0.31)
    assert audit.summary() == (
        "The views seed 0 and seed 1 are not the same within the tolerance of 0.1: over 10,000 "
        "rows, they agree best up to an invertible linear map, which explains 90 % of the "
        "variance, with a relative error of 0.31 (95% interval 0.29 to 0.33), above the tolerance."
    )


def printed(audit: Audit, width: int = 120) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    print_result(audit, console)
    return console.file.getvalue()


def test_a_warning_in_other_numbers_is_printed_once_with_its_pairs():
    def asymmetric(number: int) -> Check:
        return Check("asymmetry", "q?", 1.0, 2.0, False, f"One way the error is 0.{number}.")

    pairs = [
        make_pair(a, b, error=0.3, checks=(LOW_RANK, asymmetric(number)), rows=10)
        for number, (a, b) in enumerate(combinations("abcd", 2))
    ]
    audit = make_audit(list("abcd"), pairs)
    lines = [line for line in printed(audit, 400).splitlines() if line.startswith("!")]
    assert lines == [
        "! A view has rank 14 of 16 columns. (6 pairs)",
        "! One way the error is 0.0. Likewise, in other numbers: a and c; a and d; b and c and 2 "
        "more pairs.",
    ]


# Layers of two models


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["s0/layer_2", "s0/layer_10", "s1/layer_2", "s1/layer_3"], True),
        (["old: layer 0", "old: layer 1", "new: layer 0", "new: layer 1"], True),
        (["s0/layer_0", "s0/layer_1", "s0/f", "s1/layer_0", "s1/layer_1", "s1/f"], True),
        (["s0/layer_0", "s1/layer_0"], False),
        (["s0/layer_0", "s0/layer_1", "s1/layer_0"], False),
        (["s0/layer_0", "s0/layer_1", "s1/block_0", "s1/block_1"], False),
        (["s0/a", "s0/b", "s1/a", "s1/b"], False),
        (["mnist/seed_0", "mnist/seed_1", "cifar/seed_0", "cifar/seed_1"], False),
        (["layer_0", "layer_1", "layer_2", "layer_3"], False),
        ([f"s{m}/layer_{n}" for m in range(3) for n in range(2)], False),
        (["/1", "/2", ":3", "9" * 5000], False),
    ],
)
def test_layers_of_two_models_are_told_by_their_names(names, found):
    assert (two_models(names) is not None) == found


def layers() -> Audit:
    """Three layers each of two models; a layer is nearest to the one of its number."""
    names = [f"{model}/layer_{n}" for model in ("old", "new") for n in (2, 1, 10)]
    return of_errors({(a, b): 0.2 if a[3:] == b[3:] else 0.4 for a, b in combinations(names, 2)})


def test_layers_of_two_models_have_their_matrix():
    page = html(layers())
    box = page[page.index('aria-label="Matrix of layers"') :]
    box = box[: box.index("</table>")]
    heads = re.findall(r'<th scope="(col|row)"><bdi>([^<]*)</bdi>', box)
    assert heads == [
        ("col", "layer_1"),
        ("col", "layer_2"),
        ("col", "layer_10"),
        ("row", "layer_1"),
        ("row", "layer_2"),
        ("row", "layer_10"),
    ]
    assert re.findall(r"<b>([\d.]+)</b>", box) == [
        *("0.20", "0.40", "0.40"),
        *("0.40", "0.20", "0.40"),
        *("0.40", "0.40", "0.20"),
    ]
    assert box.count('class="near') == 3
    lines = printed(layers()).split("Layer by layer")[1].splitlines()
    nearest = [line.split()[:2] for line in lines if line.startswith("old/")]
    assert nearest == [[f"old/layer_{n}", f"new/layer_{n}"] for n in (1, 2, 10)]


def test_other_views_have_no_matrix_of_layers():
    assert "Layer by layer" not in html(control())
    assert "Layer by layer" not in printed(control())


# The page and the figure


def test_the_matrix_is_in_the_order_of_the_tree():
    names = ["control", "a", "b", "c"]
    errors = dict.fromkeys(combinations(names[1:], 2), 0.2)
    audit = of_errors({("control", name): 0.95 for name in names[1:]} | errors)
    assert audit.clusters.order == ("a", "b", "c", "control")
    page = html(audit)
    box = page[page.index('aria-label="Matrix of pairs"') :]
    heads = re.findall(r'<th scope="row"><bdi>([^<]*)</bdi>', box[: box.index("</table>")])
    assert heads == list(audit.clusters.order)
    rows = re.findall(r'viewBox="0 (\d) 100 1"', page)
    assert rows == ["0", "1", "2", "3"]
    assert page.count('id="tree"') == 1


def test_pages_of_two_views_have_neither_tree_nor_plane():
    page = html(two_views())
    assert 'id="tree"' not in page
    assert 'class="plane"' not in page


def test_the_plane_names_every_view_once_and_escapes_them():
    names = ["<script>alert(1)</script>", '"><img src=x>', "$x$ {{ 7*7 }}", "n" * 400]
    audit = of_errors(dict.fromkeys(combinations(names, 2), 0.3))
    page = html(audit)
    plane = page[page.index('<svg class="plane"') :]
    plane = plane[: plane.index("</svg>")]
    shown = re.findall(r'<text x="\d+" y="[^>]+>([^<]*)</text>', plane)
    assert len(shown) == 4
    assert all(len(text) < 120 for text in shown)
    assert "<script" not in page
    assert "<img" not in page
    assert plane.count("<circle") == 4


def test_the_page_says_which_pairs_have_figures():
    page = html(many_views(10))
    assert "Figures are shown for 30 of 45 pairs: the 20 worst, and the 10 others nearest" in page
    audit = many_views(10)
    drawn = set(re.findall(r'<article class="card" id="(pair-\d+)"', page))
    assert len(drawn) == 30
    errors = sorted((pair.error for pair in audit.comparisons), reverse=True)
    near = sorted(errors[20:], key=lambda error: abs(error - 0.1))[:10]
    cards = re.findall(r"<dt>error</dt><dd>([\d.]+)<", page)
    close([float(each) for each in cards], sorted([*errors[:20], *near], reverse=True), 6e-3)


def test_large_pages_stay_small():
    page = html(many_views(48, control=True))
    assert len(page.encode()) < 4_000_000
    assert page.count('<tr id="row-') == 48 * 47 // 2
    assert len(html(many_views(10)).encode()) < 2_000_000


def test_figure_of_the_clusters():
    figure = plot_clusters(control())
    tree, errors, plane = figure.axes
    assert [label.get_text() for label in tree.get_yticklabels()] == [*"abcd", "control"]
    assert len(tree.lines) == 5  # four joins and the tolerance
    assert len([text for text in errors.texts if text.get_text() == "0.95"]) == 8
    assert {text.get_text() for text in plane.texts} == {*"abcd", "control"}
    file = io.BytesIO()
    plot_clusters(two_views("$x_{", "[b]<c>")).savefig(file, format="svg")
    assert b"&lt;c&gt;" in file.getvalue()


def test_the_figure_of_a_pair_on_a_page_is_small_and_complete():
    pair = make_pair("first<name>", "second$name$", dims=400)
    text = str(pair_svg(pair, 0.1, "a label"))
    assert len(text) < 20_000
    assert text.startswith('<svg class="panels" viewBox="0 0 735 ')
    assert 'role="img" aria-label="a label"' in text
    assert "name" not in text
    titles = re.findall(r'class="title">([^<]*)<', text)
    assert titles == [
        "How strict a map is enough?",
        "How many directions are shared?",
        "Do the rows line up?",
    ]
    assert ">0.082</text>" in text
    assert [path.count("h0") for path in re.findall(r'class="cloud[^>]*d="([^"]*)"', text)] == [
        300,
        300,
    ]
    assert text.count('class="ring"') == 1
    rungs = re.findall(r'class="end" transform[^>]*>(\w+)<', text)
    assert rungs == [rung.group for rung in pair.ladder]


def test_what_was_not_computed_is_said_in_the_figure_of_a_page():
    pair = make_pair("a", "b", few_rows=True)
    empty = replace(pair, points=np.empty((0, 2, 2)))
    assert str(pair_svg(empty, 0.1, "x")).count("not computed") == 2
    one = replace(pair, points=pair.points[:, :, :1])
    text = str(pair_svg(one, 0.1, "x"))
    assert "■ axis 1" in text
    assert "axis 2" not in text


def test_errors_beyond_the_ladder_are_written_out_on_a_page():
    pair = make_pair("a", "b")
    ladder = (replace(pair.ladder[0], error=5e6), replace(pair.ladder[1], error=7.25))
    text = str(pair_svg(replace(pair, ladder=ladder + pair.ladder[2:]), 0.1, "x"))
    assert "&gt;99</text>" in text
    assert ">7.2</text>" in text
