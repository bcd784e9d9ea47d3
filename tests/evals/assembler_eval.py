"""What the assembler promises, counted: `python -m tests.evals.assembler_eval [--json FILE]`.

Owns four measures. Fuzz: random requests whose prompt breaks a promise (over budget, an exception, U+FFFD, an orphaned
tool message, a question that is not whole, a broken frame). Monotonic: items that a larger budget loses for nothing.
The story: tokens of a growing conversation with and without the assembler. Fact recall: of LoCoMo's questions, the
turns that hold the answer and that are in the prompt, per budget, beside the plain way of sending the last messages.

For fact recall a question comes with the whole conversation as history and with the memories that recall finds for it:
each turn is a memory, the 30 best are given, found by the product's own index, model and ranking. No model is asked.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rich.progress import Progress

from assembler_service.adapters.tokenizer import Tokenizer
from assembler_service.domain.assemble import assemble
from assembler_service.domain.model import (
    CountTokens,
    MemoryItem,
    MemoryType,
    Message,
    Options,
    Overflow,
    Request,
    Role,
)
from memory_service.domain.ranking import RankingPolicy
from memory_service.domain.space import bundled_space
from tests.assembler.samples import Maker, prompt_tokens, tokens
from tests.assembler.test_fuzz import REQUESTS, attempt, check, losses
from tests.assembler.test_stories import growing
from tests.evals.figures import Figure, Measured, any_missed, show, write
from tests.evals.recall_eval import (
    Embed,
    Memories,
    bundled_embed,
    data_folder,
    evidence_of,
    sessions_of,
    turn_text,
    without_floors,
)

AREA: Final = "assembler"
PAIRS: Final = 1_000
STORY_TURNS: Final = 15
BUDGETS: Final = (1_000, 2_000, 4_000, 6_000)
MEMORIES: Final = 30
SYSTEM: Final = "You are a helpful assistant with a long memory. Answer from what you are given."


def fuzz(count: CountTokens, tick: Callable[[], None], requests: int = REQUESTS) -> Measured:
    """Random requests; a violation is any check that fails and any exception."""
    broken: list[str] = []
    assembled = 0
    for seed in range(requests):
        try:
            request = Maker(seed).request()
            made = attempt(request, count)
            if made is not None:
                check(request, made)
                assembled += 1
        except Exception as error:  # whatever it is, it must not be
            broken.append(f"seed {seed}: {type(error).__name__}")
        tick()
    over = f"{requests:,} requests, {assembled:,} of them assembled"
    figure = Figure(AREA, "fuzz: violations", len(broken), 0, False, over)
    return Measured([figure], details={"fuzz_violations": broken})


def monotonic(count: CountTokens, tick: Callable[[], None], pairs: int = PAIRS) -> Measured:
    """Pairs of budgets of the same request."""
    lost, unexplained = 0, []
    for seed in range(50_000, 50_000 + pairs):
        for overflow in Overflow:
            items, wrong = losses(seed, overflow, count)
            lost += items
            unexplained += wrong
        tick()
    over = f"{2 * pairs:,} pairs of budgets, {lost} items lost to better ones"
    return Measured([Figure(AREA, "monotonic: items lost for nothing", len(unexplained), 0, False, over)])


def story(count: CountTokens, turns: int = STORY_TURNS) -> Measured:
    """The conversation over six chunks, turn by turn."""
    curve = []
    first = True
    for n, step in enumerate(growing(turns, count), start=1):
        made = step.made
        first &= made.messages[0].content.startswith(f"{step.request.system_prompt}\n\n<sources>\n")
        curve.append({"turn": n, "with": prompt_tokens(made.messages), "without": step.plain})
    over = f"{turns} turns, 6 chunks"
    figures = [
        Figure(AREA, "story: most tokens of a prompt", max(point["with"] for point in curve), 6_000, False, over),
        Figure(AREA, "story: turns with the sources right after the system prompt", turns if first else 0, turns),
        *(
            Figure(AREA, f"story: tokens at turn {point['turn']} {side} the assembler", point[side])
            for point in curve
            if point["turn"] % 5 == 0
            for side in ("without", "with")
        ),
    ]
    return Measured(figures, details={"story_curve": curve})


class Conversation:
    """One conversation of LoCoMo: its turns as messages and as memories, and its questions with the turns they need."""

    def __init__(self, sample: dict[str, Any], embed: Embed) -> None:
        self._space = bundled_space()
        turns = [turn for session in sessions_of(sample["conversation"]) for turn in session]
        first = sample["conversation"]["speaker_a"]
        self.texts = {turn["dia_id"]: turn_text(turn) for turn in turns}
        self.history = tuple(
            Message(Role.USER if turn["speaker"] == first else Role.ASSISTANT, self.texts[turn["dia_id"]])
            for turn in turns
        )
        self._memories = Memories(list(self.texts), list(self.texts.values()), self._space, embed)
        asked = [
            (question["question"], evidence_of(question, self._memories.row_of))
            for question in sample["qa"]
            if question["category"] != 5
        ]
        self.questions = [(question, evidence) for question, evidence in asked if evidence]
        self._vectors = embed("query", [question for question, _ in self.questions])

    def recalled(self, n: int) -> tuple[MemoryItem, ...]:
        """The memories found for question `n`."""
        hits = self._memories.recall(
            self.questions[n][0], self._vectors[n], MEMORIES, without_floors(RankingPolicy()), all_qualify=True
        )
        return tuple(
            MemoryItem(self.texts[hit.id], MemoryType.CONTEXT, 1.0 - place / 100) for place, hit in enumerate(hits)
        )


def last_messages(history: Sequence[Message], question: str, budget: int) -> str:
    """The plain way: the system prompt, as many of the last messages as fit, the question."""
    used = prompt_tokens((Message(Role.SYSTEM, SYSTEM), Message(Role.USER, question)))
    kept: list[str] = []
    for message in reversed(history):
        used += 3 + tokens(message.role) + tokens(message.content)
        if used > budget:
            break
        kept.append(message.content)
    return "\n".join(kept)


def fact_recall(count: CountTokens, samples: Sequence[Conversation], tick: Callable[[], None]) -> Measured:
    """The share of the turns a question needs that are in its prompt, mean over questions, in percent."""
    ways = ("last messages", "STRICT", "ELASTIC")
    shares: dict[tuple[str, int], list[float]] = {(way, budget): [] for budget in BUDGETS for way in ways}
    sizes: dict[tuple[str, int], list[int]] = {(way, budget): [] for budget in BUDGETS for way in ways[1:]}
    for sample in samples:
        for n, (question, evidence) in enumerate(sample.questions):
            needles = [_flat(sample.texts[turn]) for turn in evidence]
            request = Request(
                question=question, system_prompt=SYSTEM, memories=sample.recalled(n), history=sample.history
            )
            for budget in BUDGETS:
                plain = last_messages(sample.history, question, budget)
                shares["last messages", budget].append(_share(needles, plain))
                for overflow in Overflow:
                    options = Options(total_max_tokens=budget, overflow=overflow)
                    made = assemble(replace(request, options=options), count)
                    shares[overflow.name, budget].append(_share(needles, made.text))
                    sizes[overflow.name, budget].append(made.report.total)
            tick()
    questions = sum(len(sample.questions) for sample in samples)
    figures = []
    for (way, budget), values in shares.items():
        mean = sum(values) / len(values)
        used = sizes.get((way, budget))
        over = f"{questions} questions" + (f", {sum(used) / len(used):,.0f} tokens used" if used else "")
        figures.append(Figure(AREA, f"LoCoMo: facts in the prompt of {budget:,}, {way}, %", 100 * mean, over=over))
    return Measured(figures)


def _flat(text: str) -> str:
    """Without white space, which the prompt writes in its own way, and without what it escapes."""
    return "".join(text.replace("\\", "").split())


def _share(needles: Iterable[str], text: str) -> float:
    flat = _flat(text)
    found = [needle in flat for needle in needles]
    return sum(found) / len(found)


def measure(embed: Embed = bundled_embed) -> Measured:
    """Everything that can be measured here."""
    count = Tokenizer(200_000).counter()
    measured = Measured()
    folder = data_folder() / "locomo"
    with Progress(disable=not sys.stderr.isatty()) as progress:

        def ticker(name: str, total: int) -> Callable[[], None]:
            task = progress.add_task(name, total=total)
            return lambda: progress.advance(task)

        measured.add(fuzz(count, ticker("fuzz", REQUESTS)))
        measured.add(monotonic(count, ticker("monotonic", PAIRS)))
        measured.add(story(count))
        if folder.is_dir():
            data = json.loads((folder / "locomo_a.json").read_text("utf-8"))
            read = ticker("LoCoMo: embedding", len(data))
            samples = []
            for sample in data:
                samples.append(Conversation(sample, embed))
                read()
            questions = sum(len(sample.questions) for sample in samples)
            measured.add(fact_recall(count, samples, ticker("LoCoMo: assembling", questions)))
        else:
            measured.absent.append(f"LoCoMo, facts in the prompt: not measured, {folder} is absent")
    return measured


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; exit status 1 when a floor is missed."""
    parser = argparse.ArgumentParser(description="Measures the assembler.")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    measured = measure()
    show(measured)
    if options.json:
        write(measured, options.json)
    return 1 if any_missed(measured.figures) else 0


if __name__ == "__main__":
    sys.exit(main())
