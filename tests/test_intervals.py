"""Coverage of the intervals, by the script that writes docs/intervals.md, at a few sizes."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import binom

import identikit as ik
from identikit.factors._result import interval_of

DOCS = Path(__file__).parents[1] / "docs"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_intervals", DOCS / "intervals.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for their module there
    spec.loader.exec_module(module)
    return module


iv = load()
PAIRS, NEAR, ICA, FACTORS = iv.SECTIONS


def assert_honest(cells: list, least: float = 0.93) -> None:
    """No interval covers so rarely that one in a thousand would, at the lower end of the bar."""
    for cell in cells:
        assert cell.hits >= binom.ppf(0.001, cell.repeats, least), cell


# What the script itself does


def test_intervals_of_a_normal_mean_are_counted_as_what_they_are(rng):
    """95 % intervals of known width, and the same at half their width: 67 %."""
    values = rng.normal(size=2000)
    for width, rate in ((1.96, 0.95), (0.98, 0.673)):
        said = [iv.Said(v, (v - width, v + width)) for v in values]
        hits, above, below = iv.covered(said)
        assert hits + above + below == 2000
        assert hits / 2000 == pytest.approx(rate, abs=0.03)
        assert above == pytest.approx(below, abs=90)
    shifted = [iv.Said(v, (v + 9, v + 10), truth=0.0) for v in values]
    assert iv.covered(shifted) == (0, 2000, 0)


def test_a_cell_is_called_low_or_wide_only_beyond_monte_carlo_error():
    def verdict(hits: int, repeats: int) -> str:
        return iv.Cell("", "", "Gaussian", 200, 4, repeats, hits, 0, repeats - hits).verdict

    assert [verdict(h, 200) for h in (175, 182, 190, 198, 200)] == ["low", "", "", "", "wide"]
    assert verdict(20, 20) == ""


@pytest.mark.parametrize("kind", ["Gaussian", "Laplace", "Student t5", "grouped"])
def test_populations_have_the_covariances_that_the_truth_takes_for_granted(kind, monkeypatch):
    monkeypatch.setitem(iv.GROUPS, 100_000, 20_000)
    rows = iv.draw(kind, 100_000, 3, np.random.default_rng(0))
    x, y = rows.views[0], rows.views[3]
    noise = y - x @ rows.linear
    close = 0.05 if kind == "Student t5" else 0.02
    assert np.cov(x.T) == pytest.approx(np.diag(iv.spectrum(3) ** 2), abs=close)
    assert np.cov(noise.T) == pytest.approx(iv.NOISE**2 * np.eye(3), abs=close)
    assert np.abs(np.cov(x.T, noise.T)[:3, 3:]).max() < close
    assert (rows.labels is not None) == (kind == "grouped")


def test_the_error_of_a_map_in_closed_form_is_that_on_many_new_rows():
    rng = np.random.default_rng(0)
    rows = iv.draw("Gaussian", 200, 4, rng)
    new = iv.draw("Gaussian", 200_000, 4, rng)
    for group, view, planted in (("rigid", 2, rows.rotation), ("affine", 3, rows.linear)):
        fitted = ik.align(rows.views[0], rows.views[view], group=group)
        x, y = new.views[0], new.views[view]
        missed = ((y - fitted.transform(x)) ** 2).sum() / ((y - y.mean(axis=0)) ** 2).sum()
        assert iv.true_error(fitted, planted) == pytest.approx(np.sqrt(missed), rel=0.01)


def test_the_intervals_are_those_that_an_audit_prints():
    rows = iv.draw("Gaussian", 200, 4, np.random.default_rng(3))
    said = iv.of_pairs("Gaussian", 200, 4, np.random.default_rng(3), 0)
    pair = ik.audit(rows.views[:2]).comparisons[0]
    for name, scored in pair.measures.items():
        assert said[name].interval == pytest.approx(scored.interval, rel=1e-9), name
    for name, view in (("rigid", 2), ("affine", 3)):
        pair = ik.audit([rows.views[0], rows.views[view]]).comparisons[0]
        there = next(rung for rung in pair.ladder if rung.group == name)
        assert said[f"audit, {name} rung"].interval == pytest.approx(there.interval, rel=1e-9)
        fitted = ik.align(rows.views[0], rows.views[view], group=name)
        assert said[f"align, {name} map"].interval == pytest.approx(fitted.interval, rel=1e-9)
    held_out = pair.cca.held_out_interval
    assert said["cca, held out"].interval == pytest.approx(held_out, rel=1e-9)


def test_what_is_kept_is_not_done_again_and_the_page_has_it(tmp_path, monkeypatch, capsys):
    section = iv.Section(PAIRS.title, "Words.", PAIRS.said, ("Gaussian",), (4, 64), {200: 1.0})
    monkeypatch.setattr(iv, "SECTIONS", (section,))
    keep = tmp_path / "kept"
    cells = iv.run(4, keep)
    assert capsys.readouterr().err.count("4 samples") == 2
    assert iv.run(4, keep) == cells
    assert capsys.readouterr().err == ""
    page = iv.page(cells)
    assert "| interval | rows | 200 × 4 | *200 × 64* |" in page
    for cell in cells:
        assert f"| {cell.interval} | Gaussian |" in page


@pytest.mark.slow
def test_the_page_has_every_interval_of_every_section():
    page = (DOCS / "intervals.md").read_text(encoding="utf-8")
    for section in iv.SECTIONS:
        assert f"## {section.title}" in page
        for kind in section.kinds:
            said = section.said(kind, 200, 4, np.random.default_rng(0), 0)
            for name, each in said.items():
                if each.interval is not None:
                    assert f"| {name} | {kind} |" in page
    assert re.search(r"\d\d ± \d \(\d+\)", page)


# Coverage


def test_intervals_of_pairs_cover():
    cells = iv.simulate(PAIRS, "Gaussian", 200, 4, 60)
    assert len(cells) == 16
    assert_honest(cells)


def test_without_labels_dependent_rows_are_not_covered_and_with_labels_they_are():
    """Errors of maps: the script can tell an interval that is too narrow from one that is not."""

    def said(kind, n, d, rng, _):
        rows = iv.draw(kind, n, d, rng)
        return iv.of_errors(rows, ik.accumulate(rows.views, groups=rows.labels, sample=0))

    def hits(kind: str) -> list[int]:
        cells = iv.simulate(replace(PAIRS, said=said), kind, 1000, 4, 40)
        return [cell.hits for cell in cells]

    assert min(hits("grouped")) >= binom.ppf(0.001, 40, 0.93)
    assert max(hits("grouped, labels not given")) < binom.ppf(0.001, 40, 0.93)


def test_an_interval_of_a_metric_is_of_the_distance_from_its_best_value():
    """Of √(1 − v), by hand, and never beyond the ends."""
    without = np.array([0.95, 0.955, 0.96, 0.965, 0.97])
    low, high = interval_of(0.96, without, 0.0)
    roots = np.sqrt(1 - without)
    half = 2.776445 * np.sqrt(0.8 * ((roots - roots.mean()) ** 2).sum())
    assert (low, high) == pytest.approx((1 - (0.2 + half) ** 2, 1 - (0.2 - half) ** 2), rel=1e-6)
    assert 0.96 - low > 1.5 * (high - 0.96) > 0
    assert interval_of(0.9, np.array([0.1, 0.99]), 0.0) == (0.0, 1.0)
    assert interval_of(1.0, np.ones(5)) == (1.0, 1.0)
    assert interval_of(-1.0, np.array([-1.1, -0.9]))[0] < -1.5


def test_intervals_of_modularity_cover():
    """In 74 %, too few still; of the value itself in 68 %, and all others lay above the truth."""

    def said(kind, n, d, rng, number):
        x, codes = iv.draw(kind, n, d, rng).views[:2]
        score = ik.factors.modularity(codes, x, permutations=0, seed=number)
        return {"modularity": iv.Said(score.value, score.interval)}

    (cell,) = iv.simulate(replace(FACTORS, said=said), "Gaussian", 200, 4, 200)
    assert cell.hits >= 0.71 * 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "n", "d"),
    [
        *((kind, n, d) for kind in iv.INDEPENDENT for n, d in ((200, 4), (1000, 16), (1000, 64))),
        ("grouped", 200, 4),
    ],
)
def test_intervals_of_pairs_cover_at_more_sizes(kind, n, d):
    """90 % at least with groups, of which there are ten for each column."""
    assert_honest(iv.simulate(PAIRS, kind, n, d, 100), 0.93 if kind != "grouped" else 0.9)


@pytest.mark.slow
def test_intervals_of_metrics_cover_where_the_page_says_so():
    cells = iv.simulate(FACTORS, "Gaussian", 1000, 4, 60)
    names = {"mcc", "mcc_spearman", "mcc_linear", "r2", "sap", "mig"}
    assert_honest([cell for cell in cells if cell.interval in names])
