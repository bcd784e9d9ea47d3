"""All evaluations in one table: `make eval`, or `python -m tests.evals.run [NAME ...]`.

Owns the order, the table, the JSON in `eval-results/` and the exit status (1 when a floor is missed). No network, and
no model but the bundled one. What is measured is each evaluation's business.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.space import bundled_space
from tests.evals import assembler_eval, contradictions, dedup_eval, recall_eval
from tests.evals.figures import Figure, Measured, any_missed, show, write

RESULTS: Final = recall_eval.ROOT / "eval-results"


class EmbedOnce:
    """The bundled model, which embeds every text once for all evaluations of a run."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], NDArray[np.float32]] = {}

    def __call__(self, kind: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Raw vectors (n, dim)."""
        new = [text for text in dict.fromkeys(texts) if (kind, text) not in self._known]
        if new:
            for text, vector in zip(new, recall_eval.bundled_embed(kind, new), strict=True):
                self._known[kind, text] = vector
        return np.stack([self._known[kind, text] for text in texts])


def dedup(embed: EmbedOnce) -> Measured:
    """The decision table on the project's pairs and on public ones."""
    space = bundled_space()
    own = dedup_eval.own_pairs()
    measured = Measured()
    answers = list(zip(own, dedup_eval.outcomes(own, space), strict=True))
    measured.figures += _floors(f"{len(own)} own pairs", dedup_eval.own_floors(answers))
    folder = recall_eval.data_folder()
    public = dedup_eval.public_pairs(folder)
    if public:
        judged = list(zip(public, dedup_eval.outcomes(public, space), strict=True))
        measured.figures += _floors(f"{len(public)} pairs of STS-B and SICK", dedup_eval.public_floors(judged))
    else:
        measured.absent.append(f"STS-B and SICK: not measured, nothing at {folder}")
    return measured


def _floors(over: str, floors: Sequence[dedup_eval.Floor]) -> list[Figure]:
    return [Figure("dedup", floor.name, floor.value, floor.floor, floor.at_least, over) for floor in floors]


def recall(embed: EmbedOnce) -> Measured:
    """What recall finds."""
    figures, absent = recall_eval.measure(embed)
    return Measured([Figure("recall", f.name, f.value, f.floor, True, f.over) for f in figures], absent)


EVALUATIONS: Final[dict[str, Callable[[EmbedOnce], Measured]]] = {
    "dedup": dedup,
    "recall": recall,
    "contradictions": contradictions.measure,
    "assembler": assembler_eval.measure,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the named ones, or all."""
    parser = argparse.ArgumentParser(description="Runs the evaluations and prints one table.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(EVALUATIONS)}; none = all")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - EVALUATIONS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(EVALUATIONS)}")
    embed = EmbedOnce()
    measured = Measured()
    for name in options.names or EVALUATIONS:
        begun = time.monotonic()
        print(f"{name} …", file=sys.stderr, flush=True)
        measured.add(EVALUATIONS[name](embed))
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    show(measured)
    path = options.json or RESULTS / time.strftime("%Y%m%dT%H%M%SZ.json", time.gmtime())
    write(measured, path)
    print(f"written to {path}")
    return 1 if any_missed(measured.figures) else 0


if __name__ == "__main__":
    sys.exit(main())
