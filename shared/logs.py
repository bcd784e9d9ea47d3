"""One line of JSON per log record, with the ids that join it to a trace and to what a caller was told.

Owns the form only: what is logged is its author's business (ids and sizes, never a user's text).
"""

import json
import logging
import time

from shared.config_names import mask_urls
from shared.context import request_id
from shared.telemetry import trace_id


class JsonFormatter(logging.Formatter):
    """`time` (UTC, RFC 3339), `level`, `logger`, `message`, and where known `request_id`, `trace_id`, `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line; passwords inside URLs are masked."""
        whole, part = divmod(record.created, 1)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
        line = {
            "time": f"{stamp}.{int(part * 1000):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": mask_urls(record.getMessage()),
            "request_id": request_id(),
            "trace_id": trace_id(),
            "error": mask_urls(self.formatException(record.exc_info)) if record.exc_info else "",
        }
        return json.dumps({key: value for key, value in line.items() if value}, ensure_ascii=False)
