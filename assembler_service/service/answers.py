"""ReportAnswer: how well an answer cites, and the metric of it. Keeps nothing."""

from assembler_service.domain.coverage import Coverage, citation_coverage
from assembler_service.service.desk import Desk
from assembler_service.service.measures import Measures


class Answers:
    """The use case."""

    def __init__(self, desk: Desk, measures: Measures) -> None:
        self._desk = desk
        self._measures = measures

    async def report(self, prompt_id: str, citation_count: int, answer: str) -> Coverage:
        """Measures an answer to a prompt with so many citations. `prompt_id` "" = not known."""
        found = await self._desk.run(len(answer), lambda: citation_coverage(answer, citation_count))
        self._measures.answer(prompt_id, found)
        return found
