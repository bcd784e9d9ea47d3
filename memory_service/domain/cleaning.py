"""Which messages are no statement at all, told by their form alone.

Owns the rules of memory.md §2 "Cleaning", for saved drafts and for the messages of a turn. Refuses to judge worth
("ok" passes: that is the language model's business) and never repairs a text. Where the form is not certain the text
passes: losing a statement is worse than keeping a scrap. What no text may hold at all is `text.text_problem`'s.
"""

from collections.abc import Callable
from typing import Final

import regex

from memory_service.domain.model import ReasonCode

_SLASH: Final = regex.compile(r"[/／][^\W\d_][\w-]*")

_SPECIAL: Final = regex.compile(
    r"<[|｜][^<>|｜\n]{1,40}[|｜]>"  # <|im_start|>, <｜end▁of▁sentence｜>
    r"|<[|｜]\w{0,20}[|｜]?$|^\w{0,20}[|｜]>"  # one that was cut in two
    r"|</?s>|<(?:start|end)_of_turn>|<(?:pad|unk|bos|eos|mask)>|\[/?INST\]|<</?SYS>>|\[(?:CLS|SEP|PAD|MASK|UNK)\]"
)
_TEMPLATE_OPENING: Final = regex.compile(
    r"(?:<[|｜](?:im_start|start_header_id|begin_of_text)[|｜]>|<start_of_turn>)+"
    r"(?:system|user|assistant|tool|model)\b(?:<[|｜]end_header_id[|｜]>)?\s*(?:\n|$|<)"
)
_ROLE: Final = regex.compile(r"\b(?:system|user|assistant|tool|model|human)\b", regex.I)

_PICTURE: Final = (
    r"(?:\p{Emoji_Presentation}|\p{Extended_Pictographic})[\uFE0E\uFE0F\p{Emoji_Modifier}\U000E0020-\U000E007F]*"
)
_EMOJI: Final = rf"(?:\p{{Regional_Indicator}}{{2}}|[0-9#*]\uFE0F?\u20E3|{_PICTURE}(?:\u200D{_PICTURE})*)"
_EMOJI_ONLY: Final = regex.compile(rf"(?:\s*{_EMOJI}\s*+){{3,}}+")

_SAYS_SOMETHING: Final = regex.compile(r"[[\p{L}\p{N}\p{So}]--[\u2500-\u25FF]]", regex.V1)
"""A letter, a digit or a symbol that stands for a word (but no lines and boxes); blanks and punctuation do not."""

_FRAME: Final = regex.compile(
    r"\s*(?:File \"[^\"]+\", line \d+.*"  # Python
    r"|at \S.*\(.*\)(?: in .+:line \d+)?|at [^\s()]+:\d+(?::\d+)?"  # Java, JavaScript, C#
    r"|\.\.\. \d+ (?:more|common frames omitted)"
    r"|from \S+:\d+:in [`'].*'"  # Ruby
    r"|#\d+ +(?:0x[0-9a-fA-F]+ in |\S+\(\d+\): |\{main\}).*"  # gdb, PHP
    r"|\d+: +(?:0x[0-9a-f]+ - )?(?:rust_|__libc_|[\w<>{}$]+::)\S+.*"  # Rust
    r"|\S+\.go:\d+(?: \+0x[0-9a-f]+)?)"
)
_TRACE: Final = regex.compile(
    r"\s*(?:Traceback \(most recent call last\):|Exception in thread \"[^\"]*\".*|Caused by: \S+.*"
    r"|thread '[^']*' panicked at .*|stack backtrace:|goroutine \d+ \[.*\]:|panic: .*|PHP Fatal error: .*"
    r"|(?:Uncaught |Unhandled exception\. )?[\w.$]*(?:Error|Exception|Throwable|Interrupt)(?:: .*)?"
    r"|note: .*|exit status \d+|\S+\(\S*\)|(?=[~ ]*\^)[~^ ]+"
    r"|During handling of the above exception.*|The above exception was the direct cause.*)"
)
_LOG: Final = regex.compile(
    r"\s*\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d)?\S*\s+(?:\S+\s+){0,3}?\[?(?:ERROR|FATAL|CRITICAL|SEVERE)\b.*"
)
_API_ERROR: Final = regex.compile(
    r"\s*(?:[\w.]*(?:Error|Exception): *)?(?:(?:Error code|status(?: code)?|HTTP)[ :=]*[45]\d\d\b"
    r"|HTTP/[\d.]+ [45]\d\d\b|[45]\d\d [A-Z][A-Za-z ]+)[^{]{0,80}\{.*\}\s*"
    r"|\s*\{\s*[\"'](?:error|errors|fault)[\"']\s*:\s*[\[{].*\}\s*"
    r"|\s*\{(?=.*[\"'](?:error|message|msg|detail)[\"']\s*:)"
    r"(?=.*[\"'](?:status|status_?code|code|err(?:or)?_?code)[\"']\s*:\s*[\"']?(?:[45]\d\d|\w+_error)).*\}\s*",
    regex.S | regex.I,
)

