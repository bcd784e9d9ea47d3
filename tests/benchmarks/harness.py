"""How benchmarks are timed and told: ratios within one run, the absolute medians beside them, the machine above.

Owns the clockwork, the Markdown table and the JSON history in `bench-results/`. What is measured, and against which
floor, is each benchmark's business. Nothing here is a test: the same code on another machine gives other figures.
"""

import gc
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "bench-results"
_PACKAGES: Final = ("grpcio", "protobuf", "tiktoken", "numpy")


@dataclass(frozen=True, slots=True)
class Row:
    """One measure. `medians` are absolute: milliseconds, seconds, calls a second or MB, as their names say."""

    area: str
    name: str
    value: float
    unit: str = ""
    """"" = a ratio."""
    floor: float | None = None
    at_least: bool = False
    medians: dict[str, float] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Whether the floor is reached; None without one."""
        if self.floor is None:
            return None
        return self.value >= self.floor if self.at_least else self.value <= self.floor


def medians(rounds: int, *works: Callable[[], object], before: Callable[[], object] | None = None) -> list[float]:
    """Median milliseconds of each piece of work, done in turn round by round, so that all share the machine's moods.

    `before` is run, untimed, before each piece. The collector of garbage rests meanwhile.
    """
    times: list[list[float]] = [[] for _ in works]
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for place, work in enumerate(works):
                if before is not None:
                    before()
                begun = time.perf_counter()
                work()
                times[place].append(1_000 * (time.perf_counter() - begun))
    finally:
        gc.enable()
    return [statistics.median(found) for found in times]


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": _commit(),
        "cpu": _line("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(int((_line("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) / 2**20, 1),
        "load_before": round(os.getloadavg()[0], 2),
        "kernel": platform.release(),
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
    }


def resident_mb(pid: int) -> float:
    """Resident memory of a process in MB (10^6 bytes)."""
    return int((_line(f"/proc/{pid}/status", "VmRSS") or "0 kB").split()[0]) * 1_024 / 1e6


def markdown(rows: Sequence[Row], about: dict[str, Any]) -> str:
    """The table."""
    lines = [
        "# Benchmarks",
        "",
        ", ".join(f"{name} {value}" for name, value in about.items()),
        "",
        "| area | measure | value | floor | | medians |",
        "|---|---|---:|---:|---|---|",
    ]
    for row in rows:
        floor = "" if row.floor is None else f"{'≥' if row.at_least else '≤'} {row.floor:g}"
        verdict = {None: "", True: "ok", False: "**MISSED**"}[row.met]
        absolute = ", ".join(f"{name} {value:,.2f}" for name, value in row.medians.items())
        lines.append(
            f"| {row.area} | {row.name} | {row.value:,.2f}{' ' + row.unit if row.unit else ''} | {floor} | {verdict} "
            f"| {absolute} |"
        )
    return "\n".join(lines) + "\n"


def record(rows: Sequence[Row], about: dict[str, Any]) -> Path:
    """Writes this run beside the earlier ones, and its table as the latest; answers the JSON's path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{about['time'].replace('-', '').replace(':', '')}.json"
    told = {"machine": about, "rows": [{**asdict(row), "met": row.met} for row in rows]}
    path.write_text(json.dumps(told, ensure_ascii=False, indent=1) + "\n", "utf-8")
    (RESULTS / "latest.md").write_text(markdown(rows, about), "utf-8")
    return path


def _line(path: str, name: str) -> str:
    """The value of the first `name: value` of a file of /proc; "" where there is none."""
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _commit() -> str:
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or "unknown"
