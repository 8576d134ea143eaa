"""Validation of the probes and hooks of containers, in the API server's words. Pure."""

from __future__ import annotations

import re

from app.kinds.fielderrors import Field
from app.kinds.name_syntax import PORT_TEXT, port_name_faults

_DEFAULT_GRACE = 30
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HEADER = re.compile(r"[-A-Za-z0-9]+", re.ASCII)
_HEADER_TEXT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)


def check_handlers(container: Field, pod: Field, *, initial: bool) -> None:
    """The probes and hooks of a container; an `initial` one that runs to its end has none."""
    grace = pod.value.get("terminationGracePeriodSeconds", _DEFAULT_GRACE)
    if initial and container.value.get("restartPolicy") != "Always":
        for name in ("lifecycle", *_PROBES):
            if name in container.value:
                container.fault(name, "Forbidden", "may not be set for init containers without restartPolicy=Always")
        return
    lifecycle = container.below("lifecycle")
    for hook in lifecycle.present("postStart", "preStop"):
        _check_handler(hook, grace)
    for name in _PROBES:
        if name in container.value:
            _check_probe(container.below(name), grace, readiness=name == "readinessProbe")


def _check_probe(probe: Field, grace: int, *, readiness: bool) -> None:
    _check_handler(probe, grace)
    for count in _COUNTS:
        probe.number(count, 0, "must be greater than or equal to 0")
    if not readiness:
        probe.number("successThreshold", 1, "must be 1", 1)
        probe.number("terminationGracePeriodSeconds", 1, "must be greater than 0")
    elif "terminationGracePeriodSeconds" in probe.value:
        probe.fault("terminationGracePeriodSeconds", "Invalid", "must not be set for readinessProbes")


def _check_handler(handler: Field, grace: int) -> None:
    """Exactly one kind of handler, with all that it needs."""
    given = [name for name in _HANDLERS if name in handler.value]
    if not given:
        handler.fault("", "Required", "must specify a handler type")
        return
    for extra in given[1:]:
        handler.fault(extra, "Forbidden", "may not specify more than 1 handler type")
    name, action = given[0], handler.below(given[0])
    if name == "exec":
        action.required("command")
    elif name == "sleep":
        seconds = action.value.get("seconds", 0)
        if not 0 <= seconds <= grace:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            action.fault("", "Invalid", text, seconds)
    else:
        _check_target(action)
    if name == "httpGet":
        action.one_of("scheme", ("HTTP", "HTTPS"), optional=True)
        for _, header in action.entries("httpHeaders"):
            if not _HEADER.fullmatch(header.get("name") or ""):
                action.fault("httpHeaders", "Invalid", _HEADER_TEXT, header.get("name") or "")


def _check_target(action: Field) -> None:
    """A number, or the name of a port."""
    if isinstance(action.value.get("port", 0), int):
        action.number("port", 1, PORT_TEXT, 65535, absent=0)
    else:
        action.syntax("port", port_name_faults)