_LINE: Final = 400
"""Characters of a line that are looked at."""
_KNOWN_SHARE: Final = 0.8

_LOST: Final = regex.compile(r"\uFFFD|锟斤拷?|烫烫|屯屯|ï¿½")

_BLOCK: Final = regex.compile(
    r"\s*<(?P<tag>(?:\w+[_-])?memor(?:y|ies)(?:[_-]\w+)?|system|system[_-](?:prompt|reminder|instructions?))\b[^<>]*>"
    r".*</(?P=tag)>\s*",
    regex.S | regex.I,
)
_OPENING_MARKS: Final = r"\s*[#*\[【<(（ ]*"
_HEADING: Final = regex.compile(
    _OPENING_MARKS + r"(?:(?:recalled|relevant|retrieved|related|long[- ]term|user(?:'s)?|known) (?:user )?"
    r"(?:memor(?:y|ies)|facts)|memories (?:of|about) the user"
    r"|(?:相关|召回的?|检索到的?|历史|长期|用户的?|已知的?)(?:记忆|事实))[^\n:：]{0,20}[:：]?[^\w\n]*",
    regex.I,
)
_ITEM: Final = regex.compile(r"\s*(?:[-*•·]|\(?\d{1,3}[.)、．）]|\[[^\[\]\n]{1,24}\]|【[^【】\n]{1,24}】)\s*\S.*")
_ALIASED: Final = regex.compile(r"\s*(?:[-*•]\s*)?\[(?:FACT|PREFERENCE|PREF|CONTEXT|MEMORY|MEM)-\d+\]\s*\S.*")
_SYSTEM_LABEL: Final = regex.compile(
    _OPENING_MARKS + r"(?:system(?: prompt| message| instructions?)?|系统(?:提示词?|指令|消息|设定))"
    r"[\]】>)）* ]*(?:[:：]|\n)",
    regex.I,
)
_YOU_ARE: Final = regex.compile(
    r"you are (?:an? )?(?:[\w,'-]+ ){0,8}?(?:assistant|agent|chatbot|ai|model)\b"
    r"|[你您](?:现在)?(?:是|扮演)(?:一[个名位款])?[^。？?\n]{0,24}(?:助手|助理|机器人|智能体|客服|模型)",
    regex.I,
)
_ORDER: Final = regex.compile(
    r"\byou (?:must|should|will|can|may)\b|\b(?:do not|don't|never|always)\b|\byour (?:task|job|role|goal)\b"
    r"|你的(?:任务|职责|目标)|你(?:必须|需要|应当|应该|可以)|请(?:始终|务必|不要|根据)|(?:不要|不得|禁止|务必|始终|遵循|遵守)",
    regex.I,
)
_PROMPT_ORDERS: Final = 3
"""Orders that make a text in the second person a prompt; with fewer it may be a user's wish to the assistant."""
_PROMPT_SENTENCES: Final = 4


def filter_rule(text: str) -> ReasonCode | None:
    """The rule by which `text` is no statement, or None: it is kept. Looks at nothing but the text; never raises."""
    stripped = text.strip()
    for code, applies in _RULES:
        if applies(stripped):
            return code
    return None


def _slash_command(text: str) -> bool:
    return _SLASH.fullmatch(text) is not None


def _special_tokens(text: str) -> bool:
    """Residue: a chat template's opening, or special tokens with nothing but role names and punctuation between."""
    if _TEMPLATE_OPENING.match(text):
        return True
    rest, found = _SPECIAL.subn(" ", text)
    return found > 0 and not _SAYS_SOMETHING.search(_ROLE.sub(" ", rest))


def _emoji_only(text: str) -> bool:
    return _EMOJI_ONLY.fullmatch(text) is not None


def _punctuation_only(text: str) -> bool:
    return _SAYS_SOMETHING.search(text) is None


