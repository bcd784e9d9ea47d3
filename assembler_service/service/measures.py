"""What is measured of prompts and answers: tokens, cuts, summaries, lookups, citations.

Numbers and codes only, never text.
"""

from opentelemetry import trace

from assembler_service.domain.coverage import Coverage
from assembler_service.domain.model import Report, Status
from assembler_service.service.lookups import LookupReport
from shared.telemetry import Telemetry


class Measures:
    """The instruments; without an exporter they cost next to nothing."""

    def __init__(self, telemetry: Telemetry) -> None:
        meter = telemetry.meter
        self._tokens = meter.create_histogram(
            "assembler.block.tokens", unit="{token}", description="Tokens per prompt, by block, given and kept."
        )
        self._total = meter.create_histogram(
            "assembler.prompt.tokens", unit="{token}", description="Tokens of whole prompts."
        )
        self._cuts = meter.create_counter(
            "assembler.cuts", unit="{item}", description="Items not in the prompt whole, by block, status and reason."
        )
        self._summaries = meter.create_counter(
            "assembler.summaries", unit="{prompt}", description="Prompts by what became of their summary."
        )
        self._lookups = meter.create_counter(
            "assembler.lookups", unit="{lookup}", description="Lookups by name and status."
        )
        self._lookup_time = meter.create_histogram(
            "assembler.lookup.duration", unit="s", description="Time of lookups by name and status."
        )
        self._coverage = meter.create_histogram(
            "assembler.citation_coverage",
            unit="1",
            description="Share of an answer's sentences that carry a valid citation.",
            explicit_bucket_boundaries_advisory=[n / 20 for n in range(21)],
        )
        self._invalid = meter.create_counter(
            "assembler.invalid_citations", unit="{citation}", description="Numbers in answers that stand for no source."
        )

    def prompt(self, prompt_id: str, report: Report, lookups: tuple[LookupReport, ...], *, dry_run: bool) -> None:
        """One prompt, for the metrics and the span of its call. A dry run is no prompt: only its lookups count."""
        span = trace.get_current_span()
        span.set_attributes(
            {
                "palimpsest.prompt_id": prompt_id,
                "assembler.total_tokens": report.total,
                "assembler.limit_tokens": report.limit,
                "assembler.summary": summary_outcome(report),
            }
        )
        for lookup in lookups:
            about = {"name": lookup.name, "status": lookup.status.name}
            self._lookups.add(1, about)
            self._lookup_time.record(lookup.milliseconds / 1000, about)
        if dry_run:
            return
        self._total.record(report.total)
        for block in report.blocks:
            self._tokens.record(block.given, {"block": block.block.name, "part": "given"})
            self._tokens.record(block.kept, {"block": block.block.name, "part": "kept"})
        cuts: dict[tuple[str, str, str], int] = {}
        for item in report.items:
            if item.status is not Status.KEPT:
                key = (item.block.name, item.status.name, item.reason.name)
                cuts[key] = cuts.get(key, 0) + 1
        for (block_name, status, reason), items in cuts.items():
            self._cuts.add(items, {"block": block_name, "status": status, "reason": reason})
        self._summaries.add(1, {"outcome": summary_outcome(report)})

    def answer(self, prompt_id: str, found: Coverage) -> None:
        """One answer."""
        span = trace.get_current_span()
        if prompt_id:
            span.set_attribute("palimpsest.prompt_id", prompt_id)
        if found.coverage is not None:
            span.set_attribute("assembler.citation_coverage", found.coverage)
            self._coverage.record(found.coverage)
        if found.invalid:
            self._invalid.add(len(found.invalid))


def summary_outcome(report: Report) -> str:
    """USED, CACHED, or why there is none, or no newer one."""
    summary = report.summary
    return summary.reason.name if summary.reason else "CACHED" if summary.cached else "USED"
