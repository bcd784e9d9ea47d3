"""A load generator in a process of its own: `python -m tests.benchmarks.load` reads a plan from stdin, writes figures.

Owns sending unary calls with so many at once for so long, and timing them. The calls are bytes: whoever plans them
makes the requests and gives the method's path, so that this process knows no service. The one that measures and the
one that is measured share no interpreter then.
"""

import asyncio
import base64
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import grpc

from tests.benchmarks.harness import ROOT


@dataclass(frozen=True, slots=True)
class Plan:
    """Which calls: `requests` are serialised messages, taken in turn."""

    target: str
    method: str
    """`/package.Service/Method`."""
    requests: Sequence[bytes]
    concurrency: int = 1
    seconds: float = 3.0
    warm_up: int = 20
    """Calls that are not timed."""
    metadata: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Load:
    """What came of it; milliseconds."""

    calls: int
    failures: int
    per_second: float
    p50: float
    p95: float


def run(plan: Plan) -> Load:
    """Runs a plan in a process of its own. RuntimeError with its last words when that fails."""
    told = {**asdict(plan), "requests": [base64.b64encode(one).decode() for one in plan.requests]}
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.load"],
        input=json.dumps(told),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=plan.seconds + 120,
    )
    if done.returncode:
        raise RuntimeError(f"the load generator failed: {done.stderr[-2000:]}")
    return Load(**json.loads(done.stdout))


async def _send(plan: Plan) -> Load:
    size = 64 << 20
    options = [("grpc.max_receive_message_length", size), ("grpc.max_send_message_length", size)]
    async with grpc.aio.insecure_channel(plan.target, options=options) as channel:
        call: Any = channel.unary_unary(plan.method)
        times: list[float] = []
        failures = sent = 0

        async def once() -> None:
            nonlocal sent
            request, sent = plan.requests[sent % len(plan.requests)], sent + 1
            await call(request, timeout=30, metadata=plan.metadata)

        for _ in range(plan.warm_up):
            await once()
        until = time.perf_counter() + plan.seconds

        async def client() -> None:
            nonlocal failures
            while (begun := time.perf_counter()) < until:
                try:
                    await once()
                except grpc.RpcError:
                    failures += 1
                else:
                    times.append(1_000 * (time.perf_counter() - begun))

        begun = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(plan.concurrency)))
        spent = time.perf_counter() - begun
    if len(times) < 2:
        raise RuntimeError(f"{len(times)} calls succeeded, {failures} failed")
    return Load(
        len(times), failures, len(times) / spent, statistics.median(times), statistics.quantiles(times, n=20)[-1]
    )


def main() -> None:
    """Reads the plan, writes the figures."""
    told = json.load(sys.stdin)
    told["requests"] = [base64.b64decode(one) for one in told["requests"]]
    told["metadata"] = tuple((name, value) for name, value in told["metadata"])
    json.dump(asdict(asyncio.run(_send(Plan(**told)))), sys.stdout)


if __name__ == "__main__":
    main()
