"""A cache that remembers nothing, for installations without Redis. Every load is a miss and nothing ever fails."""

from memory_service.ports import CachedSet


class NoCache:
    """`SetCache` that forgets at once, as the port allows."""

    async def load(self, user_id: str) -> CachedSet | None:
        """Always None."""
        return None

    async def fill(self, user_id: str, entry: CachedSet) -> None:
        """Does nothing."""

    async def drop(self, user_id: str) -> None:
        """Does nothing."""

    async def ping(self) -> None:
        """Always succeeds."""

    async def close(self) -> None:
        """Does nothing."""
