"""A request made ready: text from outside cleaned and escaped, everything in the order in which it is tried.

Owns what does not depend on the budget. Refuses to count.
"""

import math
from dataclasses import dataclass

from assembler_service.domain.layout import Words, computation_paragraphs, memory_piece, system_piece, words
from assembler_service.domain.model import Block, Language, Options, Reason, Request
from assembler_service.domain.text import clean, detect_language, escape, without_surrogates
from assembler_service.domain.turns import Turn, group_turns


@dataclass(frozen=True, slots=True)
class Prepared:
    """What `prepare` made of a request. Orders hold places in the request's lists, best first."""

    request: Request
    language: Language
    frame: Words
    system_piece: str
    question: str
    profile_lines: tuple[str, ...]
    source_texts: tuple[str, ...]
    source_order: tuple[int, ...]
    paragraphs: tuple[tuple[str, ...], ...]
    computation_order: tuple[int, ...]
    memory_pieces: tuple[str, ...]
    memory_order: tuple[int, ...]
    memory_rank: dict[int, int]
    earlier_text: str
    """The stored summary."""
    turns: tuple[Turn, ...]
    left_out: dict[tuple[Block, int], Reason]
    """Items that are not tried at all."""
    left_out_messages: dict[int, Reason]

    @property
    def options(self) -> Options:
        """The request's options."""
        return self.request.options


def prepare(request: Request) -> Prepared:
    """Makes a request ready."""
    language = frame_language(request)
    texts = tuple(escape(clean(source.text)) for source in request.sources)
    paragraphs = tuple(computation_paragraphs(computation) for computation in request.computations)
    pieces = tuple(memory_piece(memory) for memory in request.memories)
    left_out = _left_out(request, texts, paragraphs, pieces)
    turns, unpaired = group_turns(request.history)
    memory_order = _memory_order(request, left_out)
    return Prepared(
        request=request,
        language=language,
        frame=words(language),
        system_piece=system_piece(without_surrogates(request.system_prompt)),
        question=without_surrogates(request.question),
        profile_lines=tuple(line for line in escape(clean(request.user_profile)).split("\n") if line.strip()),
        source_texts=texts,
        source_order=tuple(
            sorted(
                (index for index in range(len(texts)) if (Block.SOURCES, index) not in left_out),
                key=lambda index: (-_rated(request.sources[index].score), index),
            )
        ),
        paragraphs=paragraphs,
        computation_order=tuple(
            sorted(
                (index for index in range(len(paragraphs)) if (Block.COMPUTATIONS, index) not in left_out),
                key=lambda index: (-request.computations[index].priority, index),
            )
        ),
        memory_pieces=pieces,
        memory_order=memory_order,
        memory_rank={index: rank for rank, index in enumerate(memory_order)},
        earlier_text=escape(clean(request.earlier.summary)),
        turns=turns,
        left_out=left_out,
        left_out_messages={index: Reason.UNPAIRED if pair else Reason.EMPTY for index, pair in unpaired.items()},
    )


def frame_language(request: Request) -> Language:
    """ZH or EN: as asked, else that of the question, of the newest message with letters, of the stored summary, of the
    system prompt.
    """
    asked = request.options.language
    if asked is not Language.AUTO:
        return asked
    said = (message.content for message in reversed(request.history))
    return detect_language((request.question, *said, request.earlier.summary, request.system_prompt))


def _left_out(
    request: Request, texts: tuple[str, ...], paragraphs: tuple[tuple[str, ...], ...], pieces: tuple[str, ...]
) -> dict[tuple[Block, int], Reason]:
    """Items without text, and sources below the score that is asked for."""
    least = request.options.min_source_score
    left_out: dict[tuple[Block, int], Reason] = {}
    for index, text in enumerate(texts):
        if not text:
            left_out[Block.SOURCES, index] = Reason.EMPTY
        elif least is not None and not request.sources[index].score >= least:  # NaN is below every score
            left_out[Block.SOURCES, index] = Reason.BELOW_FLOOR
    left_out |= {(Block.COMPUTATIONS, index): Reason.EMPTY for index, parts in enumerate(paragraphs) if not parts}
    left_out |= {(Block.MEMORIES, index): Reason.EMPTY for index, piece in enumerate(pieces) if not piece}
    return left_out


def _memory_order(request: Request, left_out: dict[tuple[Block, int], Reason]) -> tuple[int, ...]:
    def key(index: int) -> tuple[float, float, int]:
        memory = request.memories[index]
        return -_rated(memory.score), -(memory.created_at if memory.created_at is not None else -math.inf), index

    return tuple(sorted((i for i in range(len(request.memories)) if (Block.MEMORIES, i) not in left_out), key=key))


def _rated(score: float) -> float:
    return -math.inf if math.isnan(score) else score
