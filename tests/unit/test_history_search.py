"""Searching the past, as arithmetic: who is found, in what order, what neighbours lend; the set it looks through."""

import numpy as np
import pytest
from numpy.typing import NDArray

from memory_service.domain.conversation import (
    TOOL,
    Extracted,
    ExtractedItem,
    Message,
    ToolCall,
    cleaned,
    tokens_of,
    whole_turns,
)
from memory_service.domain.history_search import Found, HistoryPolicy, best_of_pieces, search
from memory_service.domain.history_set import HeldMessage, HeldSession, HistorySet, Piece, key
from memory_service.domain.model import MemoryType, Outcome, ReasonCode

POLICY = HistoryPolicy()


def rows(
    likeness: list[float] | None,
    words: list[float] | None = None,
    sessions: list[int] | None = None,
    *,
    fits: list[bool] | None = None,
    top_k: int = 10,
    named: list[bool] | None = None,
) -> list[Found]:
    n = len(likeness or words or [])
    return search(
        None if likeness is None else np.array(likeness),
        np.array(words or [0.0] * n),
        np.array(sessions or [0] * n, np.int64),
        POLICY,
        fits=np.array(fits or [True] * n),
        top_k=top_k,
        identified=None if named is None else np.array(named),
    )


def order(*args: object, **more: object) -> list[int]:
    return [found.row for found in rows(*args, **more)]  # type: ignore[arg-type]


NAN = float("nan")


def test_nothing_is_found_in_nothing() -> None:
    assert rows([]) == []
    assert rows([0.1, 0.2, -0.5], [0.1, 0.0, 0.34]) == []


def test_likeness_must_be_above_the_line_and_words_on_it() -> None:
    assert order([0.25, 0.0, 0.0, 0.0], sessions=[0, 1, 2, 3]) == []
    assert order([0.26, 0.0, 0.0, 0.0], sessions=[0, 1, 2, 3]) == [0]
    assert order([0.0, 0.0, 0.0], [0.0, 0.35, 0.0], [0, 1, 2]) == [1]
    assert order(None, [0.0, 0.35, 0.34]) == [1]


def test_an_identifying_token_is_enough() -> None:
    assert order([0.0, 0.0], [0.05, 0.0], [0, 1], named=[True, False]) == [0]


def test_who_stands_beside_one_that_is_found_is_found_if_not_quite_unrelated() -> None:
    assert order([0.11, 0.05, 0.8, 0.11, 0.11, 0.11]) == [2, 3, 4, 0]
    assert order([0.11, 0.8], sessions=[0, 1]) == [1], "the neighbour must be of the same session"


def test_neighbours_lend_their_score_and_strangers_do_not() -> None:
    alone, together = rows([0.5, 0.5, 0.5], sessions=[0, 1, 2]), rows([0.5, 0.5, 0.5])
    assert min(found.score for found in together) > max(found.score for found in alone)
    assert together[0].row == 1, "the one in the middle has two"


def test_words_lend_more_than_meaning() -> None:
    by_word = rows([0.4, NAN], [0.0, 1.0], [0, 0])
    by_meaning = rows([0.4, 1.0], [0.0, 0.0], [0, 0])
    score = {"word": dict(by_word_pairs(by_word))[0], "meaning": dict(by_word_pairs(by_meaning))[0]}
    assert score["word"] > score["meaning"]


def by_word_pairs(found: list[Found]) -> list[tuple[int, float]]:
    return [(one.row, one.score) for one in found]


def test_what_does_not_fit_is_not_answered_but_lends() -> None:
    [found] = rows([0.9, 0.4], fits=[False, True])
    [alone] = rows([NAN, 0.4], fits=[False, True])
    assert found.row == alone.row == 1
    assert found.score > alone.score


def test_of_equals_the_later_one_comes_first_and_no_more_than_asked() -> None:
    assert order([0.5] * 4, sessions=[0, 1, 2, 3], top_k=3) == [3, 2, 1]


def test_a_message_is_as_near_as_its_nearest_piece() -> None:
    cosines = np.array([0.1, 0.7, NAN, 0.2, NAN])
    best = best_of_pieces(cosines, np.array([0, 0, 1, 3, 4], np.int64), 5)
    assert best.tolist()[:2] == pytest.approx([0.7, NAN], nan_ok=True)
    assert best.tolist()[2:] == pytest.approx([NAN, 0.2, NAN], nan_ok=True)


# The set


def said(session: str, seq: int, content: str) -> Message:
    return Message(
        message_id=f"m{seq}", role="user", content=content, created_at=seq, session_id=session, seq=seq, turn=seq
    )


def held(uid: str, *contents: str, session: str = "s", vector: bool = True) -> HeldSession:
    messages = tuple(
        HeldMessage(
            said(session, n, text),
            (Piece(f"{uid}-{n}", 0, len(text), np.array([n, 1.0], np.float32) if vector else None),),
        )
        for n, text in enumerate(contents, start=1)
    )
    return HeldSession(uid, len(contents), messages)


