"""`berth health`: checks whether a role on this machine is alive, or ready; for engines that run a command.

Imports little and reads no settings: it is run every few seconds. It takes address and port from the variables
that the role itself reads.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from typing import Annotated

import typer

from app.cli.options import alone, epilog
from app.errors import UsageError

PORT_VARIABLE, ADDRESS_VARIABLE = "BERTH_HEALTH_CHECK_PORT", "BERTH_BIND_ADDRESS"
_PORT, _ADDRESS = 8444, "127.0.0.1"
_WILDCARDS = {"": _ADDRESS, "0.0.0.0": _ADDRESS, "::": "::1"}  # noqa: S104  what a role binds is not what is dialed
_LONGEST_ANSWER = 64 * 1024

_EPILOG = epilog(
    "berth health",
    "berth health --ready --port 8444",
    text="Exit status: 0 yes, 1 no or no answer (standard error says why), 2 for a wrong flag.",
)


health_app = alone()


@health_app.command(epilog=_EPILOG)
def health(
    *,
    ready: Annotated[
        bool, typer.Option("--ready", help="Check whether it is ready, not only whether it is alive")
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help=f"Its plain port (default: ${PORT_VARIABLE} or {_PORT})")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help=f"Its address (default: ${ADDRESS_VARIABLE} or {_ADDRESS})")
    ] = None,
    timeout_seconds: Annotated[float, typer.Option(min=0.1, help="How long to wait for the answer")] = 3.0,
) -> int:
    """Check whether a role on this machine is alive."""
    host = address if address is not None else os.environ.get(ADDRESS_VARIABLE, "")
    target = _WILDCARDS.get(host, host), port if port is not None else _port_of_environment()
    connection = http.client.HTTPConnection(*target, timeout=timeout_seconds)
    try:
        connection.request("GET", "/readyz" if ready else "/healthz")
        answer = connection.getresponse()
        body = answer.read(_LONGEST_ANSWER)
    except (OSError, http.client.HTTPException) as error:
        # Python adds the number of the error.
        reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
        print(f"Error: no answer from port {target[1]} of {target[0]}: {reason}", file=sys.stderr)
        return 1
    finally:
        connection.close()
    if answer.status == 200:
        return 0
    print(f"Error: {'not ready' if ready else 'not healthy'}: {_reason(answer.status, body)}", file=sys.stderr)
    return 1


def health_alone() -> int:
    """`berth health` without flags, as the image asks: the other commands need not be imported for it."""
    try:
        return health()
    except UsageError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2


def _port_of_environment() -> int:
    text = os.environ.get(PORT_VARIABLE, "")
    # Kubernetes gives Pods beside a Service variables of its own that look like ours.
    if not text or text.startswith(("tcp://", "udp://", "sctp://")):
        return _PORT
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise UsageError(f"{PORT_VARIABLE}: want a port, got {text[:40]!r}")
    return int(text)


def _reason(status: int, body: bytes) -> str:
    """What a role says that it waits for, on one line; the status of anything else."""
    try:
        waiting = json.loads(body)["waitingFor"]
    except (ValueError, KeyError, TypeError):
        return f"status {status}"
    return " ".join(", ".join(map(str, waiting)).split()) if isinstance(waiting, list) else f"status {status}"
