"""The audit's unsupervised rung: the same axes after ICA of each view alone."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console
from typer.testing import CliRunner

import identikit as ik
from identikit.auditing import _axes
from identikit.auditing._axes import ROWS, sample_rows
from identikit.auditing.checks import Context, Evidence, ica_axes, ica_variance
from identikit.auditing.result import OwnAxes, RungError, SharedAxes
from identikit.axes import axes_apart, corrected_rung, ica_rung, view_axes
from identikit.cli import app
from identikit.moments import SAMPLE
from identikit.report import html, print_result
from identikit.report.plots import plot_ladder

Array = NDArray[np.float64]


def shared_sources(count: int = 2, n: int = 4000, width: int = 4) -> list[Array]:
    """Views that mix the same independent sources, each with some noise."""
    rng = np.random.default_rng(0)
    S = np.column_stack([rng.laplace(size=(n, width - 2)), rng.uniform(-2, 2, size=(n, 2))])
    mixes = [np.linalg.qr(rng.normal(size=(width, width)))[0] for _ in range(count)]
    return [
        S @ (mix * rng.uniform(0.5, 2, width)) + 0.05 * rng.normal(size=S.shape) for mix in mixes
    ]


@pytest.fixture(scope="module")
def audited() -> tuple[list[Array], ik.auditing.Audit]:
    views = shared_sources()
    return views, ik.audit(views, ica=True)


def test_views_of_the_same_sources_have_the_same_axes(audited):
    _, audit = audited
    (pair,) = audit.comparisons
    affine = next(rung for rung in pair.ladder if rung.group == "affine")
    assert pair.group in ("linear", "affine")
    assert affine.error <= pair.ica.rung.error < affine.error + 0.05
    assert pair.ica.random_rotation > 0.5
    assert pair.ica.rows == 2000
    assert (pair.ica.a, pair.ica.b) == (OwnAxes(4, 1.0, True, 4), OwnAxes(4, 1.0, True, 4))
    assert not any("ICA" in warning for warning in pair.warnings)


def test_the_rung_is_that_of_the_ladder_of_axes(audited):
    views, audit = audited
    ica = audit.comparisons[0].ica
    moments = ik.accumulate(views, sample=ROWS)
    axes = view_axes(moments, 0, 0), view_axes(moments, 1, 1)
    apart = axes_apart(moments, 0, 0, axes[0]), axes_apart(moments, 1, 1, axes[1])
    forward, backward = corrected_rung(moments, 0, 1, axes, apart)
    assert ica.rung.forward == pytest.approx(forward.error, rel=1e-9)
    assert ica.rung.backward == pytest.approx(backward.error, rel=1e-9)
    assert ica.rung.error == max(ica.rung.forward, ica.rung.backward)
    assert ica.rung.interval[0] < ica.rung.error < ica.rung.interval[1]


@pytest.mark.parametrize("sampled", [False, True])
def test_with_groups_or_more_rows_than_the_sample_all_rows_are_scored(sampled):
    """Of groups the sample knows nothing, and of many rows few had a part in the axes."""
    views = shared_sources(n=ROWS + 1000 if sampled else 1500)
    groups = None if sampled else np.arange(1500) // 10
    ica = ik.audit(views, ica=True, groups=groups).comparisons[0].ica
    moments = ik.accumulate(views, groups=groups, sample=ROWS)
    assert (len(moments.sample.keys) < moments.rows) == sampled
    axes = view_axes(moments, 0, 0), view_axes(moments, 1, 1)
    forward, backward = ica_rung(moments, 0, 1, axes)
    assert ica.rung.forward == pytest.approx(forward.error, rel=1e-9)
    assert ica.rung.backward == pytest.approx(backward.error, rel=1e-9)


def test_the_error_is_that_of_new_rows():
    """Rows that axes were found on flatter them; what an audit says is what others show."""
    said, flattering, new = [], [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        turn = np.linalg.qr(rng.normal(size=(10, 10)))[0]

        def views(rng=rng, turn=turn):
            S = rng.laplace(size=(300, 10))
            return [S, S @ turn + 0.3 * rng.normal(size=S.shape)]

        moments = ik.accumulate(views(), sample=300)
        axes = view_axes(moments, 0, 0), view_axes(moments, 1, 1)
        apart = axes_apart(moments, 0, 0, axes[0]), axes_apart(moments, 1, 1, axes[1])
        said.append(corrected_rung(moments, 0, 1, axes, apart)[0].error)
        flattering.append(ica_rung(moments, 0, 1, axes)[0].error)
        others = [ik.accumulate(views(), sample=0) for _ in range(10)]
        new.append(np.mean([ica_rung(other, 0, 1, axes)[0].error for other in others]))
    gap, before = np.mean(new) - np.mean(said), np.mean(new) - np.mean(flattering)
    assert before > 0.01, before
    assert abs(gap) < before / 2, (gap, before)


def test_nothing_else_depends_on_it(audited, monkeypatch):
    """The verdict, the ladder and all measures are those of an audit without it."""
    views, audit = audited
    monkeypatch.setattr(_axes, "view_axes", None)  # and without it no axes are looked for
    plain = ik.audit(views)
    assert plain.comparisons[0].ica is None
    assert plain.settings == audit.settings
    one, other = (result.to_dict() for result in (plain, audit))
    assert one["pairs"][0].pop("ica") is None
    assert other["pairs"][0].pop("ica")["error"] == audit.comparisons[0].ica.rung.error
    names = [check["name"] for check in other["pairs"][0]["checks"]]
    assert {"ica axes", "ica variance"} <= set(names)
    other["pairs"][0]["checks"] = [
        check for check in other["pairs"][0]["checks"] if not check["name"].startswith("ica")
    ]
    assert one == other


def test_gaussian_views_share_a_space_and_no_axes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    audit = ik.audit([X, X @ np.linalg.qr(rng.normal(size=(5, 5)))[0]], ica=True)
    (pair,) = audit.comparisons
    assert (pair.group, pair.ica.a.identified, pair.ica.b.identified) == ("rigid", 0, 0)
    assert pair.error < 1e-6
    assert pair.ica.rung.error > 0.3
    (warning,) = pair.warnings
    assert "0 of 5 axes of view 'view0' and 0 of 5 axes of view 'view1'" in warning


@pytest.mark.long
def test_each_view_is_looked_at_once_a_half_in_one_pass_or_in_several(monkeypatch):
    views = shared_sources(3, n=2000, width=120)
    whole = ik.audit(views, ica=True)
    looked, original = [], _axes.view_axes

    def spy(moments, place, half):
        looked.append((moments.names[place], half))
        return original(moments, place, half)

    monkeypatch.setattr(_axes, "view_axes", spy)
    parts = ik.audit(views, ica=True, memory=58_000_000)
    assert "passes over pairs" in parts.settings.reading
    assert (
        len(looked) == len(set(looked)) == 4
    )  # the first view has no second half, the last no first
    for one, other in zip(whole.comparisons, parts.comparisons):
        assert other.ica.random_rotation == pytest.approx(one.ica.random_rotation, rel=0.05)
        assert other.ica.rows < one.ica.rows == 1000  # a smaller budget, a smaller sample


def test_rows_are_sampled_within_an_eighth_of_the_memory():
    rows, left = sample_rows([64, 64], 10**9)
    assert (rows, left) == (ROWS, 10**9 - (ROWS - SAMPLE) * 24 * 128)
    rows, left = sample_rows([512] * 4, 10**8)
    assert SAMPLE < rows < ROWS
    assert 10**8 * 7 // 8 <= left < 10**8
    assert sample_rows([10**6], 10**8) == (SAMPLE, 10**8)
    assert sample_rows([2, 2], None)[0] == ROWS


def test_moments_bring_their_own_rows(audited, tmp_path: Path):
    views, audit = audited
    rung = audit.comparisons[0].ica.rung
    moments = ik.accumulate(views, sample=4000)
    again = ik.audit(moments, ica=True)
    assert again.comparisons[0].ica.rung.error == pytest.approx(rung.error, rel=1e-9)
    # Measures that compare all rows of the sample with each other still take a thousand.
    assert again.settings.sample == SAMPLE == audit.settings.sample
    assert again.comparisons[0].measures == audit.comparisons[0].measures
    path = tmp_path / "two.moments"
    kept = ik.audit(views, ica=True, save_moments=path)
    assert kept.comparisons[0].ica.rung.error == pytest.approx(rung.error, rel=1e-9)
    assert ik.audit(path, ica=True).comparisons[0].ica == kept.comparisons[0].ica


def test_why_there_is_no_rung_is_said():
    views = shared_sources()
    for audit, count in (
        (ik.audit(ik.accumulate(views, sample=0), ica=True), 0),
        (ik.audit([view[:30] for view in views], ica=True), 30),
    ):
        (pair,) = audit.comparisons
        assert pair.ica is None
        assert pair.to_dict()["ica"] is None
        assert any(f"the row sample has {count} rows" in text for text in pair.warnings)
        assert "error_ica" not in audit.pairs
        assert not any(isinstance(x, float) and np.isnan(x) for x in audit.pairs.iloc[0])


@pytest.mark.long
def test_wide_views_say_how_much_of_them_was_looked_at():
    views = shared_sources(n=600, width=60)
    (pair,) = ik.audit(views, ica=True).comparisons
    ica = pair.ica
    assert (ica.a.components, ica.b.components, ica.rows) == (17, 17, 300)  # 17² < 300
    assert 0 < ica.a.variance < 0.9
    assert ica.rung.backward**2 > 1 - ica.a.variance
    (warning,) = [text for text in pair.warnings if "cannot be below" in text]
    floor = np.sqrt(1 - min(ica.a.variance, ica.b.variance))
    assert "the 300 rows that ICA has of each view are enough for 17 components" in warning
    assert f"cannot be below {floor:.2f}" in warning


def test_reduced_views_are_compared_by_their_leading_directions():
    views = shared_sources(n=500, width=300)
    audit = ik.audit(views, ica=True, memory=12_000_000)
    assert audit.views[0].reduced_to is not None
    assert audit.comparisons[0].ica.a.components <= 22


def evidence(ica: SharedAxes | str | None) -> Evidence:
    moments = ik.accumulate([np.eye(6)[:, :2], np.eye(6)[:, 2:4]], names=["x", "y"])
    return Evidence(moments, 0, 1, Context(ica=ica), (), "affine", 0.0, None, 0.0)


def test_the_checks_of_ica():
    rung = RungError("ica", 0.1, (0.0, 0.2), 0.1, (0.0, 0.2), 0.1, (0.0, 0.2))
    good = OwnAxes(4, 1.0, True, 3)
    for check in (ica_axes.check, ica_variance.check):
        assert check(evidence(None)) is None
        assert check(evidence(SharedAxes(rung, 1.0, 100, good, good))).ok
    assert ica_variance.check(evidence("too few")) is None
    absent = ica_axes.check(evidence("too few"))
    assert (absent.ok, absent.value) == (False, None)
    assert absent.message == "no axes after ICA: too few."
    shaky = ica_axes.check(
        evidence(SharedAxes(rung, 1.0, 100, good, replace(good, identified=1, converged=False)))
    )
    assert (shaky.ok, shaky.value) == (False, 0.25)
    assert "1 of 4 axes of view 'y';" in shaky.message
    assert shaky.message.endswith("; ICA of 'y' has not converged.")
    stopped = ica_axes.check(
        evidence(SharedAxes(rung, 1.0, 100, replace(good, converged=False), good))
    )
    assert stopped.message == "ICA of 'x' has not converged."
    part = ica_variance.check(evidence(SharedAxes(rung, 1.0, 100, good, OwnAxes(2, 0.64, True, 2))))
    assert (part.ok, part.value) == (False, 0.64)
    assert "2 components of view 'y', with 64% of its variance" in part.message
    assert "cannot be below 0.60" in part.message


def test_table_document_and_page(audited, tmp_path: Path):
    _, audit = audited
    ica = audit.comparisons[0].ica
    assert audit.pairs["error_ica"].item() == ica.rung.error
    document = json.loads(audit.to_json())["pairs"][0]["ica"]
    assert document["interval"] == list(ica.rung.interval)
    assert document["random_rotation"] == ica.random_rotation
    assert document["a"] == {"components": 4, "variance": 1.0, "converged": True, "identified": 4}
    audit.report(tmp_path / "audit.html")
    page = (tmp_path / "audit.html").read_text()
    assert f"random rotation {ica.random_rotation:.3f}" in page
    assert "<dt>After ICA</dt>" in page


def test_the_figure_has_it_apart_from_the_ladder(audited):
    _, audit = audited
    (pair,) = audit.comparisons
    (ax,) = plot_ladder(pair, tolerance=0.1).axes
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels == [*(rung.group for rung in pair.ladder), "after ICA"]
    last = ax.get_xticks()[-1]
    drawn = {float(line.get_ydata()[0]) for line in ax.lines if line.get_xdata()[0] == last}
    assert drawn == {pair.ica.rung.error, min(pair.ica.random_rotation, 1.25)}
    (plain,) = plot_ladder(replace(pair, ica=None), tolerance=0.1).axes
    assert len(plain.get_xticks()) == len(pair.ladder)


def test_a_pair_without_it_has_a_dash_beside_one_with_it(audited):
    _, audit = audited
    (pair,) = audit.comparisons
    other = replace(pair, b="other", ica=None)
    views = (*audit.views, replace(audit.views[1], name="other"))
    both = replace(audit, views=views, comparisons=(pair, other))
    console = Console(width=100, record=True, file=io.StringIO())
    print_result(both, console)
    printed = console.export_text()
    assert "after" in printed
    assert f"{pair.ica.rung.error:.3f}" in printed
    assert "–  " in next(line for line in printed.splitlines() if re.search(r"other +\w+ +0", line))
    page = html(both)
    assert page.count("<dt>error after ICA</dt>") == 1
    assert "after ICA" not in html(replace(both, comparisons=(other,)))


def test_the_command_line_has_it(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, view in zip("ab", shared_sources(n=500)):
        np.save(f"{name}.npy", view)
    run = CliRunner().invoke(app, ["audit", "a.npy", "b.npy", "--ica", "--json", "--quiet"])
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["pairs"][0]["ica"]["a"]["components"] == 4
    run = CliRunner().invoke(app, ["audit", "a.npy", "b.npy", "--ica", "--quiet"])
    assert "after" in run.stdout
    run = CliRunner().invoke(app, ["audit", "a.npy", "b.npy", "--quiet"])
    assert "ICA" not in run.stdout
