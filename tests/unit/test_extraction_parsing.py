"""What is understood of a model's answer, whatever it is wrapped in, and what is not."""

import json

import pytest

from memory_service.domain.extraction.model import Action, Item
from memory_service.domain.extraction.parsing import MAX_ANSWER, Unparseable, parse
from memory_service.domain.model import MemoryType, Shard

FACT = {"action": "UPDATE", "content": "用户用 PostgreSQL", "supersedes": ["FACT-1"], "quote": "迁移到了 PostgreSQL"}
ANSWER = json.dumps({"preferences": [], "facts": [FACT], "contexts": []}, ensure_ascii=False)
ITEM = Item(
    type=MemoryType.FACT,
    content="用户用 PostgreSQL",
    action=Action.UPDATE,
    supersedes=("FACT-1",),
    quote="迁移到了 PostgreSQL",
)
WRAPPED = {
    "bare": ANSWER,
    "byte order mark": f"\ufeff{ANSWER}",
    "fence": f"```json\n{ANSWER}\n```",
    "fence without a name, prose after it": f"```\n{ANSWER}\n```\nHope this helps! {{}}",
    "fence that is not closed": f"```json\n{ANSWER}",
    "reasoning": f'<think>{{"facts": []}} 也许？</think>\n{ANSWER}',
    "reasoning without its beginning": f'好的，{{"facts": []}} 先看看…</think>{ANSWER}',
    "prose around it": f"Sure! Here is the JSON:\n{ANSWER}\nLet me know.",
    "an alias and a name in braces before it": f"[FACT-1] in {{database}} changes:\n{ANSWER}",
    "the same twice": f"{ANSWER}\n{ANSWER}",
    "a second object that says otherwise": f'{ANSWER}\n{{"facts": [{{"content": "没有"}}]}}',
    "trailing comma": ANSWER.replace("]}]", "],}]", 1),
    "no closing brackets": ANSWER[: ANSWER.index("}") + 1],
    "sections that are null": ANSWER.replace('"preferences": []', '"preferences": null'),
    "section in the singular, an object": json.dumps({"fact": FACT}, ensure_ascii=False),
    "a list of typed items": json.dumps([{"type": "FACT", **FACT}], ensure_ascii=False),
    "a typed item": json.dumps({"type": "fact", **FACT}, ensure_ascii=False),
    "one list of typed items": json.dumps({"memories": [{"type": "MEMORY_TYPE_FACT", **FACT}]}, ensure_ascii=False),
}


@pytest.mark.parametrize("text", WRAPPED.values(), ids=WRAPPED.keys())
def test_an_item_is_found_in_every_wrapping(text: str) -> None:
    assert parse(text) == (ITEM,)


@pytest.mark.parametrize("text", ["[]", "{}", "```json\n[]\n```", '{"facts": [], "contexts": null}'])
def test_nothing_is_an_answer(text: str) -> None:
    assert parse(text) == ()


UNREADABLE = {
    "": "EMPTY",
    "  \n": "EMPTY",
    "<think>hm</think>": "EMPTY",
    "I cannot help with that.": "NOT_JSON",
    "No changes needed.": "NOT_JSON",
    '{"error": {"message": "x"}}': "WRONG_SHAPE",
    '{"facts": [{"content": "用户用 Post': "TRUNCATED",
    '{"facts": [{"content": "a", "quote": "b"}, {"content": "c", "quote":': "TRUNCATED",
    '{"facts": [{"content": "a \\': "TRUNCATED",
    "[" * 5000: "TRUNCATED",
    '{"a":' * 5000: "TRUNCATED",
    "x" * (MAX_ANSWER + 1): "TOO_LONG",
}


@pytest.mark.parametrize(("text", "code"), UNREADABLE.items(), ids=range(len(UNREADABLE)))
def test_what_says_nothing_is_told_from_nothing(text: str, code: str) -> None:
    with pytest.raises(Unparseable) as caught:
        parse(text)
    assert caught.value.code == code


def test_an_answer_that_was_cut_off_is_not_mended() -> None:
    assert parse(ANSWER, cut=True) == (ITEM,)
    with pytest.raises(Unparseable) as caught:
        parse(ANSWER[:-2], cut=True)
    assert caught.value.code == "TRUNCATED"


def test_bad_items_are_passed_over_one_by_one() -> None:
    text = '{"facts": [{"fact": "x"}, {"text": "y"}, 3, null, "z", {"content": {"a": 1}}, []]}'
    assert [item.content for item in parse(text)] == ["x", "y", "z", ""]


def test_sections_of_two_objects_are_one_answer() -> None:
    text = '{"facts": [{"content": "a"}]}\n{"preferences": [{"content": "b"}]}'
    assert [(item.type, item.content) for item in parse(text)] == [(MemoryType.FACT, "a"), (MemoryType.PREFERENCE, "b")]


def test_fields_in_other_forms() -> None:
    given = {
        "Content": " a ",
        "action": "delete",
        "supersedes": "FACT-1, PREFERENCE-2",
        "shard": "memory_shard_identity",
        "occurred_at": 2024,
        "attributes": [{"name": "language", "value": "java"}, {"key": "since", "value": 8}, 3],
    }
    (item,) = parse(json.dumps({"facts": [given]}))
    assert (item.content, item.action, item.supersedes) == ("a", Action.OTHER, ("FACT-1", "PREFERENCE-2"))
    assert (item.shard, item.occurred_at) == (Shard.IDENTITY, "2024")
    assert item.attributes == {"language": "java", "since": "8"}


def test_lone_surrogates_go() -> None:
    assert parse('{"facts": [{"content": "\\ud83d好", "quote": "\\ude00"}]}')[0].content == "好"


def test_tags_inside_of_json_stay() -> None:
    assert parse('{"facts": [{"content": "a <think>b</think> c"}]}')[0].content == "a <think>b</think> c"
