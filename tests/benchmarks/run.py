"""All benchmarks in one table: `make bench`, or `python -m tests.benchmarks.run [NAME ...]`.

Owns the order, the output and the exit status: 1 when a floor is missed.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tests.benchmarks import assembler_bench
from tests.benchmarks.harness import Row, machine, markdown, record

BENCHMARKS: Final[dict[str, Callable[[], Iterator[Row]]]] = {"assembler": assembler_bench.rows}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the named ones, or all."""
    parser = argparse.ArgumentParser(description="Runs the benchmarks on this machine and prints one table.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; none = all")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - BENCHMARKS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    about = machine()
    rows: list[Row] = []
    for name in options.names or BENCHMARKS:
        for row in BENCHMARKS[name]():
            rows.append(row)
            print(f"  {row.area}: {row.name}: {row.value:,.2f} {row.unit}", file=sys.stderr, flush=True)
    print(markdown(rows, about))
    print(f"written to {record(rows, about)}")
    return 1 if any(row.met is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
