"""Which proxy the environment names for an address. This machine is reached without one."""

import ipaddress
import socket
from typing import TYPE_CHECKING
from urllib.request import getproxies, proxy_bypass

if TYPE_CHECKING:
    import httpx2


def proxy_of(url: "httpx2.URL") -> str | None:
    """The proxy for an address, from HTTP_PROXY, HTTPS_PROXY or ALL_PROXY; None for none.

    There is none for this machine, nor for what NO_PROXY names.
    """
    host = url.host.rstrip(".")
    if _is_this_machine(host) or _is_exempt(host, url.port or (443 if url.scheme == "https" else 80)):
        return None
    proxies = getproxies()
    proxy = (proxies.get(url.scheme) or proxies.get("all") or "").strip()
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _is_this_machine(host: str) -> bool:
    """Whether a client that connects to `host` reaches its own machine."""
    if f".{host}".endswith(".localhost"):  # RFC 6761, 6.3
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            address = ipaddress.ip_address(socket.inet_aton(host))  # 127.1
        except OSError:
            return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified


def _is_exempt(host: str, port: int) -> bool:
    """Whether NO_PROXY names a host: by its name or the end of it, its address, or its network."""
    if proxy_bypass(f"{host}:{port}"):
        return True
    return any(_matches(entry, host) for entry in getproxies().get("no", "").replace(",", " ").split())


def _matches(entry: str, host: str) -> bool:
    """The forms of NO_PROXY that Python's own reader does not know."""
    if entry.startswith("*"):
        return host.endswith(entry[1:])
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return host == entry or host.endswith("." + entry.lstrip("."))