def words(history: HistorySet, *asked: str) -> dict[str, list[str]]:
    return {word: sorted(history.keywords.holding([word])) for word in asked}


def test_a_set_grows_and_forgets_with_its_sessions() -> None:
    first = HistorySet("g", "space").changed({"a": held("u1", "zebra", session="a")}, [])
    both = first.changed({"b": held("u2", "lemur zebra", session="b")}, [])
    grown = both.changed({"a": held("u1", "zebra", "okapi", session="a")}, [])
    assert [key(m) for m in grown.messages] == ["a m1", "a m2", "b m1"]
    assert grown.session_of.tolist() == [0, 0, 1]
    assert words(grown, "zebra", "okapi", "lemur") == {
        "zebra": ["a m1", "b m1"],
        "okapi": ["a m2"],
        "lemur": ["b m1"],
    }
    assert grown.matrix.shape == (3, 2)
    begun_anew = grown.changed({"a": held("u3", "tapir", session="a")}, ["a"])
    assert words(begun_anew, "zebra", "okapi", "tapir") == {"zebra": ["b m1"], "okapi": [], "tapir": ["a m1"]}
    assert len(begun_anew) == 2
    gone = begun_anew.changed({}, ["a", "b"])
    assert (len(gone), gone.matrix.shape, gone.bare) == (0, (0, 0), ())
    assert [key(m) for m in first.messages] == ["a m1"], "a snapshot stays as it was"


def test_pieces_wait_for_their_vectors_the_latest_first() -> None:
    bare = HistorySet("g", "space").changed({"s": held("u", "eins", "zwei", "drei", vector=False)}, [])
    assert [piece.id for piece, _ in bare.bare] == ["u-3", "u-2", "u-1"]
    assert np.isnan(bare.similarities(np.zeros(0))).all()
    some = bare.with_vectors({"u-2": np.array([1.0, 0.0], np.float32), "other": np.zeros(2, np.float32)})
    assert some.piece_ids == ("u-2",)
    assert [piece.id for piece, _ in some.bare] == ["u-3", "u-1"]
    found: NDArray[np.float64] = some.similarities(np.array([0.5]))
    assert found.tolist() == pytest.approx([NAN, 0.5, NAN], nan_ok=True)
    assert some.keywords is bare.keywords
    assert bare.with_vectors({}) is bare


# What conversations are made of


def message(content: str = "", role: str = "user", turn: int = 1, **more: object) -> Message:
    return Message(message_id="m", role=role, content=content, created_at=0, turn=turn, **more)  # type: ignore[arg-type]


def test_whole_turns_from_the_last_one_back() -> None:
    talk = [message("四个汉字", turn=turn) for turn in (1, 1, 2, 2, 3)]
    each = tokens_of(talk[0])
    assert [len(whole_turns(talk, n * each)) for n in range(7)] == [0, 1, 1, 3, 3, 5, 5]
    assert whole_turns([], 100) == []


def test_tool_calls_have_their_size() -> None:
    call = ToolCall("c", "function", "search", '{"query": "a long question about many things"}')
    assert tokens_of(message("x", tool_calls=(call,))) > tokens_of(message("x")) + 5


def test_cleaning_keeps_calls_and_results_together() -> None:
    calls = (ToolCall("good", "function", "f", ""), ToolCall("bad", "function", "f", ""))
    turn = [
        message("/run", role="assistant", tool_calls=calls),
        message("", role=TOOL, tool_call_id="good"),
        message("？？", role=TOOL, tool_call_id="bad"),
        message("……"),
    ]
    left = cleaned(turn)
    assert [one.rule for one in left] == [
        ReasonCode.SLASH_COMMAND,
        None,
        ReasonCode.PUNCTUATION_ONLY,
        ReasonCode.PUNCTUATION_ONLY,
    ]
    first, second, third, fourth = (one.message for one in left)
    assert first is not None
    assert (first.content, [call.id for call in first.tool_calls]) == ("", ["good"])
    assert second == turn[1]
    assert third is fourth is None


def test_an_assistants_message_goes_with_its_last_call() -> None:
    call = ToolCall("bad", "function", "f", "")
    left = cleaned([message("", role="assistant", tool_calls=(call,)), message("……", role=TOOL, tool_call_id="bad")])
    assert [one.message for one in left] == [None, None]


def test_an_outcome_is_read_as_it_was_written() -> None:
    outcome = Extracted(
        (
            ExtractedItem(action="NOOP", type=MemoryType.CONTEXT, refused="QUOTE_NOT_FOUND"),
            ExtractedItem(
                action="UPDATE",
                type=MemoryType.FACT,
                outcome=Outcome.REPLACED,
                code=ReasonCode.EXPLICIT,
                memory_id="id",
                superseded_ids=("a", "b"),
                rationale="用户说已经迁移 🐬",
            ),
        )
    )
    assert Extracted.from_json(outcome.to_json()) == outcome
    assert Extracted.from_json(Extracted().to_json()) == Extracted()
