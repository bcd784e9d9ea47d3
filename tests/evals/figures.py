"""One measured value of an evaluation, and how all of them are shown: a table for people, JSON for programs.

Owns the shape and the verdict. What is measured and against which floor is each evaluation's business.
"""

import json
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """A value, its floor (None = for information) and what it was measured over."""

    area: str
    name: str
    value: float
    floor: float | None = None
    at_least: bool = True
    over: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the floor is reached; None without one."""
        if self.floor is None:
            return None
        return self.value >= self.floor if self.at_least else self.value <= self.floor


@dataclass(slots=True)
class Measured:
    """What an evaluation gives: figures, sentences about what could not be measured, and details for the JSON alone."""

    figures: list[Figure] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def add(self, other: "Measured") -> None:
        """Takes in what another one gave."""
        self.figures += other.figures
        self.absent += other.absent
        self.details |= other.details


def show(measured: Measured) -> None:
    """Prints the table, then what was left out."""
    table = Table(title="Evaluations")
    for column in ("area", "measure", "over"):
        table.add_column(column)
    for column in ("value", "floor", ""):
        table.add_column(column, justify="right")
    for figure in measured.figures:
        floor = "" if figure.floor is None else f"{'≥' if figure.at_least else '≤'} {_number(figure.floor)}"
        verdict = {None: "", True: "ok", False: "MISSED"}[figure.met]
        table.add_row(figure.area, figure.name, figure.over, _number(figure.value), floor, verdict)
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    for sentence in measured.absent:
        print(sentence)


def write(measured: Measured, path: Path) -> None:
    """Writes everything as JSON."""
    rows = [{**asdict(figure), "met": figure.met} for figure in measured.figures]
    told = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "figures": rows,
        "absent": measured.absent,
        **measured.details,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told, ensure_ascii=False, indent=1) + "\n", "utf-8")


def any_missed(figures: Sequence[Figure]) -> bool:
    """True where a floor is not reached."""
    return any(figure.met is False for figure in figures)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) >= 2 else f"{value:.3f}"
