"""The composition root: what is built, from which settings, in which order, and how it is taken down again.

`Infrastructure` is stores and models; `Application` the use cases on it. Both live in an AsyncExitStack: what was
opened last is closed first.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from memory_service.adapters.breaker import Breaker, GuardedCache, GuardedEmbedder, GuardedIndex
from memory_service.adapters.cache_none import NoCache
from memory_service.adapters.embedder_bundled import BundledEmbedder
from memory_service.adapters.embedder_openai import OpenAIEmbedder
from memory_service.adapters.keys import KeyFileError, LocalKeyProvider, make_key_file, parse_keys, read_key_file
from memory_service.adapters.sql.conversations import SqlConversations
from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.extractions import SqlExtractions
from memory_service.adapters.sql.jobs import SqlJobs
from memory_service.adapters.sql.keys import SqlKeyStore
from memory_service.adapters.sql.outbox import SqlOutbox
from memory_service.adapters.sql.record import SqlRecord
from memory_service.adapters.sql.settings import SqlSettingStore
from memory_service.adapters.sql.upkeep import SqlUpkeep
from memory_service.adapters.traced import traced
from memory_service.api.admin_api import AdminApi
from memory_service.api.conversation_api import ConversationApi
from memory_service.api.memory_api import MemoryApi
from memory_service.conversation_ports import Conversations, Extractions, PieceUpkeep
from memory_service.domain.space import EmbeddingSpace, bundled_space
from memory_service.ports import SetCache, VectorIndex
from memory_service.record import Jobs, KeyStore, Outbox, Record, SettingStore, Upkeep
from memory_service.service.access import AccessLog
from memory_service.service.active import ActiveSets
from memory_service.service.admin import Admin
from memory_service.service.asking import Questioner
from memory_service.service.conversations import Converse
from memory_service.service.corpora import Corpus, MemoryCorpus, PieceCorpus
from memory_service.service.curate import Curate
from memory_service.service.embedding import Embeddings, SpaceModel
from memory_service.service.extracting import Extractor
from memory_service.service.histories import Histories
from memory_service.service.history import SearchHistory
from memory_service.service.indexing import Indexer
from memory_service.service.piece_indexing import PieceIndexer
from memory_service.service.recall import Recall
from memory_service.service.reembed import Reembed
from memory_service.service.remember import Remember
from memory_service.service.stores import Store, Stores
from memory_service.service.sweep import Sweeper
from memory_service.service.tunables import LiveTunables
from memory_service.service.vault import Keyring
from memory_service.service.work import JobRunner
from memory_service.service.writer import Writer
from memory_service.settings import EmbeddingSettings, MemorySettings
from shared.config import ConfigError
from shared.llm import ChatModel
from shared.telemetry import Telemetry
from shared.tokens import TokenSigner

HISTORY_SHARE = 2
"""Conversations that this process keeps in clear for searching: this part of what it keeps of active sets."""


def now_micros() -> int:
    """The clock of production."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Infrastructure:
    """The stores and models of one process."""

    settings: MemorySettings
    telemetry: Telemetry
    database: Database
    key_database: Database
    record: Record
    conversations: Conversations
    extractions: Extractions
    outbox: Outbox
    jobs: Jobs
    upkeep: Upkeep
    piece_upkeep: PieceUpkeep
    setting_store: SettingStore
    key_store: KeyStore
    cache: SetCache
    index: VectorIndex | None
    """Of memories."""
    piece_index: VectorIndex | None
    """Of pieces of messages; there with the other, or neither is."""
    embeddings: Embeddings
    model: ChatModel | None
    """The cheap model; None = there is none."""
    stores: Stores


def databases(settings: MemorySettings, stack: contextlib.AsyncExitStack) -> tuple[Database, Database]:
    """The record's database and the keys', which may be the same. ConfigError names a URL that cannot be used."""
    try:
        if settings.embedded:
            settings.data_dir.mkdir(parents=True, exist_ok=True)
        record = Database(
            settings.record_url, timeout=settings.database_timeout_seconds, pool_size=settings.database_pool
        )
        keys = record
        if settings.key_database_url is not None:
            url = settings.key_database_url.get_secret_value()
            keys = Database(url, timeout=settings.database_timeout_seconds, pool_size=4)
    except (ValueError, OSError) as error:
        raise ConfigError(f"the record cannot be used: {error}") from error
    stack.push_async_callback(record.close)
    if keys is not record:
        stack.push_async_callback(keys.close)
    return record, keys


