"""The rewrite of exceptions to statuses, without a server."""

import inspect
import json
import logging
import re
import subprocess
import sys

import grpc
import pytest
from google.rpc import error_details_pb2

from shared import errors
from shared.context import current_deadline, deadline_at, request_id, set_request_id, time_left
from shared.errors import InvalidArgument, NotFound, ServiceError, Violation
from shared.grpc_errors import rewrite
from shared.logs import JsonFormatter

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, ServiceError) and kind is not ServiceError
]


def test_errors_and_auth_need_no_grpc():
    code = "import sys, shared.errors, shared.context, shared.auth, shared.tokens; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_has_its_code_and_a_reason_for_programs(kind):
    error = kind([Violation("content", "is empty")]) if kind is InvalidArgument else kind()
    code, status = rewrite(error, "id-1")
    name = "UNIMPLEMENTED" if kind is errors.Unimplemented else re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).upper()
    assert code.name == name
    assert (status.code, bool(status.message)) == (code.value[0], True)
    info = error_details_pb2.ErrorInfo()
    assert sum(detail.Unpack(info) for detail in status.details) == 1
    assert re.fullmatch(r"[A-Z][A-Z0-9_]+[A-Z0-9]", info.reason)
    assert info.domain == "palimpsest.dev"


def test_groups_of_service_errors_count_as_the_first_and_mixed_ones_are_internal():
    assert rewrite(ExceptionGroup("", [NotFound(), errors.Aborted()]), "i")[0] is grpc.StatusCode.NOT_FOUND
    assert rewrite(ExceptionGroup("", [ExceptionGroup("", [NotFound()])]), "i")[0] is grpc.StatusCode.NOT_FOUND
    assert rewrite(ExceptionGroup("", [NotFound(), ValueError()]), "i")[0] is grpc.StatusCode.INTERNAL


def test_long_and_broken_texts_still_fit_a_trailer():
    code, status = rewrite(NotFound("找不到" * 5000 + "\ud800", metadata={"at": "\udfff"}), "i")
    assert code is grpc.StatusCode.NOT_FOUND
    assert status.message.startswith("找不到")
    assert status.message.endswith("…")
    assert status.ByteSize() < 4096


def test_a_bare_service_error_is_internal_and_says_nothing():
    code, status = rewrite(ServiceError("the table memories is gone"), "id-1")
    assert code is grpc.StatusCode.INTERNAL
    assert status.message == "Internal error; quote request id id-1."


async def test_deadlines_nest_and_never_grow():
    assert (current_deadline(), time_left()) == (None, None)
    with deadline_at(5.0):
        with deadline_at(9.0):
            assert current_deadline() == 5.0
        with deadline_at(None):
            assert current_deadline() == 5.0
        with deadline_at(3.0):
            assert current_deadline() == 3.0
        assert current_deadline() == 5.0
    with deadline_at(0.0):
        assert time_left() == 0.0


def test_log_lines_are_json_with_the_request_id_and_no_passwords():
    set_request_id("id-7")
    assert request_id() == "id-7"
    try:
        raise ConnectionError("mysql://u:hunter2@h/d")
    except ConnectionError:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "失败 %s\n!", ("redis://:pw@h",), sys.exc_info())
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert "hunter2" not in line
    read = json.loads(line)
    assert (read["message"], read["level"], read["request_id"]) == ("失败 redis://:********@h\n!", "ERROR", "id-7")
    assert read["error"].endswith("ConnectionError: mysql://u:********@h/d")
