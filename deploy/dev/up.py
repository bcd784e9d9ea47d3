"""Both services in the foreground, for a laptop: `make up`.

Ctrl-C or SIGTERM ends both, in good order. When one ends by itself the other is ended too, and the exit code is its own
(1 where it had none to complain of).
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

BIN = Path(sys.executable).parent
MEMORY, ASSEMBLER = ["memory-service", "up"], ["assembler-service", "serve"]


def environment() -> dict[str, str]:
    """Ours, with the assembler pointed at the memory service beside it, unless something else is said."""
    beside = os.environ.get("PALIMPSEST_LISTEN") or "127.0.0.1:50051"
    # A file may say it as well, and the environment would win over it.
    said = {"PALIMPSEST_CONFIG_FILE", "PALIMPSEST_ASSEMBLER_MEMORY_TARGET"} & {k for k, v in os.environ.items() if v}
    return {**os.environ, **({} if said else {"PALIMPSEST_ASSEMBLER_MEMORY_TARGET": beside})}


def main() -> int:
    """Runs both to their end; answers the exit code."""
    running: dict[int, str] = {}
    asked = False

    def end_all() -> None:
        for pid in list(running):  # not waited for yet, so a pid cannot be anybody else's
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        end_all()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    for command in (MEMORY, ASSEMBLER):
        process = subprocess.Popen([BIN / command[0], *command[1:]], env=environment())  # noqa: S603
        running[process.pid] = command[0]
    if asked:  # while the second one was not known yet
        end_all()

    code = 0
    while running:
        pid, status = os.wait()
        name = running.pop(pid, "")
        ended = os.waitstatus_to_exitcode(status)
        ended = 128 - ended if ended < 0 else ended
        if not asked and code == 0:
            code = ended or 1
            print(f"{name} ended by itself (exit code {ended}); the other one is ended too", file=sys.stderr)
            end_all()
        code = code or ended
    return code


if __name__ == "__main__":
    sys.exit(main())
