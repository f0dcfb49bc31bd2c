"""Which hosts are this machine alone. A server without a token answers to those only."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether `host` can only be reached from this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def hostname(header: bytes) -> str:
    """A Host header without its port.

    >>> hostname(b"[::1]:8000")
    '::1'
    """
    name = header.decode("latin-1")
    return name.partition("]")[0].removeprefix("[") if name.startswith("[") else name.partition(":")[0]
