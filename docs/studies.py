"""Write docs/studies.md from the folders of studies that have been run.

python docs/studies.py DIR [DIR ...]

The sections of these studies are written anew, those of others stay as they were. The table at the
top counts the verdicts in all sections. Every measured number is read from a folder's claims.json;
only the words are typed by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from identikit.studies import INCONCLUSIVE, NOT, REPRODUCED, UNMEASURED, Result, find, load
from identikit.studies._report import HOLDS, TITLES, duration, grouped, headline, measured, told

PAPER = next(iter(TITLES))

TOP = """# What the studies measured

Of each paper, how many of its claims a small experiment reproduces, at the preset `laptop`. All
claims follow below, study by study, and at the end what surprised us.

{table}

A claim of the paper is *reproduced* if the 95 % interval over seeds (treatments in nelson-batches)
lies within what the claim allows, *not reproduced* if it lies outside, *inconclusive at this scale*
if neither, and *not measured* if what it is about was left out. What counts is said with each
claim. Where a claim is inconclusive, the number of seeds that would tell is estimated from the
spread of those that there are. A claim about an optimum is judged on the seeds that reach it, and
says which share of the seeds that is, with Wilson's interval. Controls are claims of our own;
checks are identities and bounds, which hold unless the code is wrong. Neither is counted as a claim
of the paper. Holm's correction is for the number of the paper's claims in a study: what remains
after it is reproduced at 5 % for all of them together.

A study is an experiment of a paper that anyone can run, stop, resume and check:

```
identikit study list
identikit study run roeder-classification --preset smoke     # a minute, to see it run
identikit study run roeder-classification --preset laptop    # what this page shows
identikit study show roeder-classification-laptop
```

`laptop` ends in under 20 minutes on two cores and `paper` has the paper's settings. This page is
written by `python docs/studies.py` from the folders of the runs. Times are the sum of what the
units took, on a machine that had other work to do; on an idle one they are shorter.
"""

SURPRISED = "What surprised us"
# {study:claim:verdict} is replaced by what the page has of this claim, if that is its verdict;
# otherwise the words would be wrong, and the sentence is left out.
SURPRISES = (
    "The embeddings of words, which are the first picture of linear identifiability, overlap less "
    "than the picture suggests: with the full softmax the best linear map explains "
    "R² = {roeder-words:overlap-softmax:not reproduced} of held-out words. The theorem presupposes "
    "equal distributions, and two trainings do not have them: their relative logit gap is "
    "{roeder-words:premise:not reproduced}. Where trainings end at one optimum, R² is "
    "{roeder-words:theorem-windows:reproduced} in the paper's own model, and it falls as the "
    "distributions move apart: its rank correlation with the gap is "
    "{roeder-words:dose-windows:reproduced}.",
    "In the classifiers of the teacher's labels, the plain input is already a linear map of the "
    "learned features (mean CCA {roeder-classification:input:reproduced}), so that this experiment "
    "is a weak test of the theorem.",
    "Wider networks are much more alike if they start from PyTorch's weights, as the authors' do: "
    "log₂ of d_LLV changes by {nielsen-width:llv-4:reproduced} with each doubling of the width "
    "(K = 4), and that of d_fg by {nielsen-width:fg-4:reproduced}.",
    "The published bound 2Mε on d_fg is far from tight (the largest ratio is "
    "{nielsen-width:bound:reproduced}); 2ε², which follows from the same proof, is much closer "
    "({nielsen-width:sharper:reproduced}).",
    "Wider networks of contrastive predictive coding are more alike, but so are untrained ones: "
    "less these, the similarity of f changes by {roeder-cpc:width-learned-f:not reproduced} with "
    "each doubling of the width.",
    "More images make networks of contrastive predictive coding more alike by the slope over all "
    "numbers of images ({roeder-cpc:data-f:reproduced} for f), but that is the step from the "
    "fewest: they are most alike with a tenth of the images, and less with three tenths and all.",
    "In small GPT-2s of different width the last layers are not the most alike: their lead over "
    "the best of the other layers is {roeder-gpt2:last-more:not reproduced} at k = 8. Nor are they "
    "once the means of tokens and positions are taken out ({roeder-gpt2:contextual:not "
    "reproduced}), although they had been after shorter trainings.",
    "The decoder's distortion L predicts how far autoencoders of different leaks differ, but among "
    "networks that differ in their seed alone it predicts nothing: the rank correlation is "
    "{nelson-mnist:beyond-leak:reproduced}.",
    "An autoencoder with ICA is hardly better disentangled than principal components of the "
    "pixels, once codes are weighted and entries at chance are gated: its InfoM is higher by "
    "{nelson-disentangle:pixels-gated:reproduced}.",
    "On microscopy images ICA loses to raw features in held-out weeks: the difference in AUROC is "
    "{nelson-batches:over-raw-weeks:not reproduced}. In held-out plates and cell lines it gains "
    "{nelson-batches:over-random:reproduced} over a random rotation; its gain over raw features "
    "is open ({nelson-batches:over-raw:inconclusive at this scale}), because it loses to them on "
    "compounds and beats them on knocked-out genes.",
    "Of the other models of Table 2, the β-TCVAE is the one to beat: in the published form, the "
    "InfoM of AE + ICA minus that of the β-TCVAE is "
    "{nelson-disentangle:infom-tc:not reproduced}, and minus that of the BioAE "
    "{nelson-disentangle:infom-bio:reproduced}.",
    "At 80 % of random labels a classifier has lost some of the latents, which the paper does not "
    "see: R² changes by {reizinger-cross-entropy:noise-80:not reproduced}.",
    "On images AnInfoNCE keeps more of the classes than InfoNCE, not less: the difference in "
    "accuracy is {reizinger-aninfonce:images-classes:not reproduced}.",
    "One environment identifies nothing in a linear system, and yet its MCC is "
    "{reizinger-lti:line:reproduced}: published values below that line show no identification.",
    "In the causal experiment a hidden switch of a quadratic term does all the work: the published "
    "set-up is more accurate than the switch alone by {reizinger-exchangeable:switch:reproduced}. "
    "With a cause that varies on ±1, and nothing else, the share of right answers is "
    "{reizinger-exchangeable:cause-alone:not reproduced}.",
    "Shuffling weights changes the test accuracy on digits by "
    "{reizinger-weights:ws-accuracy:not reproduced}; the paper has a gain. Once it has ended, "
    "the accuracy recovers: the difference to training without it is "
    "{reizinger-weights:not-destroyed:reproduced}.",
)


def cell(text: str) -> str:
    """Text that cannot break a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def with_interval(claim: dict[str, Any]) -> str:
    """A value with its interval, as the study's own page prints them."""
    value, ends = measured(claim)
    return f"{value} ({ends})" if ends else value


