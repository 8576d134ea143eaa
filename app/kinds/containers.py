"""Validation of the containers of a Pod, in the API server's words: names, images, ports, mounts, resources. Pure.

Their variables are in `environment`, probes and hooks in `handlers`, security contexts in `security`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from app.kinds.environment import check_environment
from app.kinds.fielderrors import FieldError
from app.kinds.handlers import PORT_NAME, PORT_TEXT, check_handlers
from app.kinds.name_syntax import check_element_name, check_inner_path, invalid, qualified_faults, supported
from app.kinds.security import check_container_security
from app.kube.quantity import parse

if TYPE_CHECKING:
    from app.wire import JSON

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_BLOCK_SOURCES = ("persistentVolumeClaim", "ephemeral")
_DEFAULT_GRACE = 30
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGEPAGES = "hugepages-"


def check_containers(spec: JSON, path: str) -> list[FieldError]:
    """All containers and init containers; names are unique over both."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    if not spec.get("containers"):
        errors.append(FieldError(f"{path}.containers", "Required"))
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or []):
            here, name = f"{path}.{field}[{index}]", container.get("name") or ""
            errors += check_element_name(f"{here}.name", name, seen)
            plain_init = field == "initContainers" and container.get("restartPolicy") != "Always"
            grace = spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE)
            errors += check_handlers(container, here, grace=grace, plain_init=plain_init)
            errors += _check_container(container, here, spec)
        errors += _check_host_ports(spec, field, path)
    return errors


def _check_container(container: JSON, path: str, spec: JSON) -> list[FieldError]:
    errors: list[FieldError] = []
    image = container.get("image") or ""
    if not image:
        errors.append(FieldError(f"{path}.image", "Required"))
    elif image != image.strip():
        errors.append(FieldError(f"{path}.image", "Invalid", "must not have leading or trailing whitespace", image))
    errors += _check_ports(container.get("ports") or [], f"{path}.ports", host_network=bool(spec.get("hostNetwork")))
    errors += check_environment(container, path)
    errors += _check_mounts(container, path, spec.get("volumes") or [])
    policy = container.get("imagePullPolicy")
    errors += supported(f"{path}.imagePullPolicy", policy, _PULL_POLICIES)
    messages = container.get("terminationMessagePolicy", "File")
    errors += supported(f"{path}.terminationMessagePolicy", messages, ("File", "FallbackToLogsOnError"))
    errors += check_container_security(container.get("securityContext") or {}, f"{path}.securityContext")
    errors += _check_resources(container.get("resources") or {}, f"{path}.resources")
    for entry in container.get("resizePolicy") or []:
        errors += supported(f"{path}.resizePolicy", entry.get("resourceName"), ("cpu", "memory"))
        errors += supported(f"{path}.resizePolicy", entry.get("restartPolicy"), ("NotRequired", "RestartContainer"))
    return errors + _check_claims(container, path, spec.get("resourceClaims") or [])


def _check_claims(container: JSON, path: str, claims: list[JSON]) -> list[FieldError]:
    known = [claim.get("name") for claim in claims]
    text = "must be one of the names in pod.spec.resourceClaims"
    return [
        FieldError(f"{path}.resources.claims[{index}]", "NotFound", text if known else f"{text} which is empty", name)
        for index, claim in enumerate((container.get("resources") or {}).get("claims") or [])
        if (name := claim.get("name") or "") not in known
    ]


