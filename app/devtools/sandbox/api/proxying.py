"""`proxy` of Pods: a request that the API server sends on to the Pod, whose answer it gives back as it is."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import aiohttp

from app.devtools.sandbox.api.call import Call, Reply
from app.devtools.sandbox.api.failures import StatusError, bad_request, failure
from app.devtools.sandbox.api.reading import stored
from app.text import fault

if TYPE_CHECKING:
    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON

METHODS = {"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
_TIMEOUT = aiohttp.ClientTimeout(total=30)
_SCHEMES = ("http", "https")


async def proxy(state: ClusterState, call: Call) -> Reply:
    """The answer of a Pod that is a process of this machine. Every other Pod refuses the connection."""
    scheme, name, port = _target(call.name)
    pod = stored(state, replace(call, name=name))
    address = (pod.get("status") or {}).get("podIP") or ""
    if not _is_proxied(address):
        raise bad_request("address not allowed")
    port = port or _first_port(pod)
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):  # else it could name another host
        raise _unreachable(f"dial tcp: address {port}: invalid port")
    process = state.processes.get(pod["metadata"]["uid"])
    if process is None:
        raise _unreachable(f"dial tcp {address}:{port}: connect: connection refused")
    # With a slash of ours: the path cannot name another host.
    url = f"{scheme}://{process.address}:{port}/{call.path}" + (f"?{urlencode(call.query)}" if call.query else "")
    headers = {"Content-Type": call.content_type} if call.body else {}
    try:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=False) as session,
            session.request(
                METHODS[call.verb], url, data=call.body or None, headers=headers, ssl=False, allow_redirects=False
            ) as answer,
        ):
            return Reply(answer.status, await answer.read(), answer.headers.get("Content-Type", ""))
    except aiohttp.ClientConnectorError as error:
        text = "connection refused" if isinstance(error.os_error, ConnectionRefusedError) else str(error.os_error)
        raise _unreachable(f"dial tcp {address}:{port}: connect: {text}") from error
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise _unreachable(fault(error)) from error


def _target(text: str) -> tuple[str, str, str]:
    """Scheme, name and port ("" for the first of the Pod) of `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`."""
    match text.split(":"):
        case [name]:
            return "http", name, ""
        case [name, port]:
            return "http", name, port
        case [scheme, name, port] if scheme in _SCHEMES:
            return scheme, name, port
    raise bad_request(f'invalid pod request "{text}"')


def _is_proxied(address: str) -> bool:
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (known.is_loopback or known.is_link_local or known.is_multicast or known.is_unspecified)


def _first_port(pod: JSON) -> str:
    ports = (port["containerPort"] for one in pod["spec"]["containers"] for port in one.get("ports") or ())
    return str(next(ports, 80))


def _unreachable(text: str) -> StatusError:
    return failure(503, "ServiceUnavailable", f"error trying to reach service: {text}")