def infrastructure(settings: MemorySettings, telemetry: Telemetry, stack: contextlib.AsyncExitStack) -> Infrastructure:
    """Builds stores and models; connects to nothing yet."""
    database, key_database = databases(settings, stack)
    record: Record = SqlRecord(database, now_micros)
    stores = [Store("record", database.engine.dialect.name, record.ping)]
    cache = _cache(settings, stack, stores)
    index, piece_index = _indexes(settings, stack, stores)
    conversations = SqlConversations(database)
    return Infrastructure(
        settings=settings,
        telemetry=telemetry,
        database=database,
        key_database=key_database,
        record=traced(record, "record", telemetry),
        conversations=traced(conversations, "conversations", telemetry),
        extractions=traced(SqlExtractions(database, now_micros), "extractions", telemetry),
        outbox=traced(SqlOutbox(database, now_micros), "outbox", telemetry),
        jobs=SqlJobs(database, now_micros),
        upkeep=SqlUpkeep(database),
        piece_upkeep=conversations,
        setting_store=SqlSettingStore(database),
        key_store=traced(SqlKeyStore(key_database, now_micros), "keys", telemetry),
        cache=traced(cache, "cache", telemetry),
        index=traced(index, "index", telemetry) if index is not None else None,
        piece_index=traced(piece_index, "piece_index", telemetry) if piece_index is not None else None,
        embeddings=_embeddings(settings, telemetry, stack, stores),
        model=_chat_model(settings, stack),
        stores=Stores(stores),
    )


def _chat_model(settings: MemorySettings, stack: contextlib.AsyncExitStack) -> ChatModel | None:
    llm = settings.llm
    if llm.base_url is None:
        return None
    key = llm.api_key.get_secret_value() if llm.api_key else ""
    model = ChatModel(llm.base_url, key, settings.memory.extract_model, llm.timeout_seconds)
    stack.push_async_callback(model.close)
    return model


def _cache(settings: MemorySettings, stack: contextlib.AsyncExitStack, stores: list[Store]) -> SetCache:
    if settings.redis_url is None:
        return NoCache()
    from memory_service.adapters.cache_redis import RedisCache  # here: the embedded default starts faster without it

    breaker = Breaker("cache")
    # Half a second: a busy event loop is late by itself, and that is no sign of a dead cache.
    cache = GuardedCache(RedisCache(settings.redis_url.get_secret_value(), timeout=0.5), breaker)
    stack.push_async_callback(cache.close)
    stores.append(Store("cache", "redis", cache.ping, lambda: breaker.is_open))
    return cache


def _indexes(
    settings: MemorySettings, stack: contextlib.AsyncExitStack, stores: list[Store]
) -> tuple[VectorIndex | None, VectorIndex | None]:
    """The indexes of memories and of pieces of messages: two collections of one server, behind one breaker."""
    if settings.milvus_uri is None:
        return None, None
    from memory_service.adapters.index_milvus import MilvusIndex  # here: it takes a second

    breaker = Breaker("index")
    token = settings.milvus_token.get_secret_value() if settings.milvus_token else None
    indexes = []
    for prefix in ("palimpsest", "palimpsest_pieces"):
        milvus = MilvusIndex(
            settings.milvus_uri.get_secret_value(),
            token=token,
            database=settings.milvus_database or None,
            timeout=settings.index.timeout_seconds,
            collection_prefix=prefix,
        )
        index = GuardedIndex(milvus, breaker)
        stack.push_async_callback(index.close)
        indexes.append(index)
    memories, pieces = indexes
    stores.append(Store("index", "milvus", memories.ping, lambda: breaker.is_open))
    return memories, pieces


def _embeddings(
    settings: MemorySettings, telemetry: Telemetry, stack: contextlib.AsyncExitStack, stores: list[Store]
) -> Embeddings:
    current = _model(settings.embedding, telemetry, stores, "embedding")
    models = [current]
    if settings.embedding_previous is not None:
        models.append(_model(settings.embedding_previous, telemetry, stores, "embedding_previous"))
    embeddings = Embeddings(*models)
    stack.push_async_callback(embeddings.close)
    return embeddings


