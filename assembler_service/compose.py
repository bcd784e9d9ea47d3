"""The composition root: what is built, from which settings, and how it is taken down again.

Everything lives in an AsyncExitStack: what was opened last is closed first. What is not needed is not imported: the LLM
client without an endpoint, the second vocabulary before someone asks for it.
"""

import contextlib
import os
from pathlib import Path

import uuid_utils

from assembler_service.adapters.memory_client import GrpcConversations, GrpcMemories
from assembler_service.adapters.prompts import summary_template
from assembler_service.adapters.tokenizer import ENCODINGS, Tokenizer, VocabularyMissing, encoding_for
from assembler_service.api.prompt_api import PromptApi
from assembler_service.domain.model import SummaryReason
from assembler_service.ports import Conversations, Memories, Summarizer
from assembler_service.service.answers import Answers
from assembler_service.service.assembling import Assembling
from assembler_service.service.desk import Desk
from assembler_service.service.encodings import Encodings
from assembler_service.service.lookups import Lookups
from assembler_service.service.measures import Measures
from assembler_service.service.sessions import Sessions
from assembler_service.settings import AssemblerSettings, MemoryTlsSettings
from shared.channel import ChannelTls
from shared.config import ConfigError
from shared.telemetry import Telemetry


def application(settings: AssemblerSettings, telemetry: Telemetry, stack: contextlib.AsyncExitStack) -> PromptApi:
    """Builds the service. ConfigError names what cannot be used."""
    try:
        tokenizer = Tokenizer(settings.assembler_count_cache)
    except VocabularyMissing as error:
        raise ConfigError(f"start refused: {error}") from error
    desk = Desk(min(4, os.cpu_count() or 1))
    stack.callback(desk.close)
    encodings = Encodings(tokenizer.counter, encoding_for)
    measures = Measures(telemetry)
    memories, conversations = _memory_service(settings, stack)
    sessions = Sessions(conversations, telemetry)
    assembling = Assembling(
        encodings=encodings,
        lookups=Lookups(memories, sessions, settings.assembler_lookup_timeout_seconds, telemetry),
        sessions=sessions,
        summarizer=_summarizer(settings, stack),
        summary_seconds=settings.assembler_summary.timeout_seconds,
        desk=desk,
        measures=measures,
        telemetry=telemetry,
        new_id=lambda: str(uuid_utils.uuid7()),
    )
    return PromptApi(
        assembling=assembling, encodings=encodings, answers=Answers(desk, measures), desk=desk, known=ENCODINGS
    )


def _memory_service(
    settings: AssemblerSettings, stack: contextlib.AsyncExitStack
) -> tuple[Memories, Conversations] | tuple[None, None]:
    if settings.assembler_memory_target is None:
        return None, None
    tls = _channel_tls(settings.assembler_memory_tls)
    memories = GrpcMemories(settings.assembler_memory_target, tls)
    stack.push_async_callback(memories.close)
    conversations = GrpcConversations(settings.assembler_memory_target, tls)
    stack.push_async_callback(conversations.close)
    return memories, conversations


def _channel_tls(settings: MemoryTlsSettings) -> ChannelTls | None:
    if not settings.enabled:
        return None
    name = "PALIMPSEST_ASSEMBLER_MEMORY_TLS__"
    return ChannelTls(
        authorities=_pem(f"{name}CA_FILE", settings.ca_file),
        certificate=_pem(f"{name}CERT_FILE", settings.cert_file),
        key=_pem(f"{name}KEY_FILE", settings.key_file),
    )


def _pem(setting: str, path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{setting}: cannot read {path}: {error.strerror}") from error


def _summarizer(settings: AssemblerSettings, stack: contextlib.AsyncExitStack) -> Summarizer | SummaryReason:
    summary, llm = settings.assembler_summary, settings.llm
    if not summary.enabled:
        return SummaryReason.DISABLED
    if llm.base_url is None:
        return SummaryReason.NO_MODEL
    # Here: a deployment without a model starts without its client.
    from assembler_service.service.summarizing import RollingSummarizer
    from shared.llm import ChatModel

    model = ChatModel(
        llm.base_url, llm.api_key.get_secret_value() if llm.api_key else "", llm.model, summary.timeout_seconds
    )
    summarizer = RollingSummarizer(
        model,
        summary_template,
        timeout_seconds=summary.timeout_seconds,
        cache_seconds=summary.cache_seconds,
        cache_entries=summary.cache_entries,
    )
    stack.push_async_callback(summarizer.close)
    return summarizer
