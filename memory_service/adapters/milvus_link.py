"""The connection to Milvus: one synchronous client, opened at the first call, whose errors are translated here."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import ClassVar, Final, TypeVar

from pymilvus import MilvusClient, MilvusException

from memory_service.ports import StoreUnavailable

T = TypeVar("T")

STORE: Final = "index"
_NOT_FOUND: Final = 100
_NOT_LOADED: Final = 101


class MissingError(StoreUnavailable):
    """The collection is not there (any more). Whoever cannot make sense of that has a store that failed."""


class NotLoadedError(StoreUnavailable):
    """The collection is there and cannot be searched: whoever made it did not come to the end."""


class Link:
    """The connection, made at its first use, and the only place where the driver's errors are seen. Used in threads."""

    def __init__(self, uri: str, token: str, database: str, timeout: float) -> None:
        self.lite = "://" not in uri
        self.timeout = timeout
        self._uri = uri
        self._token = token
        self._database = database
        self._lock = threading.Lock()
        self._client: MilvusClient | None = None
        self._closed = False

    def run(self, work: Callable[[MilvusClient], T]) -> T:
        """Answers what `work` makes of the client; raises StoreUnavailable or one of its two kinds above."""
        try:
            return work(self._open())
        except MilvusException as error:
            if error.code == _NOT_FOUND:
                raise MissingError(STORE, error.message) from error
            if error.code == _NOT_LOADED:
                raise NotLoadedError(STORE, error.message) from error
            raise StoreUnavailable(STORE, f"{error.code}: {error.message}"[:300]) from error
        except StoreUnavailable:
            raise
        except Exception as error:  # the driver lets errors of gRPC, of sockets and its own bugs through
            raise StoreUnavailable(STORE, repr(error)[:300]) from error

    def _open(self) -> MilvusClient:
        with self._lock:
            if self._closed:
                raise StoreUnavailable(STORE, "closed")
            if self._client is None:
                address = _Lite.open(self._uri) if self.lite else self._uri
                try:
                    self._client = MilvusClient(
                        address, token=self._token, db_name=self._database, timeout=self.timeout, dedicated=True
                    )
                except BaseException:
                    if self.lite:
                        _Lite.close(self._uri)
                    raise
            return self._client

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._client is not None:
                self._client.close()
                self._client = None
                if self.lite:
                    _Lite.close(self._uri)


class _Lite:
    """Folders that Milvus Lite has open in this process, each with its number of users: the last one closes it."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _users: ClassVar[Counter[str]] = Counter()

    @classmethod
    def open(cls, folder: str) -> str:
        from milvus_lite.server_manager import server_manager_instance  # type: ignore[import-untyped]

        with cls._lock:
            address = server_manager_instance.start_and_get_uri(folder)
            if address is None:
                raise StoreUnavailable(STORE, "Milvus Lite cannot open its folder; has another process opened it?")
            cls._users[folder] += 1
            return str(address)

    @classmethod
    def close(cls, folder: str) -> None:
        from milvus_lite.server_manager import server_manager_instance

        with cls._lock:
            cls._users[folder] -= 1
            if cls._users[folder] == 0:
                server_manager_instance.release_server(folder)
