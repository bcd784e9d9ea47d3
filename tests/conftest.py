"""The real servers as fixtures, and the last lines of a run: which of them took part.

Owns the three session fixtures, the marker `servers` and the summary. Owns no database, namespace or collection of a
test: fixtures of sub-folders make those.

A server starts when the first test asks for it, in each worker of a parallel run; if it does not come up, every test
that needs it fails. With
`PALIMPSEST_TEST_SERVERS=none` (`make test-fast`) the tests marked `servers` are deselected. The marker is put on every
test whose fixtures include one of the three by name; a test that asks with `request.getfixturevalue` carries it itself,
for example `pytest.param("mariadb", marks=pytest.mark.servers)`.
"""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

from tests.servers import MariaDB, Milvus, Redis, Server, free_ports

SERVER_FIXTURES = {"mariadb": "MariaDB", "redis_server": "Redis", "milvus_server": "Milvus"}
S = TypeVar("S", bound=Server)
NO_SERVERS = os.environ.get("PALIMPSEST_TEST_SERVERS") == "none"

_versions = pytest.StashKey[dict[str, str]]()  # fixture -> version, or what went wrong
_uses = pytest.StashKey[Counter[str]]()  # fixture -> tests that used it


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "servers: needs a real MariaDB, Redis or Milvus server")
    config.stash[_versions] = {}
    config.stash[_uses] = Counter()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if SERVER_FIXTURES.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker("servers")
    if NO_SERVERS:
        needing = [item for item in items if item.get_closest_marker("servers")]
        items[:] = [item for item in items if not item.get_closest_marker("servers")]
        config.hook.pytest_deselected(items=needing)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of a parallel run tells the process that started it which servers it had."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["servers"] = (session.config.stash[_versions], dict(session.config.stash[_uses]))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    versions, uses = getattr(node, "workeroutput", {}).get("servers", ({}, {}))
    node.config.stash[_versions].update(versions)
    node.config.stash[_uses].update(uses)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost: these are the last lines before the verdict
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> Iterator[None]:
    yield
    versions, uses = config.stash[_versions], config.stash[_uses]
    took_part = [f"{SERVER_FIXTURES[name]} {version} ({uses[name]} tests)" for name, version in versions.items()]
    none = "none (fast run)" if NO_SERVERS else "none (no test of this run needs one)"
    terminalreporter.write_line(f"real servers: {', '.join(took_part) or none}")


@pytest.fixture(autouse=True)
def _count_server_use(request: pytest.FixtureRequest) -> Iterator[None]:
    yield  # only now are the fixtures known that were asked for while the test ran
    request.config.stash[_uses].update(SERVER_FIXTURES.keys() & set(request.fixturenames))


def _running(server: S, request: pytest.FixtureRequest) -> Iterator[S]:
    name = request.fixturename or ""
    if NO_SERVERS:
        pytest.fail(f"asks for {name} in a run without servers: mark the test or its parameter with `servers`")
    versions = request.config.stash[_versions]
    versions[name] = "FAILED TO START"
    with server:
        versions[name] = server.version
        yield server


@pytest.fixture(scope="session")
def mariadb(request: pytest.FixtureRequest) -> Iterator[MariaDB]:
    """A running MariaDB for the whole session; take a database of your own with `create_database`."""
    yield from _running(MariaDB(), request)


@pytest.fixture(scope="session")
def redis_server(request: pytest.FixtureRequest) -> Iterator[Redis]:
    """A running Redis for the whole session; keep to keys or a database number of your own."""
    yield from _running(Redis(), request)


@pytest.fixture(scope="session")
def milvus_server(request: pytest.FixtureRequest) -> Iterator[Milvus]:
    """A running Milvus 2.3.5 for the whole session; keep to a collection of your own and drop it."""
    yield from _running(Milvus(), request)


@pytest.fixture
def free_port() -> int:
    """A TCP port on which nobody listens."""
    return free_ports(1)[0]
