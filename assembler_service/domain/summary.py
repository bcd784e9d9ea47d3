"""What a summariser is asked, and whether its answer may stand for what it replaces (assembler.md §4).

Owns the request's text and every check of acceptance. Whatever fails a check is not used: the caller falls back to
truncation with the reason. Refuses to call a model, and to mend an answer beyond its wrapping.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Final

from assembler_service.domain.facts import unsupported
from assembler_service.domain.layout import EN, ZH, tool_calls_json
from assembler_service.domain.model import CountTokens, Language, Message, Role, SummaryReason
from assembler_service.domain.text import clean, detect_language, escape
from assembler_service.domain.tongue import is_han, same_language, speaks_han

_MESSAGE_CHARS: Final = 2_000
_TRANSCRIPT_CHARS: Final = 40_000
"""More does not fit the window of a cheap model; beginning and end of what is longer are given."""
_ASKED: Final = 0.8
"""Part of the cap that is asked for."""
_PARTS: Final = "\n=====\n"
"""Between the instruction and the data of a template."""
_CODE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_THINKING: Final = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>|^.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_FENCE: Final = re.compile(r"\A```[\w-]*\n(.*?)\n?```\Z", re.DOTALL)
_LABEL: Final = re.compile(
    r"\A(?:#{1,6}\s*|\*\*)?(?:summary(?: of the (?:earlier )?conversation)?|(?:较早)?对话摘要|摘要|总结)"
    r"(?:(?:\*\*)?\s*[:：]\s*(?:\*\*)?|\*\*)?\s*(?:\n+|(?<=[:：*])|(?<=[:：]\s))",
    re.IGNORECASE,
)
_REFUSAL: Final = re.compile(
    r"\A\W*(?:(?:i['’]?m |i am )?(?:very )?sorry\b|i (?:can ?not|can['’]t|won['’]t|am (?:unable|not able))\b"
    r"|as an ai\b|unable to\b|(?:很|非常)?(?:抱歉|对不起|不好意思)|我(?:无法|不能|没办法)"
    r"|作为(?:一个|一名)?(?:ai|人工智能|语言模型)|无法(?:总结|提供|完成|处理))",
    re.IGNORECASE,
)
_NOTHING: Final = re.compile(
    r"\A\W*(?:none|n/a|nothing(?: to summari[sz]e)?|no (?:summary|changes?)(?: \w+)?"
    r"|无|没有|暂无(?:摘要|内容)?|无(?:需|可)总结)\W*\Z",
    re.IGNORECASE,
)


def prefix_keys(messages: Sequence[Message], *before: str) -> list[str]:
    """Names of the first message, of the first two, and so on: equal messages have equal keys, in every process.

    The last one names all of them. `before`: what came before them, if anything. One pass over the text.
    """
    digest = hashlib.blake2b(digest_size=16)

    def add(part: str) -> None:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big") + raw)

    for part in before:
        add(part)
    keys = []
    for message in messages:
        for part in (message.role, message.content, message.tool_call_id, tool_calls_json(message.tool_calls)):
            add(part)
        keys.append(digest.hexdigest())
    return keys


def summary_language(covered: Sequence[Message]) -> Language:
    """The language to ask in: that of what the user says, whatever language the frame of the prompt has."""
    asked = [message.content[:_MESSAGE_CHARS] for message in covered if message.role is Role.USER]
    if speaks_han(asked):
        return Language.ZH
    said = (message.content[:_MESSAGE_CHARS] for message in covered if message.role is not Role.TOOL)
    return detect_language((_without_code("\n".join(asked)), "\n".join(said)))


def summary_input(template: str, covered: Sequence[Message], previous: str, cap: int) -> tuple[str, str]:
    """Instruction and data for the model: the template's two parts, `{cap}`, `{previous}`, `{transcript}` filled in.

    `covered`: what `previous` does not tell yet. It is data: delimiters in it are escaped. Long messages and long
    transcripts lose their middle. Models count badly: they are asked for less than the cap.
    """
    lines = []
    for message in covered:
        content = clean(_middle_out(message.content, 4 * _MESSAGE_CHARS))
        said = "\n".join(part for part in (content, tool_calls_json(message.tool_calls)) if part)
        if said:
            lines.append(f"{message.role.value}: {_middle_out(escape(said), _MESSAGE_CHARS)}")
    values = {
        "cap": str(int(cap * _ASKED)),
        "previous": escape(clean(previous)) or "-",
        "transcript": _middle_out("\n".join(lines), _TRANSCRIPT_CHARS),
    }
    instruction, _, data = template.partition(_PARTS)
    filled = (
        re.sub(r"\{(cap|previous|transcript)\}", lambda found: values[found[1]], part) for part in (instruction, data)
    )
    return next(filled).strip(), next(filled).strip()


def clean_summary(raw: str) -> str:
    """A model's answer without its wrapping: reasoning, a code fence around it all, a heading."""
    text = clean(_THINKING.sub("", clean(raw)))
    fenced = _FENCE.match(text)
    text = fenced[1].strip() if fenced else text
    for head in (ZH.summary_head, EN.summary_head):
        text = text.removeprefix(head).strip()
    return _LABEL.sub("", text, count=1).strip()


def check_summary(
    summary: str,
    covered: Sequence[Message],
    previous: str,
    cap: int,
    count: CountTokens,
) -> SummaryReason:
    """NONE where a cleaned summary may stand for `covered` and `previous`; else the first check it fails.

    Checked are: not empty, no refusal, within `cap` tokens as it will stand in a prompt, shorter than what it replaces,
    in the language of the user or of the whole, and no number, date, identifier or quoted name that is not in the text
    it covers. Whether the answer was cut off by its length limit only the caller knows (SummaryReason.LENGTH).
    """
    if not summary.strip() or _NOTHING.match(summary):
        return SummaryReason.EMPTY
    if _REFUSAL.match(summary):
        return SummaryReason.REFUSED
    said = [part for message in covered for part in (message.content, tool_calls_json(message.tool_calls)) if part]
    replaced = [previous, *said] if previous else said
    tokens = count(escape(summary))
    if tokens > cap:
        return SummaryReason.OVER_CAP
    if not _longer_than(tokens, replaced, count):
        return SummaryReason.NOT_SHORTER
    if not _language_fits(summary, covered, previous):
        return SummaryReason.LANGUAGE
    return SummaryReason.INVENTED if unsupported(summary, "\n".join(replaced)) else SummaryReason.NONE


def _longer_than(tokens: int, texts: Sequence[str], count: CountTokens) -> bool:
    """True where the texts have more tokens together; counts no more of them than it takes."""
    total = 0
    for text in texts:
        total += count(text)
        if total > tokens:
            return True
    return False


def _language_fits(summary: str, covered: Sequence[Message], previous: str) -> bool:
    """A conversation may hold long texts in another language than the user's: logs, code, quotations."""
    asked = [_without_code(message.content) for message in covered if message.role is Role.USER]
    if is_han(summary) and speaks_han(asked):
        return True
    said = (_without_code(message.content) for message in covered if message.role is not Role.TOOL)
    return any(same_language(summary, "\n".join((previous, *texts))) for texts in (asked, said))


def _without_code(text: str) -> str:
    return _CODE.sub(" ", text) if "```" in text else text


def _middle_out(text: str, limit: int) -> str:
    """Beginning and end of a text that is too long."""
    if len(text) <= limit:
        return text
    return f"{text[: limit * 2 // 3]}\n[…]\n{text[-limit // 3 :]}"
