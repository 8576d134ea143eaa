"""Validation of the containers of a Pod, in the API server's words. Pure.

Names, images, ports, restarts, probes, hooks, mounts and devices. Resources, variables and security contexts are in
`resources`, `variables` and `security`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from app.kinds.claims import check_container_claims, claim_names
from app.kinds.fielderrors import Field, invalid, supported
from app.kinds.name_syntax import PORT_TEXT, check_element_name, descending_path_faults, port_name_faults
from app.kinds.resources import check_container_resources
from app.kinds.security import check_container_security
from app.kinds.variables import check_environment
from app.kinds.volumes import PULL_POLICIES
from app.wire import JSON

_RESTARTS = ("Always", "Never", "OnFailure")
_RULE_ACTIONS = ("Restart", "RestartAllContainers")
_MOST_RULES = 20
_MOST_CODES = 255
_DEFAULT_GRACE = 30
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HEADER = re.compile(r"[-A-Za-z0-9]+", re.ASCII)
_HEADER_TEXT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)
_BLOCK_KINDS = frozenset({"persistentVolumeClaim", "ephemeral"})


def check_containers(pod: Field) -> None:
    """All containers and init containers; names are unique over both."""
    seen: set[str] = set()
    volumes = {volume.get("name"): volume for volume in pod.value.get("volumes") or []}
    claims = claim_names(pod.value)
    pod.required("containers")
    for kind in ("containers", "initContainers"):
        taken: set[str] = set()
        for container in pod.each(kind):
            check_element_name(container, seen)
            initial = kind == "initContainers"
            _check_container(container, host_network=not initial and bool(pod.value.get("hostNetwork")))
            _check_restarts(container, initial=initial)
            _check_handlers(container, pod, initial=initial)
            check_environment(container, volumes)
            _check_mounts(container, volumes)
            check_container_claims(container.below("resources"), claims)
            check_container_security(
                container.below("securityContext"), host_users=pod.value.get("hostUsers") is not False
            )
            _check_resizing(container, pod.text("restartPolicy"), initial=initial)
            if initial:
                taken = set()  # they run one after the other
            for port in container.each("ports"):
                if outer := port.value.get("hostPort"):
                    port.unique("hostPort", f"{port.value.get('protocol')}/{port.text('hostIP')}/{outer}", taken)


def _check_container(container: Field, *, host_network: bool) -> None:
    container.required("image")
    names: set[str] = set()
    for port in container.each("ports"):
        _check_port(port, names, host_network=host_network)
    container.one_of("imagePullPolicy", PULL_POLICIES)
    container.one_of("terminationMessagePolicy", ("File", "FallbackToLogsOnError"), optional=True)
    check_container_resources(container.below("resources"))


def _check_restarts(container: Field, *, initial: bool) -> None:
    """Whether the container is restarted, and the exit codes for which that is another."""
    rules = container.value.get("restartPolicyRules") or []
    if rules and "restartPolicy" not in container.value:
        container.fault("restartPolicy", "Required", "must specify restartPolicy when restart rules are used")
        if initial:
            return
    container.one_of("restartPolicy", _RESTARTS, optional=True)
    if len(rules) > _MOST_RULES:
        container.fault("restartPolicyRules", "TooMany", f"must have at most {_MOST_RULES} items", len(rules))
    for rule in container.each("restartPolicyRules"):
        rule.one_of("action", _RULE_ACTIONS)
        if "exitCodes" not in rule.value:
            rule.fault("exitCodes", "Required", "must be specified")
        for codes in rule.present("exitCodes"):
            codes.one_of("operator", ("In", "NotIn"))
            if len(codes.value.get("values") or []) > _MOST_CODES:
                codes.fault("values", "TooMany", f"must have at most {_MOST_CODES} items", len(codes.value["values"]))


def _check_resizing(container: Field, restart_policy: str, *, initial: bool) -> None:
    """What happens to the container when its resources change. The server reports most at the list."""
    where = container.at("resizePolicy")
    seen: set[str] = set()
    for here, entry in container.entries("resizePolicy"):
        resource, policy = entry.get("resourceName") or "", entry.get("restartPolicy") or ""
        container.unique(here, resource, seen)
        container.errors += supported(where, resource, ("cpu", "memory"))
        container.errors += supported(where, policy, ("NotRequired", "RestartContainer"))
        if restart_policy == "Never" and policy != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            container.errors += invalid(where, policy, [text])
        if initial and container.value.get("restartPolicy") != "Always" and policy == "RestartContainer":
            text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            container.fault(f"{here}.restartPolicy", "Invalid", text, policy)


def _check_port(port: Field, names: set[str], *, host_network: bool) -> None:
    name, number, outer = port.text("name"), port.value.get("containerPort") or 0, port.value.get("hostPort") or 0
    if faults := port_name_faults(name) if name else []:
        port.errors += invalid(port.at("name"), name, faults)
    elif name:
        port.unique("name", name, names)
    if port.required("containerPort"):
        port.number("containerPort", 1, PORT_TEXT, 65535)
    if outer and not 0 < outer < 65536:
        port.fault("hostPort", "Invalid", PORT_TEXT)
    elif outer and host_network and outer != number:
        port.fault("hostPort", "Invalid", "must match `containerPort` when `hostNetwork` is true")
    port.one_of("protocol", ("SCTP", "TCP", "UDP"))


def _check_handlers(container: Field, pod: Field, *, initial: bool) -> None:
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


def _check_mounts(container: Field, volumes: Mapping[str | None, JSON]) -> None:
    """The volumes that are mounted and the devices that are used, each with a name and a path of its own.

    `volumes` are those of the Pod by name.
    """
    devices = _paths(container, "volumeDevices", "devicePath")
    mounts = _paths(container, "volumeMounts", "mountPath")
    privileged = bool((container.value.get("securityContext") or {}).get("privileged"))
    places: set[str] = set()
    for mount in container.each("volumeMounts"):
        if mount.required("name") and mount.text("name") not in volumes:
            mount.fault("name", "NotFound")
        place = mount.text("mountPath")
        if mount.required("mountPath") and place in places:
            mount.fault("mountPath", "Invalid", "must be unique")
        places.add(place)
        _refuse_overlap(mount, "mountPath", devices, "volumeDevices")
        _check_options(mount, privileged=privileged)
    _check_devices(container, volumes, mounts)


def _paths(container: Field, field: str, path: str) -> dict[str, str]:
    """The path by name."""
    entries = container.value.get(field) or []
    return {(entry or {}).get("name") or "": (entry or {}).get(path) or "" for entry in entries}


def _refuse_overlap(entry: Field, path: str, others: Mapping[str, str], field: str) -> None:
    if entry.text("name") in others:
        entry.fault("name", "Invalid", f"must not already exist in {field}", entry.text("name"))
    if entry.text(path) in others.values():
        entry.fault(path, "Invalid", f"must not already exist as a path in {field}", entry.text(path))


def _check_options(mount: Field, *, privileged: bool) -> None:
    # The server leaves the index out of these paths; with it one finds the mount.
    mount.syntax("subPath", descending_path_faults)
    if mount.text("subPathExpr") and mount.text("subPath"):
        mount.fault("subPathExpr", "Invalid", "subPathExpr and subPath are mutually exclusive")
    mount.syntax("subPathExpr", descending_path_faults)
    mount.one_of("mountPropagation", ("Bidirectional", "HostToContainer", "None"), optional=True)
    if mount.value.get("mountPropagation") == "Bidirectional" and not privileged:
        text = "Bidirectional mount propagation is available only to privileged containers"
        mount.fault("mountPropagation", "Forbidden", text)
    mount.one_of("recursiveReadOnly", ("Disabled", "Enabled", "IfPossible"), optional=True)
    if mount.text("recursiveReadOnly") in ("Enabled", "IfPossible"):
        if not mount.value.get("readOnly"):
            mount.fault("recursiveReadOnly", "Forbidden", "may only be specified when readOnly is true")
        if mount.value.get("mountPropagation", "None") != "None":
            text = "may only be specified when mountPropagation is None or not specified"
            mount.fault("recursiveReadOnly", "Forbidden", text)


def _check_devices(container: Field, volumes: Mapping[str | None, JSON], mounts: Mapping[str, str]) -> None:
    names: set[str] = set()
    paths: set[str] = set()
    for device in container.each("volumeDevices"):
        name, path = device.text("name"), device.text("devicePath")
        for field, seen in (("name", names), ("devicePath", paths)):
            if device.required(field) and device.text(field) in seen:
                device.fault(field, "Invalid", "must be unique")
            seen.add(device.text(field))
        if name not in volumes:
            device.fault("name", "NotFound", "", name)
        elif not volumes[name].keys() & _BLOCK_KINDS:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            device.fault("name", "Invalid", text, name)
        if ".." in path.split("/"):
            device.fault("devicePath", "Invalid", "can not contain backsteps ('..')")
        _refuse_overlap(device, "devicePath", mounts, "volumeMounts")