def _model(settings: EmbeddingSettings, telemetry: Telemetry, stores: list[Store], name: str) -> SpaceModel:
    space = load_space(settings)
    breaker = Breaker("embedding")
    guarded = GuardedEmbedder(embedder(settings, space.dim), breaker)
    stores.append(Store(name, settings.provider, None, lambda: breaker.is_open))
    return SpaceModel(space, traced(guarded, "embedding", telemetry))


def load_space(settings: EmbeddingSettings) -> EmbeddingSpace:
    """The embedding space of a model. ConfigError names a file that cannot be used."""
    if settings.space_file is None:
        return bundled_space()
    try:
        space = EmbeddingSpace.from_json(settings.space_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"embedding.space_file {settings.space_file}: {error}") from error
    if settings.provider == "openai" and settings.dim != space.dim:
        raise ConfigError(f"embedding.dim is {settings.dim}, but {settings.space_file} was made for {space.dim}")
    return space


def embedder(settings: EmbeddingSettings, dim: int) -> BundledEmbedder | OpenAIEmbedder:
    """The model itself, without a breaker."""
    if settings.provider == "bundled":
        return BundledEmbedder()
    return OpenAIEmbedder(
        settings.base_url or "",
        settings.api_key.get_secret_value() if settings.api_key else "",
        settings.model,
        dim,
        query_prefix=settings.query_prefix,
        passage_prefix=settings.passage_prefix,
        timeout=settings.timeout_seconds,
    )


async def open_keyring(settings: MemorySettings, key_store: KeyStore) -> Keyring:
    """The keys. ConfigError when wrapped keys exist that this installation cannot open: never a new key over them."""
    wrapped = await key_store.kek_ids()
    if wrapped and not settings.keys.keys and not settings.key_file.exists():
        raise ConfigError(f"start refused: {_missing(wrapped)}; there is no key file {settings.key_file}")
    keyring = Keyring(key_store, key_provider(settings, create=not wrapped))
    if missing := await keyring.missing():
        raise ConfigError(f"start refused: {_missing(missing)}")
    try:
        await keyring.installation_secret("check")
    except ValueError as error:  # a key of the right name and another value
        raise ConfigError(f"start refused: {error}") from error
    return keyring


def _missing(keys: Mapping[str, int]) -> str:
    return ", ".join(f"key {kek} is missing ({n} data keys hang on it)" for kek, n in sorted(keys.items()))


