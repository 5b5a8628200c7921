"""reizinger-exchangeable: its cells, what it measures, and that its checks can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from identikit.studies import INCONCLUSIVE, NOT, REPRODUCED, UNMEASURED, Settings, Tables, run
from identikit.studies import _exchangeable_units as units
from identikit.studies import reizinger_exchangeable as study
from identikit.studies._exchangeable_units import CELLS
from identikit.studies.reizinger_exchangeable import CDF, LINGAM

CHECKS = {claim.key: claim.check for claim in study.CLAIMS}
TINY = Settings(study.SMOKE | {"environments": [20, 30], "duality_rows": 200})


# Units


def test_a_repetition_has_one_structure_and_one_mechanism_in_all_cells():
    worlds = [units.drawn(3, cell, 50)[0] for cell in CELLS]
    assert len({world.structure for world in worlds}) == 1
    assert len({tuple(world.coefficients) for world in worlds}) == 1
    structures = [units.drawn(seed, "cause", 10)[0].structure for seed in range(60)]
    assert min(structures.count(each) for each in units.STRUCTURES) >= 10


def test_cells_are_what_they_are_called():
    seed = next(seed for seed in range(99) if units.drawn(seed, "both", 10)[0].structure != "none")
    varies = {cell: units.drawn(seed, cell, 10)[0].varies for cell in CELLS}
    assert [varies[cell] for cell in ("neither", "cause", "mechanism", "both")] == [
        "neither", "cause", "mechanism", "both"
    ]  # fmt: skip
    assert not any(CELLS[cell][2] for cell in CELLS if cell in ("neither", "cause"))
    for name in ("cause", "mechanism", "both"):
        bare, switched = CELLS[f"{name} ±1"], CELLS[f"{name} ±1, switch"]
        assert bare[:2] == switched[:2]
        assert (bare[2], switched[2]) == (False, True)
    assert units.largest_drift(3) == 0


def test_decisions_are_a_row_a_cell_a_size_and_a_method(monkeypatch):
    monkeypatch.setattr(units, "find_spec", lambda _name: None)
    rows = pd.DataFrame(units.decisions(0, 2, TINY).rows)
    assert len(rows) == 2 * len(CELLS) * 2
    assert set(rows["method"]) == {CDF}
    assert (rows["correct"] == (rows["answer"] == rows["structure"])).all()
    assert (rows["edge"] == (rows["structure"] != "none")).all()
    pd.testing.assert_frame_equal(rows, pd.DataFrame(units.decisions(0, 2, TINY).rows))


@pytest.mark.extra("causal")
def test_lingam_finds_the_edge_of_linear_data_and_is_fooled_by_the_switch():
    pytest.importorskip("causallearn")
    right = {"neither": 0, "mechanism": 0}
    for cell in right:
        for seed in range(12):
            world, sample = units.drawn(seed, cell, 200)
            right[cell] += units.lingam(sample.observations) == world.structure
    assert right["neither"] >= 11
    assert right["mechanism"] <= 9


def test_the_readings_of_tcl_agree_and_equal_environments_identify_nothing():
    rows = pd.DataFrame(units.duality(0, TINY).rows).set_index("where")
    assert rows.loc["mixing", "moved"] == 0 < rows.loc["equal", "moved"]
    for column in ("mcc", "accuracy", "identified"):
        assert abs(rows.loc["sources", column] - rows.loc["mixing", column]) < 1e-12
    assert rows.loc["mixing", "mcc"] > 0.95
    assert rows.loc["equal", ["rank", "identified"]].tolist() == [0, 0]
    # Five environments: by chance a fifth.
    assert rows.loc["mixing", "accuracy"] > 0.25


# Checks, on tables that are made up: shares of right answers on edges, and without one.

RIGHT: dict[tuple[str, str], float] = {(cell, CDF): 0.95 for cell in CELLS}
RIGHT |= {(cell, LINGAM): 0.2 for cell in CELLS} | {("neither", LINGAM): 1.0, ("neither", CDF): 0.5}
SIZES = {100: -0.2, 300: 0.0, 500: 0.03}


def made_up(
    seeds: int = 600, right: dict[tuple[str, str], float] | None = None, slope: float = 1.0,
    silent: dict[str, float] | None = None, readings: dict[str, dict[str, float]] | None = None,
    drift: float = 0.0, sure: float = 1.0, none: float = 0.85,
) -> Tables:  # fmt: skip
    """Tables in which every claim holds, but for changes."""
    rng = np.random.default_rng(0)
    shares, quiet = RIGHT | (right or {}), {"neither": 0.96} | (silent or {})
    parts, edge = [], np.arange(seeds) % 3 > 0
    for (cell, method), share in shares.items():
        for n, less in SIZES.items():
            changed = share + (slope * less if method == CDF and "switch" in cell else 0)
            draws = rng.random((3, seeds))
            correct = draws[0] < np.where(edge, changed, none)
            agree = draws[2] < np.where(correct, sure, 1 - sure)
            known = {"seed": np.arange(seeds), "cell": cell, "method": method, "environments": n}
            found = {"edge": edge, "correct": 1.0 * correct}
            found |= {"silent": 1.0 * (draws[1] < quiet.get(cell, 0.01)), "independent": 0.0}
            parts.append(pd.DataFrame(known | found | {"agreement": np.where(agree, 0.95, 0.5)}))
    good = {"rank": 3, "needed": 3, "moved": 0.0, "mcc": 0.99, "identified": 1.0, "accuracy": 0.4}
    bad = {"rank": 0, "needed": 3, "moved": 9.0, "mcc": 0.8, "identified": 0.0, "accuracy": 0.2}
    read = [
        {"seed": seed, "where": where, **values, **(readings or {}).get(where, {})}
        for seed in range(min(seeds, 10))
        for where, values in (("sources", good), ("mixing", good), ("equal", bad))
    ]
    return {
        "decisions": pd.concat(parts, ignore_index=True),
        "readings": pd.DataFrame(read),
        "drift": pd.DataFrame({"drift": [drift]}),
    }


#: What is expected where all is as the theory says, without a word on the switch.
AS_PUBLISHED = made_up()


@pytest.mark.parametrize("key", CHECKS)
def test_all_claims_hold_where_all_is_as_claimed(key: str):
    # That the published set-up is worse without its switch cannot hold together with the claims
    # that it is as good.
    tables = made_up(right={("both ±1", CDF): 0.5}) if key == "without" else AS_PUBLISHED
    assert CHECKS[key](tables).verdict == REPRODUCED


def low(cell: str, share: float = 0.5, method: str = CDF) -> dict[str, Any]:
    return {"right": {(cell, method): share}}


FAR: dict[str, dict[str, Any]] = {
    "cause": low("cause"),
    "mechanism": low("mechanism"),
    "both": low("both"),
    "published": low("both ±1, switch"),
    "published-cause": low("cause ±1, switch"),
    "published-mechanism": low("mechanism ±1, switch"),
    "grows": {"slope": -1.0, "right": {("both ±1, switch", CDF): 0.8}},
    "few": low("both ±1, switch", 0.1) | {"none": 0.3},
    "lingam": {"right": {("both ±1, switch", LINGAM): 1.0, ("both ±1, switch", CDF): 0.6}},
    "cause-alone": low("cause ±1"),
    "mechanism-alone": low("mechanism ±1"),
    "both-alone": low("both ±1"),
    "duality": {"readings": {"mixing": {"mcc": 0.8}}},
    "iid": low("neither", 0.87),
    "iid-overall": low("neither", 0.9),
    "planted": low("mechanism", 0.5),
    "switch": low("mechanism", 0.5),
    "without": {"right": {("both ±1, switch", CDF): 0.7}},
    "silent": {"silent": {"neither": 0.5}},
    "named": {"silent": {"neither": 0.5}},
    "not-silent": {"silent": {"cause": 0.5}},
    "not-silent-mechanism": {"silent": {"mechanism": 0.5}},
    "sure": {"sure": 0.5, "right": {(cell, CDF): 0.6 for cell in ("cause", "mechanism", "both")}},
    "lingam-iid": low("neither", 0.5, LINGAM),
    "equal": {"readings": {"equal": {"identified": 0.5}}},
    "same": {"readings": {"mixing": {"moved": 1e-9}}},
    "verdicts": {"readings": {"mixing": {"accuracy": 0.41}}},
    "rank": {"readings": {"mixing": {"rank": 2}}},
    "rank-equal": {"readings": {"equal": {"rank": 1}}},
    "strict": {"drift": 0.1},
}


def test_every_check_is_tried():
    assert set(FAR) == set(CHECKS)


@pytest.mark.parametrize("key", FAR)
def test_every_check_can_fail(key: str):
    assert CHECKS[key](made_up(**FAR[key])).verdict == NOT


IDENTITIES = {claim.key for claim in study.CLAIMS if claim.kind == "check"}


@pytest.mark.parametrize("key", sorted(set(CHECKS) - IDENTITIES))
def test_one_repetition_concludes_nothing(key: str):
    # The second repetition is the first that has an edge.
    tables = made_up(2)
    one = {
        name: table[table["seed"] == 1] if "seed" in table else table
        for name, table in tables.items()
    }
    assert CHECKS[key](one).verdict in (INCONCLUSIVE, UNMEASURED)


def test_without_causal_learn_only_lingam_is_not_measured():
    decided = AS_PUBLISHED["decisions"]
    tables = AS_PUBLISHED | {"decisions": decided[decided["method"] == CDF]}
    found = {key for key, check in CHECKS.items() if check(tables).verdict == UNMEASURED}
    assert found == {"lingam", "lingam-iid"}


@pytest.mark.parametrize("key", [key for key in CHECKS if key != "strict"])
def test_what_was_not_run_was_not_measured(key: str):
    tables = {name: table.iloc[:0] for name, table in AS_PUBLISHED.items()}
    assert CHECKS[key](tables).verdict == UNMEASURED


def test_the_published_numbers_stand_beside_ours():
    table = study.beside(AS_PUBLISHED["decisions"]).set_index(["cell", "method", "environments"])
    row = table.loc[("both ±1, switch", CDF, 500)]
    assert row["published"] == 0.91
    assert 0.9 < row["overall"] < 1
    assert table.loc[("cause ±1, switch", LINGAM, 300), "published"] == 0.51
    assert np.isnan(table.loc[("cause", CDF, 300), "published"])
    parts = (2 * table["edge"] + table["no edge"]) / 3
    assert (parts - table["overall"]).abs().max() < 1e-9


def test_the_figure_has_four_panels():
    figure = study.figure(made_up(9), Settings(study.LAPTOP))
    assert len(figure.axes) == 4


@pytest.mark.slow
def test_smoke(tmp_path: Path):
    result = run("reizinger-exchangeable", preset="smoke", folder=tmp_path / "out")
    assert set(result.findings) == set(CHECKS)
    for key in IDENTITIES:
        assert result.findings[key].verdict == REPRODUCED, key
    assert {"decisions", "readings", "published", "drift"} == set(result.tables)
