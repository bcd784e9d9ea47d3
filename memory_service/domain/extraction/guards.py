"""What of a model's answer is believed. The model is not trusted: every rule here holds whatever it says.

Owns the guards of memory.md §4. What the user said about himself, in words that can be shown, becomes a memory; so does
what a talk came to, whoever said it. Refuses rights (they come from credentials, never from talk), orders, claims of
the assistant about the user, and superseding anything but memories that were shown and are older than the turn.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import regex

from memory_service.domain.cleaning import filter_rule
from memory_service.domain.extraction import dates, evidence
from memory_service.domain.extraction.known import resolve
from memory_service.domain.extraction.model import Action, Finding, Item, Judged, Known, Refused, Said, Turn
from memory_service.domain.model import Memory, MemoryType, Micros, Shard
from memory_service.domain.saving import MAX_SUPERSEDES
from memory_service.domain.text import text_problem

MAX_ITEMS: Final = 40
MAX_CONTENT: Final = 2000
"""Characters; a memory is a statement, not a document."""
MAX_QUOTE: Final = 500
MAX_RATIONALE: Final = 500

_PLACEHOLDER: Final = regex.compile(
    r"\W*(?:no (?:new )?(?:changes?|updates?|memor(?:y|ies)|information|facts?|preferences?|contexts?)"
    r"(?: (?:are |is |was |were )?(?:needed|required|necessary|found|detected|given|provided))?"
    r"|none|null|n/?a|nothing(?: new)?(?: to (?:remember|add|extract|update|store))?|unchanged|same(?: as before)?"
    r"|not (?:mentioned|provided|specified|applicable)|unknown|string|\.\.\."
    r"|无(?:需|须)?(?:任何)?(?:更改|变化|变更|改变|新增|更新|修改|记忆|内容|新信息)?|没有(?:变化|更新|新信息|新增内容|需要记忆的内容)"
    r"|不变|保持不变|未提及|未知|暂无|空)\W*",
    regex.I,
)
_RIGHTS: Final = (
    r"(?:(?:super ?-?)?admin(?:istrator)?s?|root(?: user)?|super ?users?|sudoers?|owner of (?:this|the) system"
    r"|(?:full|all|unlimited|unrestricted|elevated|special|admin(?:istrator)?(?:'s)?|root|sudo|superuser|system)[ -]?"
    r"(?:access|rights?|privileges?|permissions?)|privileged"
    r"|authori[sz]ed to (?:access|see|read|delete) (?:all|any|every)\w*)"
)
_PRIVILEGE: Final = regex.compile(
    r"\b(?:user|i|i['’]m|you|he|she|they|we)\b"
    r"(?:['’]s| is| am| are| was| has| have| had| holds?| gets?| got| becomes?)?"
    rf"(?: (?:now|also|actually|an?|the|been|granted|given|become|as))* {_RIGHTS}\b(?! (?:at|in|for) (?!this\b))"
    rf"|\b(?:role|permissions?|access(?: level)?|scope|rights)\b['\"]?\s*(?:is|are|=|:|：)\s*['\"]?{_RIGHTS}"
    r"|(?:是|为|成为|当|作为|拥有|具有|具备|享有|获得|有|被授予|授予)了?\s*(?:一[个名位])?(?:(?:本|该|此|这个|整个)(?:系统|平台|服务|应用)的?)?"
    r"(?:超级|最高|高级|全局)?(?:管理员|超级用户|超管|root|admin\w*)(?:用户|账号|身份|权限)?(?!\p{L}*(?:助理|培训))"
    r"|(?:拥有|具有|具备|享有|获得|有|被授予|授予|开放|解锁)了?\s*(?:\p{Han}{0,6}的)?"
    r"(?:最高|全部|所有|一切|完全|超级|特殊|系统|管理员?|root|admin)\s*(?:的)?(?:访问|管理|操作|控制)?权限"
    r"|(?:权限|角色|身份)(?:级别)?\s*(?:是|为|=|:|：)\s*(?:最高|超级|管理员|root|admin)",
    regex.I,
)
_RIGHTS_WORD: Final = regex.compile(r"\b(?:admin(?:istrator)?|root|superuser|sudo)\b|管理员|超级用户|最高权限", regex.I)
_SPEAKER: Final = regex.compile(r"\s*(?:system|assistant|developer|系统|助手)\s*[:：]", regex.I)
_ABOUT_USER: Final = regex.compile(
    r"\s*(?:(?:用户|你|您)(?:本人|自己)?(?:今年|现在|目前|一直|很|非常|最|不|也|还)*"
    r"(?:是(?!否)|叫|姓|住|喜欢|喜爱|热爱|爱|讨厌|偏好|偏爱|有|来自|出生|擅长|拥有|养|\d+岁|[一二三四五六七八九十百]+岁)"
    r"|(?:the )?(?:user|you)(?:'s| (?:is|are|was|were|am|(?:really |also |still )?(?:likes?|loves?|hates?|dislikes?"
    r"|prefers?"
    r"|lives?|has|have|works?|owns?|enjoys?|speaks?|comes? from)))\b)",
    regex.I,
)
_ATTRIBUTE: Final = regex.compile(r"[a-z0-9_]{1,64}")
_REFUSED_ATTRIBUTES: Final = frozenset({"user_id", "tenant", "shard", "type"})
_MAX_ATTRIBUTES, _MAX_VALUE = 16, 256


def judge(items: Iterable[Item], turn: Turn, known: Known, around: str = "") -> list[Judged]:
    """What becomes of each item. `around`: what was said before the turn, as far as the model saw it."""
    dated = any(dates.mentions_time(text) for text in (around, *(message.content for message in turn.messages)))
    return [
        Judged(item, refused=Refused.TOO_MANY) if number >= MAX_ITEMS else _judge(item, turn, known, dated=dated)
        for number, item in enumerate(items)
    ]


def _judge(item: Item, turn: Turn, known: Known, *, dated: bool) -> Judged:
    if why := _refusal(item):
        return Judged(item, refused=why)
    source = _source(item, turn)
    if source is None:
        return Judged(item, refused=_unsaid(item, turn))
    targets, notes = _targets(item, known)
    old = [memory for memory in targets if evidence.folded(memory.content) == evidence.folded(item.content)]
    if old and len(old) == len(targets):
        return Judged(item, refused=Refused.SAME_AS_OLD)
    finding = _finding(item, turn, source, targets, dated=dated)
    return Judged(item, finding, notes=(*notes, *([Refused.OLDER_THAN_MEMORY] * len(finding.newer))))


def _refusal(item: Item) -> Refused | None:
    """What can be told of an item alone."""
    content = item.content
    rules: Sequence[tuple[bool, Refused]] = (
        (item.action is Action.NOOP, Refused.NOOP),
        (item.action is Action.OTHER, Refused.ACTION),
        (not content and bool(item.supersedes), Refused.ACTION),
        (not content or _PLACEHOLDER.fullmatch(content) is not None, Refused.EMPTY),
        (len(content) > MAX_CONTENT, Refused.TOO_LONG),
    )
    for applies, why in rules:
        if applies:
            return why
    if text_problem(content) is not None or filter_rule(content) is not None:
        return Refused.NOT_A_STATEMENT
    if _SPEAKER.match(content) or evidence.orders(content):
        return Refused.INSTRUCTION
    if _PRIVILEGE.search(content) or (_RIGHTS_WORD.search(content) and _PRIVILEGE.search(item.quote[:MAX_CONTENT])):
        return Refused.PRIVILEGE
    return None


def _source(item: Item, turn: Turn) -> Said | None:
    """The message an item is from."""
    quote = item.quote or item.content  # a model that gives no quote may still have kept the words
    roles = ("user", "assistant") if item.type is MemoryType.CONTEXT else ("user",)
    found = evidence.find(quote, turn.messages, roles)
    if found is not None and found.role == "assistant" and _ABOUT_USER.match(item.content):
        return None
    return found


def _unsaid(item: Item, turn: Turn) -> Refused:
    quote = item.quote or item.content
    if evidence.find(quote, turn.messages, ("assistant",)) is not None:
        return Refused.NOT_THE_USERS
    return Refused.INSTRUCTION if evidence.said_as_order(quote, turn.messages) else Refused.QUOTE_NOT_FOUND


def _targets(item: Item, known: Known) -> tuple[list[Memory], list[Refused]]:
    """The memories to supersede that exist and were shown, each once, no more than five."""
    targets: dict[str, Memory] = {}
    notes: list[Refused] = []
    for name in item.supersedes:
        memory = resolve(name, known)
        if memory is None:
            notes.append(Refused.UNKNOWN_ALIAS)
        elif memory.id not in targets and len(targets) == MAX_SUPERSEDES:
            notes.append(Refused.TOO_MANY_SUPERSEDED)
        else:
            targets[memory.id] = memory
    return list(targets.values()), notes


def _finding(item: Item, turn: Turn, source: Said, targets: Sequence[Memory], *, dated: bool) -> Finding:
    older = [memory for memory in targets if memory.created_at <= turn.received_at]
    newer = [memory for memory in targets if memory.created_at > turn.received_at]
    return Finding(
        type=item.type,
        content=item.content,
        shard=item.shard or (targets[0].shard if targets else Shard.GENERAL),
        quote=(item.quote or item.content)[:MAX_QUOTE],
        role=source.role,
        message_id=source.message_id,
        supersedes=tuple(memory.id for memory in older),
        newer=tuple(memory.id for memory in newer),
        occurred_at=_occurred(item, turn) if dated else None,
        attributes=dict(_attributes(item.attributes)),
        rationale=item.rationale[:MAX_RATIONALE],
    )


def _occurred(item: Item, turn: Turn) -> Micros | None:
    """When it happened, where that was stated. A preference of today is a preference: models give the day of the turn
    where they know no other."""
    at = dates.resolve(item.occurred_at, turn.at, turn.zone)
    if at is not None and item.type is MemoryType.PREFERENCE:
        return None if dates.day_of(at, turn.zone) == dates.day_of(turn.at, turn.zone) else at
    return at


def _attributes(given: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    kept = 0
    for key, value in given.items():
        fits = _ATTRIBUTE.fullmatch(key) and key not in _REFUSED_ATTRIBUTES and 0 < len(value) <= _MAX_VALUE
        if fits and kept < _MAX_ATTRIBUTES and text_problem(value) is None and not _RIGHTS_WORD.search(value):
            kept += 1
            yield key, value
