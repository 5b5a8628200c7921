"""`migrate` on real test collections: known figures, and verdicts against queries held back."""

from __future__ import annotations

import numpy as np
import pytest

import identikit as ik
from identikit.retrieval import _verdict as verdicts

#: nDCG@10 of exact cosine search, as the collection's own README has it.
KNOWN = {"minilm_l6": 0.374, "gte_small": 0.407, "wordllama_256": 0.308, "use_ml": 0.195}
MODELS = [
    "wordllama_256",
    "para_l3",
    "minilm_l6",
    "minilm_l6_int8",
    "minilm_l6_sre",
    "gte_small",
    "granite_30m",
    "use_ml",
]


def migrated(data_dir, name: str, old: str, new: str, **options) -> ik.Migration:
    path = data_dir / "retrieval" / f"{name}.npz"
    return ik.migrate(
        f"{path}::doc_{old}",
        f"{path}::doc_{new}",
        queries=(f"{path}::query_{old}", f"{path}::query_{new}"),
        qrels=f"{path}::qrels",
        **options,
    )


@pytest.mark.parametrize(("old", "new"), [("minilm_l6", "gte_small"), ("wordllama_256", "use_ml")])
def test_known_figures(data_dir, old, new):
    found = migrated(data_dir, "cranfield", old, new)
    assert (found.documents, found.judged) == (1398, 225)
    for option, model in (("stay", old), ("re-embed", new)):
        value = found.option(option).values["ndcg"]
        assert value.mean == pytest.approx(KNOWN[model], abs=5e-4)
        assert value.interval[0] < value.mean < value.interval[1]
    rescored = found.option("map-rescore").values["overlap"].mean
    assert rescored > found.option("map-queries").values["overlap"].mean


def test_a_quantised_model_is_the_same_model(data_dir):
    found = migrated(data_dir, "cranfield", "minilm_l6", "minilm_l6_int8")
    assert found.verdict.choice == "stay"
    assert found.option("swap").values["overlap"].mean > 0.9


def test_zero_vectors_of_a_real_collection_are_refused_or_dropped(data_dir):
    with pytest.raises(ik.InputError, match=r"1 rows of zeros.*--drop-zeros"):
        migrated(data_dir, "cacm", "glove_50", "minilm_l6")
    found = migrated(data_dir, "cacm", "glove_50", "minilm_l6", drop_zeros=True)
    assert (found.documents, found.judged) == (3203, 52)
    assert found.warnings[0].startswith("1 documents and 0 queries are zeros")


def right(columns: dict[str, np.ndarray], choice: str) -> bool:
    """On queries held back: not clearly worse than staying, and nothing clearly better."""
    counts = verdicts.drawn_counts(len(columns["stay"]), 1000, [9])
    gaps = np.column_stack([values - columns[choice] for values in columns.values()])
    return not (verdicts.means(gaps, counts, alike=True).low > 0).any()


@pytest.mark.slow
def test_verdicts_hold_on_queries_held_back(data_dir):
    """The verdict from one half of the queries, judged by the other half: 19 of 20 are right."""
    rng = np.random.default_rng(0)
    pairs = [(old, new) for old in MODELS for new in MODELS if old != new]
    good = []
    for place in rng.permutation(len(pairs))[:24]:
        for name in ("cranfield", "cacm"):
            found = migrated(data_dir, name, *pairs[place])
            there = ~np.isnan(found.per_query["stay"]["ndcg"])
            columns = {option: each["ndcg"][there] for option, each in found.per_query.items()}
            for _ in range(5):
                mine, others = np.array_split(rng.permutation(int(there.sum())), 2)
                here = {option: values[mine] for option, values in columns.items()}
                held_back = {option: values[others] for option, values in columns.items()}
                good.append(right(held_back, verdicts.judged_verdict(here, 1000, 0).choice))
    assert np.mean(good) >= 0.95


def test_few_queries_that_differ_are_said(data_dir):
    """Between a model and its int8 copy; intervals stay within what is possible."""
    found = migrated(data_dir, "cacm", "minilm_l6", "minilm_l6_int8")
    assert not any("rough" in text for text in found.warnings)
    path = data_dir / "retrieval" / "cacm.npz"
    with np.load(path) as held:
        both = [held[f"query_{name}"][:30] for name in ("minilm_l6", "minilm_l6_int8")]
        qrels = held["qrels"]
    few = ik.migrate(
        f"{path}::doc_minilm_l6",
        f"{path}::doc_minilm_l6_int8",
        queries=both,
        qrels=qrels[qrels[:, 0] < 30],
    )
    mapped, stay = (few.per_query[name]["ndcg"] for name in ("map-index", "stay"))
    differ = int((mapped != stay)[~np.isnan(stay)].sum())
    said = next(text for text in few.warnings if "rough" in text)
    assert said.startswith(f"Only few of {few.judged} queries differ from staying in nDCG@10 (")
    assert f"map-index {differ}" in said
    for option in few.options[1:]:
        low, high = option.values["ndcg"].difference_interval
        assert low > -0.1
        assert high < 0.1
