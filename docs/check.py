"""Write the tables of docs/check.md: which causes are named, what passes, which rows are foreign.

    python docs/check.py [--data FOLDER] [--to PAGE] [--only TABLE]

Changes are those of tests/planted_changes.py, planted in vectors on which no limit was set. FOLDER
is the one that IDENTIKIT_DATA names (by default ../shared/data beside the repository). Takes some
minutes on one core.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

import identikit as ik

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from planted_changes import bfloat16, planted, rotation, unit  # noqa: E402

PAGE = Path(__file__).with_name("check.md")
START, END = "<!-- {} -->\n", "<!-- end of {} -->\n"

Array = NDArray[np.float64]

#: Models of one width on each collection, by the name of the pair's pinned side in the table.
MODELS = {
    "retrieval/cranfield.npz": [
        "doc_minilm_l6", "doc_minilm_l6_sre", "doc_minilm_l6_int8", "doc_gte_small", "doc_para_l3",
        "doc_granite_30m",
    ],
    "retrieval/cacm.npz": [
        "doc_minilm_l6", "doc_minilm_l6_sre", "doc_minilm_l6_int8", "doc_gte_small", "doc_para_l3",
        "doc_granite_30m",
    ],
    "embedding_versions/gutenberg.npz": [
        "minilm_l6_v2", "sre_finetuned", "minilm_l6_int8", "gte_small", "paraphrase_l3",
    ],
}  # fmt: skip
NAMES = {
    "minilm_l6_v2": "minilm_l6", "sre_finetuned": "minilm_l6_sre", "paraphrase_l3": "para_l3",
}  # fmt: skip


def spectra(rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Gaussian rows with other spectra, widths and counts than those of the tests."""
    for rows, width in ((60, 16), (300, 16), (1000, 64), (60, 64), (60, 768)):
        steep, few = np.arange(1, width + 1) ** -1.0, np.where(np.arange(width) < 2, 10.0, 1.0)
        turned = rng.normal(size=(rows, width)) * steep @ rotation(rng, width)
        yield f"a steep spectrum, {rows} × {width}", unit(turned + 0.05 * rng.normal(size=width))
        if width == 768:
            continue
        # Not of unit length, not centred, and most of the variance in two columns.
        yield f"two large columns, {rows} × {width}", 7 * rng.normal(size=(rows, width)) * few + 3
        flat = unit(rng.normal(size=(rows, width)))
        yield f"a flat spectrum, {rows} × {width}", flat