def _error_dump(text: str) -> bool:
    """True when the text *is* a dump: prose before or after it is a person who tells of an error, and stays."""
    if _API_ERROR.fullmatch(text):
        return True
    lines = [line[:_LINE] for line in text.splitlines() if line.strip()]
    frames = known = 0
    after_frame = False
    for line in lines:
        frame = _FRAME.fullmatch(line) is not None or _LOG.fullmatch(line) is not None
        # The source line below a Python frame, and the arguments below a Go one, are indented and otherwise free.
        dump = frame or _TRACE.fullmatch(line) is not None or (after_frame and line[0] in " \t")
        frames += frame
        known += dump
        after_frame = frame
    if not frames or (len(lines) < 2 and not _LOG.fullmatch(text)):
        return False
    ends = all(_dump_line(line) for line in (lines[0], lines[-1]))
    return ends and known >= 0.8 * len(lines)


def _dump_line(line: str) -> bool:
    return any(rule.fullmatch(line) for rule in (_FRAME, _TRACE, _LOG)) or line[0] in " \t"


def _mojibake(text: str) -> bool:
    """Decoded with the wrong character set: mostly replacement characters, or bytes that make sense read otherwise."""
    letters = sum(not character.isspace() for character in text)
    lost = sum(len(match) for match in _LOST.findall(text))
    if lost >= 2 and 2 * lost >= letters:
        return True
    return _utf8_read_as_latin(text) or _utf8_read_as_gbk(text) or _gbk_read_as_latin(text)


def _utf8_read_as_latin(text: str) -> bool:
    """Windows-1252 or Latin-1 letters whose bytes are UTF-8, as in "Ã©tÃ©", and at least a third of the text."""
    try:
        kept = text.replace("\ufffd", "")
        raw = b"".join(bytes([ord(c)]) if ord(c) < 256 else c.encode("cp1252") for c in kept)
    except UnicodeEncodeError:
        return False
    high = sum(byte >= 0x80 for byte in raw)
    decoded = raw.decode("utf-8", "ignore")
    whole = high >= 4 and len(decoded.encode()) >= len(raw) - 1  # a last byte that looked like a blank is trimmed
    return 3 * high >= len(raw) and (whole or _mostly_wide(decoded, high))


def _utf8_read_as_gbk(text: str) -> bool:
    """Characters whose GBK bytes are UTF-8 of three bytes each, as in "鐢ㄦ埛". Chinese that was read rightly is not:
    its bytes would have to begin with rare characters one after another."""
    raw = regex.sub(r"[?？\uFFFD]", "", text).encode("gb18030", "ignore")
    high = sum(byte >= 0x80 for byte in raw)
    return 3 * high >= len(raw) and _mostly_wide(raw.decode("utf-8", "ignore"), high)


def _mostly_wide(decoded: str, high: int) -> bool:
    """True when most of `high` bytes beyond ASCII made characters of three bytes; some may have been lost."""
    wide = sum(character >= "\u0800" for character in decoded)
    return wide >= 2 and 3 * wide >= 0.6 * high


def _gbk_read_as_latin(text: str) -> bool:
    """Nearly all of it from the upper half of Latin-1, pairs of which are common Chinese characters ("ÓÃ»§Ï²»¶")."""
    solid = "".join(text.split())
    high = sum(0xA1 <= ord(character) <= 0xFE for character in solid)
    if high < 6 or 10 * high < 7 * len(solid):
        return False
    try:
        solid.encode("latin-1").decode("gb2312")
    except UnicodeError:
        return False
    return True


def _echo(text: str) -> bool:
    """A block of recalled memories, or a system prompt, that came back as if it had been said."""
    if _BLOCK.fullmatch(text):
        return True
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and all(_ALIASED.fullmatch(line) for line in lines):
        return True
    if len(lines) > 1 and _HEADING.fullmatch(lines[0]) and all(_ITEM.fullmatch(line) for line in lines[1:]):
        return True
    role = _YOU_ARE.search(text, 0, 300)
    if role is None:
        return False
    if _SYSTEM_LABEL.match(text):
        return True
    orders = len({match.casefold() for match in _ORDER.findall(text)})
    sentences = len(regex.findall(r"[.。!！;；\n]+", text))
    return role.start() < 5 and orders >= _PROMPT_ORDERS and sentences >= _PROMPT_SENTENCES


_RULES: Final[tuple[tuple[ReasonCode, Callable[[str], bool]], ...]] = (
    (ReasonCode.SLASH_COMMAND, _slash_command),
    (ReasonCode.EMOJI_ONLY, _emoji_only),
    (ReasonCode.PUNCTUATION_ONLY, _punctuation_only),
    (ReasonCode.SPECIAL_TOKENS, _special_tokens),
    (ReasonCode.ERROR_DUMP, _error_dump),
    (ReasonCode.MOJIBAKE, _mojibake),
    (ReasonCode.ECHO, _echo),
)
