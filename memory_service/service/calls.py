"""Who calls, with which rights, and what a mutating call is remembered by."""

from dataclasses import dataclass

from memory_service.domain.model import Shard
from shared.errors import InvalidArgument, Violation


@dataclass(frozen=True, slots=True)
class Caller:
    """The user whose memories a call is about. `shards` = those it may see, None = all."""

    user_id: str
    shards: frozenset[Shard] | None = None

    def sees(self, shard: Shard) -> bool:
        """True when the caller has a right to this shard."""
        return self.shards is None or shard in self.shards

    def within(self, asked: frozenset[Shard]) -> frozenset[Shard] | None:
        """The asked shards (empty = all) that the caller may see; None = no restriction."""
        if not asked:
            return self.shards
        return asked if self.shards is None else asked & self.shards


@dataclass(frozen=True, slots=True)
class Mutation:
    """A mutating call: its RPC, its request id (empty = not given) and its arguments in canonical form."""

    rpc: str
    request_id: str = ""
    arguments: bytes = b""


def request_reused() -> InvalidArgument:
    """The error for a request id that comes again with other arguments."""
    return InvalidArgument(
        [Violation("request_id", "was used for a call with other arguments within the last 24 hours")]
    )


@dataclass(frozen=True, slots=True)
class Freshness:
    """State of a user's memory that an answer saw; generation "" = the user has none yet."""

    generation: str
    version: int
