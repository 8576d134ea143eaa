"""Validation of the containers of a Pod, in the API server's words: images, ports, mounts, resources, probes. Pure.

Their variables are in `sources`, their security contexts in `security`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from app.kinds.fielderrors import MOST_FAULTS, Field, invalid, supported
from app.kinds.name_syntax import check_element_name, inner_path_faults, qualified_faults, too_long
from app.kinds.resource_claims import check_container_claims, claim_names
from app.kinds.security import check_container_security
from app.kinds.sources import PULL_POLICIES, check_environment
from app.kube.quantity import parse
from app.wire import JSON

_DEFAULT_GRACE = 30
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGEPAGES = "hugepages-"
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HEADER = re.compile(r"[-A-Za-z0-9]+", re.ASCII)
_PORT_NAME = re.compile(r"[-a-z0-9]+", re.ASCII)
_MOST_OF_PORT_NAME = 15
_HEADER_TEXT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)
_PORT_TEXT = "must be between 1 and 65535, inclusive"
_PORT_ALPHABET_TEXT = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"


def check_containers(pod: Field) -> None:
    """All containers and init containers; names are unique over both."""
    seen: set[str] = set()
    volumes = {volume.get("name"): volume for volume in pod.value.get("volumes") or []}
    claims = claim_names(pod.value)
    pod.required("containers")
    for kind in ("containers", "initContainers"):
        for container in pod.each(kind):
            check_element_name(container, seen)
            if kind == "initContainers" and container.value.get("restartPolicy") != "Always":
                _refuse_handlers(container)
            else:
                _check_handlers(container, grace=pod.value.get("terminationGracePeriodSeconds", _DEFAULT_GRACE))
            _check_container(container, host_network=bool(pod.value.get("hostNetwork")))
            _check_mounts(container, volumes)
            check_container_claims(container.below("resources"), claims)
        taken: set[str] = set()
        for port in (port for container in pod.each(kind) for port in container.each("ports")):
            if outer := port.value.get("hostPort"):
                port.unique("hostPort", f"{port.value.get('protocol')}/{port.text('hostIP')}/{outer}", taken)


def _check_container(container: Field, *, host_network: bool) -> None:
    if container.required("image") and container.text("image").strip() != container.text("image"):
        container.fault("image", "Invalid", "must not have leading or trailing whitespace")
    names: set[str] = set()
    for port in container.each("ports"):
        _check_port(port, names, host_network=host_network)
    check_environment(container)
    container.one_of("imagePullPolicy", PULL_POLICIES)
    container.one_of("restartPolicy", ("Always", "Never", "OnFailure"), optional=True)
    container.one_of("terminationMessagePolicy", ("File", "FallbackToLogsOnError"), optional=True)
    check_container_security(container.below("securityContext"))
    resources = container.below("resources")
    _check_resources(resources)
    for _, entry in container.entries("resizePolicy"):
        where = container.at("resizePolicy")
        container.errors += supported(where, entry.get("resourceName"), ("cpu", "memory"))
        container.errors += supported(where, entry.get("restartPolicy"), ("NotRequired", "RestartContainer"))


def _check_port(port: Field, names: set[str], *, host_network: bool) -> None:
    name, number, outer = port.text("name"), port.value.get("containerPort") or 0, port.value.get("hostPort") or 0
    if name and (faults := list(_port_name_faults(name))):
        for text in faults:
            port.fault("name", "Invalid", text)
    elif name:
        port.unique("name", name, names)
    if port.required("containerPort"):
        port.number("containerPort", 1, _PORT_TEXT, 65535)
    if outer and not 0 < outer < 65536:
        port.fault("hostPort", "Invalid", _PORT_TEXT)
    elif outer and host_network and outer != number:
        port.fault("hostPort", "Invalid", "must match `containerPort` when `hostNetwork` is true")
    port.one_of("protocol", ("SCTP", "TCP", "UDP"))


def _check_mounts(container: Field, known: Mapping[str | None, JSON]) -> None:
    """`known` are the volumes of the Pod by name."""
    places: set[str] = set()
    privileged = bool((container.value.get("securityContext") or {}).get("privileged"))
    for mount in container.each("volumeMounts"):
        if mount.required("name") and mount.text("name") not in known:
            mount.fault("name", "NotFound")
        place = mount.text("mountPath")
        if mount.required("mountPath") and place in places:
            mount.fault("mountPath", "Invalid", "must be unique")
        places.add(place)
        _check_mount_options(mount, privileged=privileged)
    for device in container.each("volumeDevices"):
        name = device.text("name")
        if name not in known:
            device.fault("name", "NotFound", "", name)
        elif not known[name].keys() & {"persistentVolumeClaim", "ephemeral"}:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            device.fault("name", "Invalid", text, name)


def _check_mount_options(mount: Field, *, privileged: bool) -> None:
    # The server leaves the index out of these paths; with it one finds the mount.
    mount.syntax("subPath", inner_path_faults)
    if mount.text("subPathExpr") and mount.text("subPath"):
        mount.fault("subPathExpr", "Invalid", "subPathExpr and subPath are mutually exclusive")
    mount.syntax("subPathExpr", inner_path_faults)
    mount.one_of("mountPropagation", ("Bidirectional", "HostToContainer", "None"), optional=True)
    if mount.value.get("mountPropagation") == "Bidirectional" and not privileged:
        text = "Bidirectional mount propagation is available only to privileged containers"
        mount.fault("mountPropagation", "Forbidden", text)
    mount.one_of("recursiveReadOnly", ("Disabled", "Enabled", "IfPossible"), optional=True)


def _check_resources(resources: Field) -> None:
    limits, requests = resources.value.get("limits") or {}, resources.value.get("requests") or {}
    check_amounts(resources, limits)
    for name, value in requests.items():
        if len(resources.errors) >= MOST_FAULTS:
            return
        _check_amount(resources, f"requests[{name}]", name, value)
        _check_against_limit(resources, name, value, limits.get(name))
    names = {*limits, *requests}
    if any(name.startswith(_HUGEPAGES) for name in names) and not names & {"cpu", "memory"}:
        resources.fault("", "Forbidden", "HugePages require cpu or memory")


def check_amounts(holder: Field, limits: JSON) -> None:
    """Amounts of resources by their names; the server calls those of `overhead` limits too."""
    for name, value in limits.items():
        if len(holder.errors) >= MOST_FAULTS:
            return
        _check_amount(holder, f"limits[{name}]", name, value)


def _check_amount(holder: Field, here: str, name: str, value: str) -> None:
    faults = qualified_faults(name)
    holder.errors += invalid(holder.at(here), name, faults)
    if "/" not in name and name not in _NATIVE and not name.startswith(_HUGEPAGES):
        if not faults:
            holder.fault(here, "Invalid", "must be a standard resource type or fully qualified", name)
        holder.fault(here, "Invalid", "must be a standard resource for containers", name)
    elif _is_foreign(name) and (faults or name.startswith("requests.")):
        holder.fault(here, "Invalid", "doesn't follow extended resource name standard", name)
    number = parse(value)
    if number < 0:
        holder.fault(here, "Invalid", "must be greater than or equal to 0", value)
    if _is_foreign(name) and number != number.to_integral_value():
        holder.fault(here, "Invalid", "must be an integer", value)


def _is_foreign(name: str) -> bool:
    """A name outside of Kubernetes's own domain: an extended resource."""
    return "/" in name and "kubernetes.io/" not in name