def section(result: Result) -> str:
    """One study: its command, its settings, its claims."""
    document = result.document
    lines = [f"## {document['study']}", "", f"{document['title']}. {document['paper']}.", ""]
    lines += [document["about"], "", "```", command(document), "```", ""]
    lines.append("Settings: " + ", ".join(f"{k} = {v}" for k, v in document["settings"].items()))
    units = document["units"]
    lines[-1] += f". {units['count']} units of work, {duration(units['seconds'])} in all"
    older = units.get("of_other_code")
    lines[-1] += f", {older} of them computed by earlier code of the study." if older else "."
    lines += ["", f"**{headline(document)}**"]
    for title, claims in grouped(document):
        lines += ["", f"### {title}"] if title else []
        lines += ["", "| claim | published | measured (95 %) | verdict |", "|---|---|---|---|"]
        for claim in claims:
            says = f"{claim['says']} *{claim['comment']}*" if claim["comment"] else claim["says"]
            published = f"{claim['published']}, {claim['source']}"
            row = (says, published, with_interval(claim), told(claim))
            lines.append(f"| {' | '.join(map(cell, row))} |")
    return "\n".join(lines)


def command(document: dict[str, Any]) -> str:
    """The command line of a run, without the folders that it happened to read and write."""
    return re.sub(r" (?:--data|-o) \S+", "", str(document["command"]))


def sections(page: str) -> dict[str, str]:
    """The sections of a page, by name."""
    parts = re.split(r"^(?=## )", page, flags=re.M)[1:]
    return {part[3:].splitlines()[0]: part.rstrip() for part in parts}