def key_provider(settings: MemorySettings, *, create: bool) -> LocalKeyProvider:
    """The key-encryption keys from environment or file; a file is made only where nothing is wrapped yet."""
    try:
        if settings.keys.keys:
            texts = {name: key.get_secret_value() for name, key in settings.keys.keys.items()}
            return parse_keys(texts, settings.keys.current or next(iter(texts)))
        path = settings.key_file
        if path.exists():
            return read_key_file(path)
        if not create:
            raise KeyFileError(f"the key file {path} is missing, and memories exist that only its keys open")
        return make_key_file(path)
    except (KeyFileError, OSError) as error:
        raise ConfigError(f"start refused: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The use cases of one process, and its background work."""

    memory_api: MemoryApi
    conversation_api: ConversationApi
    admin_api: AdminApi
    tunables: LiveTunables
    indexer: Indexer
    runner: JobRunner
    sweeper: Sweeper
    access: AccessLog
    writer: Writer
    extractor: Extractor


async def application(infra: Infrastructure) -> Application:
    """Builds the use cases. Needs the record: it reads keys and settings. StoreUnavailable, ConfigError."""
    settings, record, stores = infra.settings, infra.record, infra.stores
    keyring = await open_keyring(settings, infra.key_store)
    signer = TokenSigner(await keyring.installation_secret("tokens"))
    tunables = LiveTunables(settings, infra.setting_store, now_micros)
    await tunables.refresh()
    home = ZoneInfo(settings.time_zone)
    access = AccessLog(record, now_micros)
    active = ActiveSets(record, infra.cache, now_micros, max_bytes=settings.cache_megabytes * 1_000_000)
    wake = asyncio.Event()
    writer = Writer(
        record=record,
        keyring=keyring,
        active=active,
        access=access,
        clock=now_micros,
        wake=wake.set,
        indexed=infra.index is not None,
    )
    pieces = PieceIndexer(
        record=record,
        conversations=infra.conversations,
        keyring=keyring,
        writer=writer,
        embeddings=infra.embeddings,
        index=infra.piece_index,
    )
    indexer = Indexer(
        record=record,
        outbox=infra.outbox,
        keyring=keyring,
        writer=writer,
        embeddings=infra.embeddings,
        tunables=tunables,
        index=infra.index,
        pieces=pieces,
        wake=wake,
    )
    remember = Remember(
        record=record,
        writer=writer,
        embeddings=infra.embeddings,
        tunables=tunables,
        access=access,
        stores=stores,
        clock=now_micros,
        home=home,
    )
    recall = Recall(
        record=record,
        keyring=keyring,
        active=active,
        embeddings=infra.embeddings,
        index=infra.index,
        outbox=infra.outbox,
        tunables=tunables,
        access=access,
        stores=stores,
        telemetry=infra.telemetry,
        clock=now_micros,
    )
    curate = Curate(
        record=record, keyring=keyring, writer=writer, remember=remember, embeddings=infra.embeddings, stores=stores
    )
    extract_wake = asyncio.Event()

    def appended() -> None:
        wake.set()
        extract_wake.set()

    converse = Converse(
        record=record,
        conversations=infra.conversations,
        extractions=infra.extractions,
        keyring=keyring,
        writer=writer,
        active=active,
        embeddings=infra.embeddings,
        clock=now_micros,
        wake=appended,
    )
    questioner = (
        Questioner(infra.model, infra.telemetry, timeout_seconds=settings.llm.timeout_seconds) if infra.model else None
    )
    extractor = Extractor(
        record=record,
        conversations=infra.conversations,
        extractions=infra.extractions,
        keyring=keyring,
        writer=writer,
        active=active,
        embeddings=infra.embeddings,
        remember=remember,
        tunables=tunables,
        questioner=questioner,
        telemetry=infra.telemetry,
        clock=now_micros,
        home=home,
        wake=extract_wake,
    )
    histories = Histories(
        infra.conversations, infra.embeddings, max_bytes=settings.cache_megabytes * 1_000_000 // HISTORY_SHARE
    )
    search = SearchHistory(
        record=record,
        keyring=keyring,
        histories=histories,
        embeddings=infra.embeddings,
        index=infra.piece_index,
        outbox=infra.outbox,
        tunables=tunables,
        stores=stores,
    )
    reembed = Reembed(
        record=record,
        conversations=infra.conversations,
        keyring=keyring,
        writer=writer,
        active=active,
        embeddings=infra.embeddings,
    )
    runner = JobRunner(
        jobs=infra.jobs,
        upkeep=infra.upkeep,
        embeddings=infra.embeddings,
        reembed=reembed,
        corpora=_corpora(infra, keyring),
        clock=now_micros,
    )
    sweeper = Sweeper(
        upkeep=infra.upkeep,
        outbox=infra.outbox,
        jobs=infra.jobs,
        runner=runner,
        writer=writer,
        embeddings=infra.embeddings,
        tunables=tunables,
        access=access,
        clock=now_micros,
        visibility=int(settings.index.visibility_seconds * 1_000_000),
        reconcile_hours=settings.index.reconcile_hours if infra.index is not None else 0,
    )
    admin = Admin(
        tunables=tunables,
        jobs=infra.jobs,
        runner=runner,
        upkeep=infra.upkeep,
        outbox=infra.outbox,
        stores=stores,
        extractions=infra.extractions,
        wake=extract_wake.set,
    )
    return Application(
        memory_api=MemoryApi(
            remember=remember, recall=recall, curate=curate, signer=signer, clock=now_micros, home=home
        ),
        conversation_api=ConversationApi(converse=converse, search=search, signer=signer, clock=now_micros, home=home),
        admin_api=AdminApi(admin, signer),
        tunables=tunables,
        indexer=indexer,
        runner=runner,
        sweeper=sweeper,
        access=access,
        writer=writer,
        extractor=extractor,
    )


def _corpora(infra: Infrastructure, keyring: Keyring) -> list[Corpus]:
    if infra.index is None or infra.piece_index is None:
        return []
    return [
        MemoryCorpus(upkeep=infra.upkeep, outbox=infra.outbox, keyring=keyring, index=infra.index),
        PieceCorpus(upkeep=infra.piece_upkeep, outbox=infra.outbox, keyring=keyring, index=infra.piece_index),
    ]