def _check_against_limit(resources: Field, name: str, request: str, limit: str | None) -> None:
    overcommit = not _is_foreign(name) and not name.startswith(_HUGEPAGES)
    if limit is None:
        if not overcommit:
            resources.fault("limits", "Required", "Limit must be set for non overcommitable resources")
    elif not overcommit and parse(request) != parse(limit):
        resources.fault("requests", "Invalid", f"must be equal to {name} limit of {limit}", request)
    elif parse(request) > parse(limit):
        resources.fault("requests", "Invalid", f"must be less than or equal to {name} limit of {limit}", request)


def _refuse_handlers(container: Field) -> None:
    """An init container that runs to its end has no probes and hooks."""
    for name in ("lifecycle", *_PROBES):
        if name in container.value:
            container.fault(name, "Forbidden", "may not be set for init containers without restartPolicy=Always")


def _check_handlers(container: Field, *, grace: int) -> None:
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


def _port_name_faults(name: str) -> Iterator[str]:
    """Of the name of a service (RFC 6335) in lower case."""
    if len(name.encode()) > _MOST_OF_PORT_NAME:
        yield too_long(_MOST_OF_PORT_NAME, "characters")
    if not _PORT_NAME.fullmatch(name):
        yield _PORT_ALPHABET_TEXT
    if not re.search("[a-z]", name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def _check_target(action: Field) -> None:
    """A number, or the name of a port."""
    port = action.value.get("port", 0)
    if isinstance(port, int):
        action.number("port", 1, _PORT_TEXT, 65535, absent=0)
    else:
        for text in _port_name_faults(port):
            action.fault("port", "Invalid", text)
