"""What a server's address says about who can reach it. No name is ever resolved here."""

import ipaddress
import re

_SCHEME = re.compile(r"^(?:ipv4|ipv6|dns):(?://[^/]*/)?", re.IGNORECASE)
_HOST_PORT = re.compile(r"^(?:\[(?P<six>[^\]]+)\]|(?P<four>[^:\[\]]*)):(?P<port>\d{1,5})$")


def split(address: str) -> tuple[str, int]:
    """Host and port of `host:port`, `[v6]:port` or either behind gRPC's `ipv4:`, `ipv6:`, `dns:`.

    Raises ValueError with a sentence that says how an address is written.
    """
    match = _HOST_PORT.match(_SCHEME.sub("", address))
    if match is None or int(match["port"]) > 65535:
        raise ValueError(f"{address!r} is not an address; write host:port, such as 127.0.0.1:50051 or [::1]:50051")
    return match["six"] or match["four"], int(match["port"])


def is_loopback(address: str) -> bool:
    """True when only this machine can reach the address: 127.0.0.0/8, ::1, `localhost`, a unix socket.

    What cannot be told without asking a resolver is not loopback.
    """
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    try:
        host, _ = split(address)
    except ValueError:
        return False
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
