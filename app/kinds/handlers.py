"""Validation of probes and lifecycle hooks of containers, in the API server's words. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import supported

if TYPE_CHECKING:
    from app.wire import JSON

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HEADER = re.compile(r"[-A-Za-z0-9]+", re.ASCII)
PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", re.ASCII)
_HEADER_TEXT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)
PORT_TEXT = "must be between 1 and 65535, inclusive"
_SIDECAR_ONLY = "may not be set for init containers without restartPolicy=Always"


def check_handlers(container: JSON, path: str, *, grace: int, plain_init: bool) -> list[FieldError]:
    """The probes and hooks of one container; `plain_init` ones run to their end and have none of them."""
    errors: list[FieldError] = []
    fields = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
    if plain_init:
        return [FieldError(f"{path}.{field}", "Forbidden", _SIDECAR_ONLY) for field in fields if field in container]
    for hook in ("postStart", "preStop"):
        handler = (container.get("lifecycle") or {}).get(hook)
        if handler is not None:
            errors += _check_handler(handler, f"{path}.lifecycle.{hook}", grace)
    for field in fields[1:]:
        if field in container:
            errors += _check_probe(container[field], f"{path}.{field}", field, grace)
    return errors


def _check_probe(probe: JSON, path: str, field: str, grace: int) -> list[FieldError]:
    errors = _check_handler(probe, path, grace)
    errors += [
        FieldError(f"{path}.{count}", "Invalid", "must be greater than or equal to 0", probe[count])
        for count in _COUNTS
        if probe.get(count, 0) < 0
    ]
    if field != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        errors.append(FieldError(f"{path}.successThreshold", "Invalid", "must be 1", probe["successThreshold"]))
    own = probe.get("terminationGracePeriodSeconds")
    if own is not None:
        where = f"{path}.terminationGracePeriodSeconds"
        if field == "readinessProbe":
            errors.append(FieldError(where, "Invalid", "must not be set for readinessProbes", own))
        elif own <= 0:
            errors.append(FieldError(where, "Invalid", "must be greater than 0", own))
    return errors


def _check_handler(handler: JSON, path: str, grace: int) -> list[FieldError]:
    """Exactly one way to act, and that one whole."""
    given = [name for name in _HANDLERS if name in handler]
    if not given:
        return [FieldError(path, "Required", "must specify a handler type")]
    text = "may not specify more than 1 handler type"
    errors = [FieldError(f"{path}.{extra}", "Forbidden", text) for extra in given[1:]]
    name, action = given[0], handler[given[0]]
    here = f"{path}.{name}"
    if name == "exec" and not action.get("command"):
        errors.append(FieldError(f"{here}.command", "Required"))
    elif name == "sleep" and not 0 <= action.get("seconds", 0) <= grace:
        text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        errors.append(FieldError(here, "Invalid", text, action.get("seconds", 0)))
    elif name in ("httpGet", "tcpSocket", "grpc"):
        errors += _check_port(action.get("port", 0), f"{here}.port")
    if name == "httpGet":
        errors += supported(f"{here}.scheme", action.get("scheme", "HTTP"), ("HTTP", "HTTPS"))
        errors += [
            FieldError(f"{here}.httpHeaders", "Invalid", _HEADER_TEXT, header.get("name") or "")
            for header in action.get("httpHeaders") or []
            if not _HEADER.fullmatch(header.get("name") or "")
        ]
    return errors


def _check_port(port: Any, path: str) -> list[FieldError]:
    """A number, or the name of a port."""
    if isinstance(port, int):
        return [] if 0 < port < 65536 else [FieldError(path, "Invalid", PORT_TEXT, port)]
    if len(port) > 15:
        return [FieldError(path, "Invalid", "must be no more than 15 characters", port)]
    if not PORT_NAME.fullmatch(port):
        text = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        return [FieldError(path, "Invalid", text, port)]
    return []
