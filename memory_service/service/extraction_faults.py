"""What a failed extraction means for its job: later, or not by itself any more.

A turn is never lost: the model being away makes it wait, and one that cannot be extracted is kept as a dead letter.
Owns the codes that are stored; refuses texts, since an error's may hold a turn's.
"""

import logging
import random
from typing import Final

from memory_service.conversation_ports import ExtractionJob
from memory_service.domain.extraction.parsing import Unparseable
from memory_service.ports import KeyMissing, StoreUnavailable
from memory_service.service.vault import Unreadable
from memory_service.service.writer import HeadMoved
from shared.errors import Aborted
from shared.llm import ModelTimeout, ModelUnavailable

log = logging.getLogger(__name__)

SECOND: Final = 1_000_000
LONGEST_WAIT: Final = 300 * SECOND
PATIENCE: Final = 24 * 3600 * SECOND
"""So long a turn is tried again while the model is away,"""
TRIES: Final = 24
"""and so often at least."""
OWN_FAULTS: Final = 5
"""Tries after which a refusal, or a fault of ours, is taken for one of this turn."""
ALONE: Final = 8
"""Tries after which a turn that fails while others are answered is given up."""
_REFUSED_REQUEST: Final = (400, 413, 422)
_OF_THE_ENDPOINT: Final = (401, 403, 404, 429)
"""Credentials, address, model name, rate: whatever the turn says."""

Step = tuple[str, int | None]
"""The code of a failure, and after how many microseconds it is tried again; None = not by itself."""


def next_step(job: ExtractionJob, error: Exception, *, now: int, answered_at: int) -> Step:
    """What becomes of a job that failed. `answered_at`: when the model last answered any turn."""
    delay = min(SECOND << min(job.attempts - 1, 20), LONGEST_WAIT)
    delay = int(delay * random.uniform(0.5, 1.5))  # noqa: S311 - spreads load, hides nothing
    match error:
        case Unparseable():
            return ("PARSE_FAILED" if error.code in ("NOT_JSON", "WRONG_SHAPE") else f"ANSWER_{error.code}"), None
        case ModelUnavailable():
            return _model_failed(job, error, delay, now, answered_at)
        case StoreUnavailable():
            step: Step = f"{error.store.upper()}_UNAVAILABLE", delay
        case KeyMissing():
            step = "KEY_MISSING", delay
        case Unreadable():
            step = "UNREADABLE", None
        case Aborted() | HeadMoved():
            step = "LOST_RACE", delay
        case _:
            log.error("extraction of a turn failed", exc_info=error)
            step = "INTERNAL", delay if job.attempts < OWN_FAULTS else None
    return step


def _model_failed(job: ExtractionJob, error: ModelUnavailable, delay: int, now: int, answered_at: int) -> Step:
    log.warning("the model gave no answer: %s", error)
    code = "MODEL_UNAVAILABLE" if error.status is None else f"MODEL_{error.status}"
    if isinstance(error, ModelTimeout):
        code = "MODEL_TIMEOUT"
    refused = error.status in _REFUSED_REQUEST and job.attempts >= OWN_FAULTS
    # Others are answered meanwhile: it is this turn, not the model.
    alone = job.attempts >= ALONE and answered_at > job.created_at and error.status not in _OF_THE_ENDPOINT
    waited = job.attempts >= TRIES and now - job.created_at > PATIENCE
    if refused or alone or waited:
        return code, None
    return code, max(delay, int(error.retry_after * SECOND))
