"""Named places at which a test ends or holds up the process, to see what a crash just there leaves behind.

Nothing happens unless `PALIMPSEST_TEST_FAILPOINTS` is set when the process starts: a list like
`write.inserted=kill,write.committed=kill@3`. Actions: `kill` (SIGKILL to the process itself, as the kernel would) and
`hang` (waits until cancelled); `@n` acts at the n-th time only, else at the first. Costs one look into an empty dict.
"""

import asyncio
import os
import signal
from collections.abc import Mapping
from typing import Final

VARIABLE: Final = "PALIMPSEST_TEST_FAILPOINTS"


def parse(text: str) -> dict[str, tuple[str, int]]:
    """The action, and the time at which it is due, by point. ValueError when the text is not such a list."""
    armed = {}
    for part in filter(None, text.split(",")):
        name, equals, what = part.strip().partition("=")
        action, _, time = what.partition("@")
        if not (name and equals and action in ("kill", "hang") and (time or "1").isdigit()):
            raise ValueError(f"{VARIABLE}: '{part}' is not like point=kill or point=hang@2")
        armed[name] = (action, int(time or "1"))
    return armed


def _from(environ: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    return parse(environ.get(VARIABLE, ""))


_armed = _from(os.environ)
_reached: dict[str, int] = {}


async def reach(name: str) -> None:
    """Says that the process is at this point now."""
    if not _armed or name not in _armed:
        return
    _reached[name] = _reached.get(name, 0) + 1
    action, time = _armed[name]
    if _reached[name] != time:
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.Event().wait()