def verdicts(section: str) -> dict[str, Counter[str]]:
    """How often each verdict occurs in a section, by the kind of claim."""
    found: dict[str, Counter[str]] = {kind: Counter() for kind in TITLES}
    kind = PAPER
    for line in section.splitlines():
        if line.startswith("### "):
            kind = next(kind for kind, title in TITLES.items() if line == f"### {title}")
        elif line.startswith("| ") and not line.startswith("| claim |"):
            last = re.split(r"(?<!\\)\|", line)[-2]
            found[kind][last.split(",")[0].strip()] += 1
    return found


def paper_of(section: str) -> str:
    """The paper of a study, without the parts of it that the study is about."""
    paper = section.splitlines()[2].split(". ", 1)[1]
    known = re.match(r".*?\b\d{4}\b(?: \(arXiv [\d.]+\))?", paper)
    return known.group() if known else paper.rstrip(".")


def table(kept: dict[str, str]) -> str:
    """The verdicts of all studies, by paper."""
    papers = {name: paper_of(section) for name, section in kept.items()}
    # One study may give the arXiv number and another may not.
    for name, paper in papers.items():
        papers[name] = max((each for each in papers.values() if each.startswith(paper)), key=len)
    titles = (
        "paper", "study", "claims of the paper reproduced", "not reproduced", "undecided",
        "not measured", "controls that hold", "checks that hold",
    )  # fmt: skip
    lines = [f"| {' | '.join(titles)} |", "|---|---|---:|---:|---:|---:|---:|---:|"]
    total: dict[str, Counter[str]] = {kind: Counter() for kind in TITLES}
    for paper in dict.fromkeys(papers.values()):
        first = paper
        for name in (name for name in kept if papers[name] == paper):
            found = verdicts(kept[name])
            lines.append(f"| {first} | [{name}](#{name}) | {' | '.join(numbers(found))} |")
            first = ""
            for kind, counts in found.items():
                total[kind] += counts
    return "\n".join([*lines, f"| all | {len(kept)} studies | {' | '.join(numbers(total))} |"])


def numbers(found: dict[str, Counter[str]]) -> list[str]:
    """The verdicts on the paper's claims, and how many controls and checks hold."""
    own = [str(found[PAPER][said]) for said in (REPRODUCED, NOT, INCONCLUSIVE, UNMEASURED)]
    rest = [found[kind] for kind in TITLES if kind != PAPER]
    held = [
        f"{counts[HOLDS[REPRODUCED]]} of {counts.total()}" if counts else "–" for counts in rest
    ]
    return own + held


def row_of(section: str, says: str) -> tuple[str, str] | None:
    """What a section has of a claim: the measured value with its interval, and the verdict."""
    for line in section.splitlines():
        if line.startswith(f"| {cell(says)} "):
            *_, value, verdict, _ = re.split(r"(?<!\\)\|", line)
            return value.strip(), verdict.split(",")[0].strip()
    return None


def surprises(kept: dict[str, str]) -> str:
    """The last section: sentences with what the sections have of their claims.

    A sentence whose claims do not have the expected verdict is left out, with a remark.
    """
    lines = [f"## {SURPRISED}", ""]
    for sentence in SURPRISES:
        wrong = []
        for place, study, key, said in re.findall(r"(\{([\w-]+):([\w-]+):([\w ]+)\})", sentence):
            says = {claim.key: claim.says for claim in find(study).claims}.get(key, key)
            row = row_of(kept.get(study, ""), says)
            if row is None or row[1] not in (said, HOLDS.get(said)):
                wrong.append(f"{study}:{key}")
            else:
                sentence = sentence.replace(place, row[0])
        if wrong:
            print(f"left out, as {', '.join(wrong)} is not so: {sentence}", file=sys.stderr)
        else:
            lines.append(f"- {sentence}")
    return "\n".join(lines) if lines[2:] else ""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    results = [load(folder) for folder in parser.parse_args().folders]
    path = Path(__file__).with_name("studies.md")
    path.write_text(page_of(results, path.read_text(encoding="utf-8")), encoding="utf-8")


def page_of(results: Sequence[Result], before: str) -> str:
    """The page after these results, from the page before them."""
    kept = sections(before)
    kept.pop(SURPRISED, None)
    kept |= {result.document["study"]: section(result) for result in results}
    top = TOP.replace("{table}", table(kept)).rstrip()
    return "\n\n".join(filter(None, [top, *kept.values(), surprises(kept)])) + "\n"


if __name__ == "__main__":
    main()