def _check_ports(ports: list[JSON], path: str, *, host_network: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        here, name, number = f"{path}[{index}]", port.get("name") or "", port.get("containerPort") or 0
        if name:
            if not PORT_NAME.fullmatch(name) or len(name) > 15:
                text = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
                errors.append(FieldError(f"{here}.name", "Invalid", text, name))
                if not re.search("[a-z]", name):
                    errors.append(FieldError(f"{here}.name", "Invalid", "must contain at least one letter (a-z)", name))
            elif name in names:
                errors.append(FieldError(f"{here}.name", "Duplicate", "", name))
            names.add(name)
        if not number:
            errors.append(FieldError(f"{here}.containerPort", "Required"))
        elif not 0 < number < 65536:
            errors.append(FieldError(f"{here}.containerPort", "Invalid", PORT_TEXT, number))
        outer = port.get("hostPort") or 0
        if outer and not 0 < outer < 65536:
            errors.append(FieldError(f"{here}.hostPort", "Invalid", PORT_TEXT, outer))
        elif outer and host_network and outer != number:
            text = "must match `containerPort` when `hostNetwork` is true"
            errors.append(FieldError(f"{here}.hostPort", "Invalid", text, outer))
        errors += supported(f"{here}.protocol", port.get("protocol"), ("SCTP", "TCP", "UDP"))
    return errors


def _check_host_ports(spec: JSON, field: str, path: str) -> list[FieldError]:
    """A port of the host serves one container."""
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, container in enumerate(spec.get(field) or []):
        for at, port in enumerate(container.get("ports") or []):
            if port.get("hostPort"):
                mark = f"{port.get('protocol')}/{port.get('hostIP') or ''}/{port['hostPort']}"
                if mark in taken:
                    here = f"{path}.{field}[{index}].ports[{at}].hostPort"
                    errors.append(FieldError(here, "Duplicate", "", mark))
                taken.add(mark)
    return errors


def _check_mounts(container: JSON, path: str, volumes: list[JSON]) -> list[FieldError]:
    errors: list[FieldError] = []
    places: set[str] = set()
    known = {volume.get("name"): volume for volume in volumes}
    privileged = bool((container.get("securityContext") or {}).get("privileged"))
    for index, mount in enumerate(container.get("volumeMounts") or []):
        here, name, place = f"{path}.volumeMounts[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            errors.append(FieldError(f"{here}.name", "Required"))
        elif name not in known:
            errors.append(FieldError(f"{here}.name", "NotFound", "", name))
        if not place:
            errors.append(FieldError(f"{here}.mountPath", "Required"))
        elif place in places:
            errors.append(FieldError(f"{here}.mountPath", "Invalid", "must be unique", place))
        places.add(place)
        errors += _check_mount_options(mount, here, privileged=privileged)
    for index, device in enumerate(container.get("volumeDevices") or []):
        here, name = f"{path}.volumeDevices[{index}].name", device.get("name") or ""
        if name not in known:
            errors.append(FieldError(here, "NotFound", "", name))
        elif not any(source in known[name] for source in _BLOCK_SOURCES):
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(FieldError(here, "Invalid", text, name))
    return errors


def _check_mount_options(mount: JSON, path: str, *, privileged: bool) -> list[FieldError]:
    # The server leaves the index out of these paths; with it one finds the mount.
    errors = check_inner_path(mount.get("subPath") or "", f"{path}.subPath")
    expression = mount.get("subPathExpr") or ""
    if expression and mount.get("subPath"):
        text = "subPathExpr and subPath are mutually exclusive"
        errors.append(FieldError(f"{path}.subPathExpr", "Invalid", text, expression))
    errors += check_inner_path(expression, f"{path}.subPathExpr")
    propagation = mount.get("mountPropagation", "None")
    errors += supported(f"{path}.mountPropagation", propagation, ("Bidirectional", "HostToContainer", "None"))
    if propagation == "Bidirectional" and not privileged:
        text = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(FieldError(f"{path}.mountPropagation", "Forbidden", text))
    read_only = mount.get("recursiveReadOnly", "Disabled")
    return errors + supported(f"{path}.recursiveReadOnly", read_only, ("Disabled", "Enabled", "IfPossible"))


def _check_resources(resources: JSON, path: str) -> list[FieldError]:
    """Limits and requests of one container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors: list[FieldError] = []
    for name, value in limits.items():
        errors += _check_amount(name, value, f"{path}.limits[{name}]")
    for name, value in requests.items():
        errors += _check_amount(name, value, f"{path}.requests[{name}]")
        errors += _check_against_limit(name, value, limits.get(name), path)
    names = {*limits, *requests}
    if any(name.startswith(_HUGEPAGES) for name in names) and not names & {"cpu", "memory"}:
        errors.append(FieldError(path, "Forbidden", "HugePages require cpu or memory"))
    return errors


def check_overhead(overhead: JSON, path: str) -> list[FieldError]:
    """What the runtime needs beside the containers; the server speaks of it as of limits."""
    return [fault for name, value in overhead.items() for fault in _check_amount(name, value, f"{path}.limits[{name}]")]


def _check_amount(name: str, value: str, path: str) -> list[FieldError]:
    errors = invalid(path, name, qualified_faults(name))
    standard = name in _NATIVE or name.startswith(_HUGEPAGES)
    if "/" not in name and not standard:
        if not errors:
            errors.append(FieldError(path, "Invalid", "must be a standard resource type or fully qualified", name))
        errors.append(FieldError(path, "Invalid", "must be a standard resource for containers", name))
    elif _is_foreign(name) and (errors or name.startswith("requests.")):
        errors.append(FieldError(path, "Invalid", "doesn't follow extended resource name standard", name))
    number = parse(value)
    if number < 0:
        errors.append(FieldError(path, "Invalid", "must be greater than or equal to 0", value))
    if _is_foreign(name) and number != number.to_integral_value():
        errors.append(FieldError(path, "Invalid", "must be an integer", value))
    return errors


def _is_foreign(name: str) -> bool:
    """A name outside of Kubernetes's own domain: an extended resource."""
    return "/" in name and "kubernetes.io/" not in name


def _check_against_limit(name: str, request: str, limit: str | None, path: str) -> list[FieldError]:
    overcommit = not _is_foreign(name) and not name.startswith(_HUGEPAGES)
    if limit is None:
        if overcommit:
            return []
        return [FieldError(f"{path}.limits", "Required", "Limit must be set for non overcommitable resources")]
    if not overcommit and parse(request) != parse(limit):
        return [FieldError(f"{path}.requests", "Invalid", f"must be equal to {name} limit of {limit}", request)]
    if parse(request) > parse(limit):
        text = f"must be less than or equal to {name} limit of {limit}"
        return [FieldError(f"{path}.requests", "Invalid", text, request)]
    return []
