"""nelson-mnist: both laws, the images, the claims, and that they can fail."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from conftest import close
from identikit.axes import near_identifiability
from identikit.errors import InputError
from identikit.studies import (
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    UNMEASURED,
    Data,
    Result,
    Settings,
    Tables,
    run,
)
from identikit.studies import _mnist_units as units
from identikit.studies import nelson_mnist as study

pytest.importorskip("torch")

#: In this process: starting others takes longer than all that they would do.
run_here = partial(run, engine="single")

CHECKS = {claim.key: claim.check for claim in study.STUDY.claims}
TINY: dict[str, Any] = {"alphas": [0.2, 1.0], "fixed": 0.2, "seeds": 3, "steps": 150}


@pytest.fixture(autouse=True, scope="module")
def _without_data() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("IDENTIKIT_DATA", raising=False)
        yield


def test_the_law_has_the_published_example() -> None:
    """α = 0.5 gives L = 7 and about 7.9 diameters; L = 0.03 gives 0.25."""
    close(units.law(0.5**-3 - 1), np.sqrt(63), 1e-12)
    close(units.law(0.03), 0.25, 0.005)
    assert units.law(0.0) == 0


def save_mnist(path: Path, rng: np.random.Generator) -> None:
    parts = {
        name: rng.integers(256, size=(n, 28, 28)) for name, n in (("train", 300), ("test", 90))
    }
    arrays = {f"x_{name}": part.astype(np.uint8) for name, part in parts.items()}
    labels = {f"y_{name}": np.zeros(len(part), np.uint8) for name, part in parts.items()}
    np.savez(path, **arrays, **labels)


def test_mnist_is_read_if_the_folder_has_it(tmp_path: Path, rng: np.random.Generator) -> None:
    assert Data(tmp_path).find(units.MNIST) is None
    assert Data("digits").find(units.MNIST) is None
    save_mnist(tmp_path / "mnist.npz", rng)
    path = Data(tmp_path).find(units.MNIST)
    train, test = units.images(path)
    with np.load(tmp_path / "mnist.npz") as archive:
        close(train, archive["x_train"].reshape(300, 784) / 255, 1e-6)
        close(test, archive["x_test"].reshape(90, 784) / 255, 1e-6)


def test_other_files_of_that_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mnist.npz"
    path.write_bytes(b"not an archive")
    with pytest.raises(InputError, match="damaged or of another kind"):
        units.images(path)
    np.savez(path, x_train=np.zeros((5, 28, 28), np.uint8))
    with pytest.raises(InputError, match="x_test"):
        units.images(path)
    np.savez(path, x_train=np.zeros((5, 28, 28)), x_test=np.zeros((5, 784), np.uint8))
    with pytest.raises(InputError, match=r"float64 \(5, 28, 28\) and uint8 \(5, 784\)"):
        units.images(path)


def test_digits_that_are_compared_on_are_not_learned_from() -> None:
    train, test = units.images(None)
    assert (train.shape, test.shape) == ((1198, 64), (599, 64))
    assert train.min() == 0
    assert train.max() == 1
    known = {row.tobytes() for row in train}
    assert sum(row.tobytes() in known for row in test) < 3


KINDS = [(0.1, 3), (0.3, 3), (0.6, 3), (1.0, 3), (0.3, 0), (0.3, 1), (0.3, 2)]


def planted(
    rng: np.random.Generator, seeds: int = 5, noise: float = 0.02, sign: float = 1.0
) -> Tables:
    """Tables in which the error is 0.01 √(2L+L²) with L measured, or falls with it.

    Inside a kind of network, L and the error differ by chance.
    """
    rows, models = [], []
    for stage in units.STAGES:
        for alpha, leaky in KINDS:
            bound = float(units.law(alpha**-leaky - 1))
            for seed in range(seeds):
                models.append(
                    {"alpha": alpha, "leaky": leaky, "stage": stage, "seed": seed,
                     "unexplained": 0.3, "sigma_max": 1.0, "sigma_min": alpha ** (0.7 * leaky),
                     "one_plus_L_bound": alpha**-leaky, "one_plus_L_measured": 1 / alpha}
                )  # fmt: skip
            for a, b in combinations(range(seeds), 2):
                usual = np.sqrt(bound)
                error = 0.01 * (sign * usual + (1 - sign) * 20)
                error = 0.5 if stage == "untrained" else error
                rows.append(
                    {"alpha": alpha, "leaky": leaky, "stage": stage, "a": a, "b": b,
                     "law_bound": bound, "law_measured": usual * (1 + noise * rng.normal()),
                     "unexplained": 0.3 + 0.01 * rng.uniform(), "shuffled": 0.6,
                     "mean": error * (1 + noise * rng.normal()),
                     "median": error, "q95": error, "largest": error}
                )  # fmt: skip
    pairs = pd.DataFrame(rows)
    return {"pairs": pairs, "summary": study.summary(pairs), "models": pd.DataFrame(models)}


def test_the_error_is_that_of_identikit_near(rng: np.random.Generator) -> None:
    x = rng.laplace(size=(300, 4))
    y = x @ np.linalg.qr(rng.normal(size=(4, 4)))[0] + 0.1 * rng.normal(size=x.shape)
    way = near_identifiability(x, y, fit_share=1.0, draws=1).directions[0]
    found = units.distances(x, y, every=1) / units.diameter(y)
    close(found.mean(), way.error("rigid").mean, 1e-9)
    close(found.max(), way.error("rigid").largest, 1e-9)
    # By default, half of the rows are scored, and the map is fitted on the others.
    assert len(units.distances(x, y)) == 150
    other = x.copy()
    other[1::2] += 100
    assert units.distances(other, y).min() > 10
    close(units.distances(x[:, ::-1], x, every=1), np.zeros(300), 1e-12)


@pytest.mark.parametrize("leaky", range(4))
def test_a_decoder_has_as_many_leaky_layers_as_it_should(leaky: int) -> None:
    net = units.autoencoder([12, 8, 6, 4], 0.1, leaky)
    names = [type(part).__name__ for part in net.g.children()]
    assert names.count("Orthogonal") == 3
    assert names == [
        name for k in range(3) for name in ("Orthogonal", *["LeakyReLU"] * (k < leaky))
    ]


def test_the_rank_correlation_is_spearmans_with_a_jackknife_over_seeds(
    rng: np.random.Generator,
) -> None:
    from scipy.stats import t

    pairs = study.at_stage(planted(rng, noise=0.5), "trained")
    value, interval = study.rank_correlation(pairs, "law_measured")
    close(value, spearmanr(pairs["law_measured"], pairs["mean"]).statistic, 1e-12)
    rest = np.array(
        [
            spearmanr(own["law_measured"], own["mean"]).statistic
            for own in (pairs[(pairs["a"] != seed) & (pairs["b"] != seed)] for seed in range(5))
        ]
    )
    half = t.ppf(0.975, 4) * np.sqrt(4 / 5 * np.sum((rest - rest.mean()) ** 2))
    close(interval, [max(value - half, -1), min(value + half, 1)], 1e-12)
    few = pairs[(pairs["a"] < 3) & (pairs["b"] < 3)]
    assert study.rank_correlation(few, "law_measured")[1] is None


def test_a_planted_law_is_found(rng: np.random.Generator) -> None:
    found = {key: check(planted(rng, seeds=8)) for key, check in CHECKS.items()}
    assert {key: finding.verdict for key, finding in found.items()} == dict.fromkeys(
        CHECKS, REPRODUCED
    )


@pytest.mark.parametrize(
    "key", ["falls", "every-step", "bound", "measured", "imperfect", "one-leak", "training"]
)
def test_every_check_can_fail(key: str, rng: np.random.Generator) -> None:
    """An error that falls where the law rises; and untrained pairs that are better."""
    tables = planted(rng, sign=-1.0)
    if key == "training":
        tables["pairs"].loc[tables["pairs"]["stage"] == "untrained", "mean"] = 1e-3
    assert CHECKS[key](tables).verdict == NOT


def test_one_step_that_rises_refutes_the_claim_about_every_step(rng: np.random.Generator) -> None:
    tables = planted(rng)
    pairs = tables["pairs"]
    pairs.loc[(pairs["alpha"] == 0.6) & (pairs["stage"] == "trained"), "mean"] *= 5
    found = CHECKS["every-step"](tables)
    assert found.verdict == NOT
    assert "0.3 to 0.6" in found.comment
    assert CHECKS["falls"](tables).verdict == REPRODUCED


def test_a_law_that_holds_inside_an_alpha_says_more_than_alpha(rng: np.random.Generator) -> None:
    tables = planted(rng, seeds=8)
    assert CHECKS["beyond-leak"](tables).verdict == REPRODUCED
    pairs = tables["pairs"]
    pairs["mean"] = 0.01 * pairs["law_measured"] * (1 + 1e-4 * rng.normal(size=len(pairs)))
    assert CHECKS["beyond-leak"](tables).verdict == NOT


def test_without_fewer_leaky_layers_one_leak_is_not_tested(rng: np.random.Generator) -> None:
    tables = planted(rng)
    tables["pairs"] = tables["pairs"][tables["pairs"]["leaky"] == 3]
    assert CHECKS["one-leak"](tables).verdict == UNMEASURED


def test_a_decoder_outside_its_range_is_seen(rng: np.random.Generator) -> None:
    tables = planted(rng)
    tables["models"].loc[3, "sigma_min"] = 1e-4
    assert CHECKS["isometry"](tables).verdict == NOT


def test_a_perfect_reconstruction_does_not_test_the_imperfect_one(
    rng: np.random.Generator,
) -> None:
    tables = planted(rng)
    tables["pairs"].loc[tables["pairs"]["alpha"] == 1.0, "unexplained"] = 0.01
    assert CHECKS["imperfect"](tables).verdict == INCONCLUSIVE


def test_a_law_that_does_not_vary_predicts_nothing(rng: np.random.Generator) -> None:
    tables = planted(rng)
    tables["pairs"]["law_measured"] = 1.0
    assert (CHECKS["measured"](tables).value, CHECKS["measured"](tables).verdict) == (
        None, INCONCLUSIVE,
    )  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run_here(
        "nelson-mnist",
        preset="smoke",
        folder=tmp_path_factory.mktemp("study") / "out",
        settings=TINY,
    )


@pytest.mark.slow
def test_a_run_has_the_promised_tables(small: Result) -> None:
    tables = small.tables
    # Two leaks and a decoder without leaky layers, two stages, and three seeds or pairs.
    assert len(tables["pairs"]) == 3 * 2 * 3
    assert len(tables["models"]) == 3 * 2 * 3
    for name in ("mean", "median", "q95", "largest", "shuffled", "law_bound", "law_measured"):
        assert np.isfinite(tables["pairs"][name]).all(), name
    for name in ("low", "high", "untrained", "unexplained"):
        assert np.isfinite(tables["summary"][name].astype(float)).all(), name
    pairs = tables["pairs"]
    assert (pairs["median"] <= pairs["q95"]).all()
    assert (pairs["q95"] <= pairs["largest"]).all()
    models = tables["models"]
    linear = models[(models["alpha"] == 1.0) | (models["leaky"] == 0)]
    close(linear["one_plus_L_measured"], np.ones(len(linear)), 1e-5)
    assert set(small.findings) == set(CHECKS)
    assert small.findings["isometry"].verdict == REPRODUCED
    # Pairs are told from chance, and trained ones from untrained.
    means = pairs.groupby("stage")["mean"].mean()
    assert means["trained"] < means["untrained"] < pairs["shuffled"].mean()


@pytest.mark.slow
def test_a_resumed_run_equals_a_whole_one(small: Result) -> None:
    units = small.folder / "units"
    for name in ("models,digits,alpha=1.0,leaky=3", "pairs,digits,alpha=1.0,leaky=3"):
        (units / f"{name}.safetensors").unlink()
    again = run_here("nelson-mnist", preset="smoke", folder=small.folder, settings=TINY)
    assert again.resumed == 4
    for name in ("models", "pairs", "summary"):
        numbers = [result.tables[name].select_dtypes("number") for result in (small, again)]
        close(numbers[1].to_numpy(), numbers[0].to_numpy(), 1e-12)


@pytest.mark.slow
def test_the_figure_calls_the_law_a_law(small: Result) -> None:
    figure = study.figure(small.tables, Settings(study.STUDY.presets["smoke"]))
    above, *laws = figure.axes
    labels = [text.get_text() for text in above.get_legend().get_texts()]
    assert {"untrained, mean", "rows shuffled, mean"} <= set(labels)
    assert len(laws) == 3
    for ax in laws:
        assert any("a scaling law, no bound" in text.get_text() for text in ax.get_legend().texts)


@pytest.mark.slow
def test_mnist_comes_before_the_digits(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_mnist(tmp_path / "mnist.npz", rng)
    monkeypatch.setenv("IDENTIKIT_DATA", str(tmp_path))
    few = {"seeds": 2, "alphas": [0.5, 1.0], "steps": 10, "widths": [16, 8, 4], "needs_mnist": True}
    few |= {"fixed": 0.5, "leaky": [0]}
    result = run_here("nelson-mnist", preset="smoke", folder=tmp_path / "out", settings=few)
    units = sorted(path.name.split(",")[1] for path in (tmp_path / "out" / "units").iterdir())
    assert units == ["mnist"] * 6
    assert {found.verdict for found in result.findings.values()} <= {INCONCLUSIVE, REPRODUCED, NOT}
    # One pair an α has no interval, so nothing that needs one is concluded.
    assert result.findings["falls"].verdict == INCONCLUSIVE


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seeds": 1}, "two seeds or more"),
        ({"alphas": [0.5]}, "two leaks"),
        ({"alphas": [0.0, 1.0]}, "above 0 and at most 1"),
        ({"widths": [16, 8]}, "widths is"),
        ({"fixed": 0.2}, "one of the leaks"),
        ({"leaky": [3]}, "numbers of leaky layers from 0 to 2"),
        ({"needs_mnist": True}, "learns from MNIST"),
    ],
)
def test_settings_that_will_not_do(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        run_here("nelson-mnist", preset="smoke", folder=tmp_path / "out", settings=settings)


@pytest.mark.slow
def test_the_smoke_preset(tmp_path: Path) -> None:
    found = run_here("nelson-mnist", preset="smoke", folder=tmp_path / "out").findings
    # So short a training shows no more than this.
    for key in ("isometry", "training"):
        assert found[key].verdict == REPRODUCED, key