def vectors(folder: Path, rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Sets of at most 1,000 rows, on which no limit was set."""
    with np.load(folder / "embedding_versions" / "gutenberg.npz") as data:
        for name in ("minilm_l6_v2", "wordllama_256", "glove6b_50"):
            rows = data[name].astype(float)
            yield f"Gutenberg, {name}", unit(rows[rows.any(axis=1)][:1000])
    with np.load(folder / "embedding_versions" / "spacy_en_core_web_sm_36_vs_38.npz") as data:
        yield "spaCy tokens", data["v36"].astype(float)[::8][:1000]
    with np.load(folder / "svcca_two_seeds.npz") as data:
        yield "MNIST logits", data["MNIST_model0"].astype(float).T[:1000]
        yield "units of an SVHN layer", data["SVHN_model0"].astype(float).T[:, ::10]
    yield from spectra(rng)


def unseen(folder: Path) -> Iterator[tuple[str, Array]]:
    """Sets that were looked at only after the last change of a rule."""
    with np.load(folder / "singlecell" / "pbmc_3500.npz") as data:
        yield "principal components of blood cells", _widest(data)
    with np.load(folder / "singlecell" / "cell_lines.npz") as data:
        yield "principal components of cell lines", _widest(data)
    with np.load(folder / "dsprites_vae_latents.npz") as data:
        yield "latents of a VAE", _widest(data)


def _widest(data: Mapping[str, NDArray[Any]]) -> Array:
    """1,000 rows of the first of the widest arrays of a file."""
    views = [data[name] for name in sorted(data) if data[name].ndim == 2]
    return max(views, key=lambda rows: rows.shape[1]).astype(float)[:1000]


def copies(x: Array, rng: np.random.Generator) -> dict[str, NDArray[np.generic]]:
    """The same vectors after what happens to copies."""
    turn, narrow = rotation(rng, x.shape[1]), x.astype(np.float32)
    turned = narrow @ turn.astype(np.float32) @ turn.T.astype(np.float32)
    text = np.array([[f"{value:.6g}" for value in row] for row in x], dtype=float)
    return {
        "the same numbers": x.copy(),
        "float32": narrow,
        "float16": x.astype(np.float16),
        "bfloat16": bfloat16(x),
        "other sums in float32": turned,
        "six digits of text": text,
    }


def causes_and_copies(
    sets: Iterable[tuple[str, Array]], rng: np.random.Generator
) -> tuple[str, str]:
    """Plant every change in every set: a table of causes, and one of harmless copies."""
    named: dict[bool, dict[str, Counter[str]]] = {k: defaultdict(Counter) for k in (True, False)}
    passed: dict[str, list[bool]] = defaultdict(list)
    shapes: Counter[bool] = Counter()
    for _, x in sets:
        reference, wide = ik.pin(x), len(x) <= x.shape[1]
        shapes[wide] += 1
        for (cause, _variant), y in planted(x, rng).items():
            # Numbers that have few digits anyway are not changed by rounding.
            true = "same" if cause == "rounding" and np.array_equal(x, y) else cause
            found = ik.check(y, reference).cause
            assert found is not None
            named[wide][true][found.name] += 1
        for name, y in copies(x, rng).items():
            passed[name].append(bool(ik.check(y, reference)))
    kinds = [wide for wide in (False, True) if shapes[wide]]
    titles = {False: "more rows than columns", True: "fewer"}
    heads = [f"{shapes[wide]} sets with {titles[wide]} | otherwise named" for wide in kinds]
    lines = [f"| planted | {' | '.join(heads)} |", "|---|" + "---:|---|" * len(kinds)]
    for cause in named[False]:
        cells = [f"`{cause}`"]
        for wide in kinds:
            count = named[wide][cause]
            others = [f"{name} {times}" for name, times in count.items() if name != cause]
            cells += [f"{count[cause]} of {count.total()}", ", ".join(others)]
        lines.append(f"| {' | '.join(cells)} |")
    right = sum(c[cause] for each in named.values() for cause, c in each.items())
    total = sum(c.total() for each in named.values() for c in each.values())
    lines += ["", f"In all, {right} of {total} are named right ({right / total:.1%})."]
    harmless = ["| copy | passes |", "|---|---:|"]
    harmless += [f"| {name} | {sum(ok)} of {len(ok)} |" for name, ok in passed.items()]
    return "\n".join(lines) + "\n", "\n".join(harmless) + "\n"


def flagged(found: ik.CheckResult) -> NDArray[np.bool_]:
    """Which rows are flagged."""
    assert found.foreign is not None
    out = np.zeros(found.foreign.rows, dtype=bool)
    out[list(found.foreign.flagged)] = True
    return out


def foreign(folder: Path) -> str:
    """Detection of 10 % foreign rows and false alarms, for all pairs of models of one width."""
    rng = np.random.default_rng(7)
    rates: dict[str, list[float]] = defaultdict(list)
    alarms: list[float] = []
    for file, models in MODELS.items():
        with np.load(folder / file) as data:
            rows = {name: data[name].astype(float) for name in models}
        for old in models:
            for new in (name for name in models if name != old):
                order = rng.permutation(len(rows[old]))
                pinned, index = order[: len(order) // 2], order[len(order) // 2 + 1 :]
                other = rng.random(len(index)) < 0.1
                mixed = np.where(other[:, None], rows[new][index], rows[old][index])
                flags = flagged(ik.check(mixed, ik.pin(rows[old][pinned]), rows=True))
                rates[_pair(old, new)].append(float(flags[other].mean()))
                alarms.append(float(flags[~other].mean()))
    lines = ["| pinned, and foreign | rows found (least and most) |", "|---|---:|"]
    for pair in sorted(rates):
        low, high = min(rates[pair]), max(rates[pair])
        lines.append(f"| {pair} | {low:.1%} to {high:.1%} |")
    lines += [
        "",
        f"Of the pinned model's own rows beside them, {np.mean(alarms):.2%} are flagged "
        f"({len(alarms)} pairs; {min(alarms):.1%} to {max(alarms):.1%}), and 1 % is stated.",
        "",
        _contents(folder),
    ]
    return "\n".join(lines) + "\n"


def _pair(old: str, new: str) -> str:
    one, two = (NAMES.get(name, name.removeprefix("doc_")) for name in (old, new))
    twins = {"minilm_l6", "minilm_l6_int8"}
    if {one, two} == twins:
        return "the model and its int8 export"
    if "minilm_l6_sre" in (one, two) and {one, two} & twins:
        kept = "its parent" if one == "minilm_l6_sre" else "a fine-tuned successor"
        return f"{'a fine-tuned successor' if one == 'minilm_l6_sre' else 'the model'}, {kept}"
    return "models of other weights"


def _contents(folder: Path) -> str:
    """How often half of the books look like another model beside the other half, and their rows."""
    told, shares, remarked, times = 0, list[float](), 0, 0
    with np.load(folder / "embedding_versions" / "gutenberg.npz") as data:
        books = data["label"]
        for name in (*MODELS["embedding_versions/gutenberg.npz"], "wordllama_256", "glove6b_50"):
            rows = data[name].astype(float)
            for seed in range(5):
                some = np.random.default_rng(seed).permutation(np.unique(books))
                there = np.isin(books, some[: len(some) // 2])
                found = ik.check(rows[~there][:-1], ik.pin(rows[there]), rows=True)
                assert found.foreign is not None
                population, times = found.foreign.population, times + 1
                told += population is not None and population.told
                remarked += population is not None and not population.told
                shares.append(len(found.foreign.flagged) / found.foreign.rows)
    return (
        f"With half of the books of a collection pinned and the others in the index, all by one "
        f"model, {np.mean(shares):.1%} of the rows are flagged; a population of its own is called "
        f"another model's in {told} of {times} cases, and remarked in {remarked}."
    )


def main() -> None:
    """Measure, and write the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("IDENTIKIT_DATA"))
    parser.add_argument("--to", type=Path, default=PAGE)
    parser.add_argument("--only", choices=("foreign rows", "causes", "unseen"))
    options = parser.parse_args()
    folder = Path(options.data or ROOT.parent / "shared" / "data")
    page = PAGE.read_text(encoding="utf-8")
    tables = {}
    if options.only in (None, "foreign rows"):
        tables["foreign rows"] = foreign(folder)
    if options.only in (None, "unseen"):
        tables["unseen"] = causes_and_copies(unseen(folder), np.random.default_rng(2026))[0]
    if options.only in (None, "causes"):
        rng = np.random.default_rng(2026)
        tables["causes"], tables["copies"] = causes_and_copies(vectors(folder, rng), rng)
    for name, table in tables.items():
        start, end = START.format(name), END.format(name)
        before, rest = page.split(start)
        page = before + start + table + end + rest.split(end)[1]
    options.to.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
