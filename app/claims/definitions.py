"""Definitions of claims for the whole cluster: entries of a ConfigMap, and annotations of DeviceClasses. Pure.

Of a definition there is a ResourceClaimTemplate of its name in each namespace that uses it, and containers can ask
for `berth.dev/NAME` as if it were a resource. A claim asks for devices of DeviceClasses. Facts on specs:
resource.k8s.io/v1, ResourceClaimSpec.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.claims.model import MOST_CLAIMS
from app.kinds.shapes import ShapeError, decode_builtin
from app.kube.configuration import yaml_in
from app.kube.names import DNS_LABEL_LIMIT, check_dns_label, check_dns_subdomain, check_qualified_name, shorten
from app.kube.resources import RESOURCE_CLAIM_TEMPLATES, controller_of
from app.text import quoted
from app.wire import JSON

Requests = Mapping[str, int]
"""How many devices are asked for, by DeviceClass."""
_ALL = MOST_CLAIMS
"""Stands for all devices of a node: a claim has at most so many results."""
CLASS_DEFINITION = "berth.dev/claim-template"
"""Annotation on a DeviceClass, by its author: the name of a definition that asks for one device of this class."""
CLASS_PREFIX = "berth-class-"
"""How the names of templates begin that are made for attachments with a DeviceClass."""
MOST_DEFINITIONS = 1024
"""In a ConfigMap."""
_TEMPLATE_LIMIT = 253
_MOST = 32
"""Requests, constraints and configurations of a claim, each; by the validation of resource.k8s.io/v1."""
_MOST_ALTERNATIVES = 8
_MOST_VALUES = 10_000
_FORM = "want spec (of a ResourceClaim), or requests and align"


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """What is kept of a DeviceClass. `definition` is the annotation, `resource` the extended resource; "" without."""

    name: str
    uid: str
    resource: str
    definition: str

    @property
    def template(self) -> str:
        """The template with one device of it."""
        return shorten(CLASS_PREFIX + self.name, _TEMPLATE_LIMIT)


@dataclass(frozen=True, slots=True)
class Definition:
    """`spec` is that of the ResourceClaims; `device_class` is the class that it comes from, None in a ConfigMap."""

    name: str
    spec: JSON
    requests: Requests
    device_class: DeviceClass | None = None


Definitions = Mapping[str, Definition]
"""By name."""


class DefinitionError(ValueError):
    """What is wrong with a definition, with its path."""


def stored_class(obj: JSON) -> DeviceClass:
    metadata, annotations = obj["metadata"], obj["metadata"].get("annotations") or {}
    return DeviceClass(
        metadata["name"],
        metadata.get("uid", ""),
        (obj.get("spec") or {}).get("extendedResourceName") or "",
        annotations.get(CLASS_DEFINITION, ""),
    )


def class_template(name: str) -> str:
    """The name of the template with one device of a DeviceClass."""
    return DeviceClass(name, "", "", "").template


def parse_definitions(config_map: JSON) -> Definitions:
    """The definitions in a ConfigMap. Raises ValueError with the path of all that is wrong."""
    definitions, problems = {}, []
    data = config_map.get("data") or {}
    if len(data) > MOST_DEFINITIONS:
        raise ValueError(f"data: want at most {MOST_DEFINITIONS} definitions, got {len(data)}")
    for key, text in sorted(data.items()):
        try:
            check_definition_name(key)
            definitions[key] = _definition(key, yaml_in(text, key))
        except ValueError as error:
            problems.append(str(error) if str(error).startswith("data[") else f"data[{key}]: {error}")
    if problems:
        raise ValueError("; ".join(problems))
    return definitions


def check_definition_name(name: str) -> str:
    """The name of a definition. Raises ValueError where it cannot be one."""
    check_dns_subdomain(name)
    if len(name) > DNS_LABEL_LIMIT:
        raise ValueError(f"has {len(name)} characters: want at most {DNS_LABEL_LIMIT}, as a label value has")
    if name.startswith(CLASS_PREFIX):
        raise ValueError(f"begins with {CLASS_PREFIX}, as templates for a DeviceClass do: want another name")
    return name


def of_class(device_class: DeviceClass, name: str) -> Definition:
    """The definition of this name that asks for one device of a class."""
    spec = _devices_of({"device": device_class.name})
    return Definition(name, spec, requests_of(spec), device_class)


def all_definitions(configured: Definitions, classes: Iterable[DeviceClass]) -> Definitions:
    """Those of the ConfigMap, and those of classes; of two with one name the first, classes in the order of names."""
    definitions = dict(configured)
    for device_class in sorted(classes, key=lambda device_class: device_class.name):
        if device_class.definition:
            definitions.setdefault(device_class.definition, of_class(device_class, device_class.definition))
    return definitions


def _definition(name: str, entry: object) -> Definition:
    spec = _check_devices(entry)
    return Definition(name, spec, requests_of(spec))


def _devices_of(classes: dict[str, str], align: str = "") -> JSON:
    """The spec that asks for one device of each class, by the name of the request."""
    requests = [{"name": name, "exactly": {"deviceClassName": device_class}} for name, device_class in classes.items()]
    devices: JSON = {"requests": requests}
    if align:
        devices["constraints"] = [{"requests": list(classes), "matchAttribute": align}]
    return {"devices": devices}


def _check_devices(entry: Any) -> JSON:
    """The spec of the ResourceClaims. Raises DefinitionError with the path of all that is wrong.

    `{spec: {devices: …}}` is a ResourceClaimSpec. The short form `{requests: {gpu: gpu.example.com}, align: KEY}` asks
    for one device of each DeviceClass, all of them with the same value of the attribute KEY.
    """
    _check_size(entry)
    if not isinstance(entry, dict):
        raise DefinitionError(f"{_FORM}; got {_kind(entry)}")
    unknown = sorted(map(str, entry.keys() - {"spec", "requests", "align"}))
    if unknown:
        raise DefinitionError(f"{unknown[0]}: unknown key: {_FORM}")
    if "spec" in entry:
        if len(entry) > 1:
            raise DefinitionError(f"spec: excludes requests and align: {_FORM}")
        return _checked(entry["spec"], "spec.devices")
    return _checked(_long_form(entry), "")


def _check_size(entry: Any) -> None:
    """Aliases can make a short text stand for any number of values."""
    left, values = _MOST_VALUES, [entry]
    while values:
        value = values.pop()
        left -= 1
        if left < 0:
            raise DefinitionError(f"has more than {_MOST_VALUES} values, aliases written out: want a shorter one")
        values += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _long_form(entry: JSON) -> JSON:
    requests, align = entry.get("requests"), entry.get("align", "")
    if not isinstance(requests, dict) or not requests:
        raise DefinitionError("requests: required: the DeviceClass of each request, by the name of the request")
    for name, device_class in requests.items():
        if not isinstance(device_class, str) or not isinstance(name, str):
            raise DefinitionError(f"requests.{name}: want the name of a DeviceClass, got {_kind(device_class)}")
    if not isinstance(align, str):
        raise DefinitionError(f"align: want the name of an attribute, got {_kind(align)}")
    if align and len(requests) == 1:
        raise DefinitionError("align: there is one request: want at least two that can be aligned")
    return _devices_of(requests, align)


def _checked(spec: Any, where: str) -> JSON:
    """The spec, decoded. `where` is the path of the devices; "" for the short form, whose paths are others."""
    body = RESOURCE_CLAIM_TEMPLATES.body({}, spec={"spec": spec})
    try:
        decoded, unknown = decode_builtin(RESOURCE_CLAIM_TEMPLATES.kind, RESOURCE_CLAIM_TEMPLATES.api_version, body)
    except ShapeError as error:
        raise DefinitionError(f"{error.field.removeprefix('spec.')}: {error.fault}") from error
    problems = [f"{field.removeprefix('spec.')}: unknown field" for field in unknown]
    decoded_spec: JSON = decoded["spec"].get("spec") or {}
    problems += [f"{field}: {fault}" for field, fault in _problems(decoded_spec.get("devices") or {}, where)]
    if problems:
        raise DefinitionError("; ".join(problems))
    return decoded_spec


def _problems(devices: JSON, where: str) -> Iterator[tuple[str, str]]:
    requests = devices.get("requests") or []
    if not requests:
        yield f"{where}.requests".lstrip("."), "required: at least one request"
    for name in ("requests", "constraints", "config"):
        if len(devices.get(name) or ()) > _MOST:
            yield f"{where}.{name}".lstrip("."), f"want at most {_MOST}, got {len(devices[name])}"
    names: set[str] = set()
    for index, request in enumerate(requests[:_MOST]):
        name = str(request.get("name") or "")
        path = f"{where}.requests[{index}]" if where else f"requests.{name}"
        yield from _named(path, name, names, short=not where)
        yield from _request(path, request, short=not where)
        names.add(name)
    for index, constraint in enumerate((devices.get("constraints") or ())[:_MOST]):
        path = f"{where}.constraints[{index}]"
        yield from _constraint(path if where else "align", constraint, names)
    for index, config in enumerate((devices.get("config") or ())[:_MOST]):
        yield from _config(f"{where}.config[{index}]", config, names)


def _named(path: str, name: str, names: Collection[str], *, short: bool) -> Iterator[tuple[str, str]]:
    field = path if short else f"{path}.name"
    yield from _fault(field, check_dns_label, name)
    if name in names:
        yield field, f"{quoted(name)} is there already: want each name once"


def _request(path: str, device_request: JSON, *, short: bool) -> Iterator[tuple[str, str]]:
    exactly, alternatives = device_request.get("exactly"), device_request.get("firstAvailable")
    if (exactly is None) == (alternatives is None):
        yield path, "want one of exactly and firstAvailable"
        return
    if alternatives is not None and not 0 < len(alternatives) <= _MOST_ALTERNATIVES:
        yield f"{path}.firstAvailable", f"want 1 to {_MOST_ALTERNATIVES} alternatives, got {len(alternatives)}"
        return
    listed = [(f"{path}.exactly", exactly)] if exactly is not None else []
    listed += [(f"{path}.firstAvailable[{index}]", each) for index, each in enumerate(alternatives or ())]
    for inner, request in listed:
        field = path if short else f"{inner}.deviceClassName"
        yield from _fault(field, check_dns_subdomain, request.get("deviceClassName") or "")
        mode, count = request.get("allocationMode") or "ExactCount", request.get("count")
        if mode not in ("ExactCount", "All"):
            yield f"{inner}.allocationMode", f"want ExactCount or All, got {quoted(mode)}"
        if count is not None and (mode == "All" or count < 1):
            yield f"{inner}.count", "want a number of at least 1, and none with allocationMode All"
        if request.get("adminAccess"):
            yield f"{inner}.adminAccess", "is not for claims of all Pods: leave it out"


def _constraint(path: str, constraint: JSON, names: Collection[str]) -> Iterator[tuple[str, str]]:
    for index, name in enumerate(constraint.get("requests") or ()):
        if name.partition("/")[0] not in names:
            yield f"{path}.requests[{index}]", f"{quoted(name)} is no request: want one of {', '.join(sorted(names))}"
    attributes = [constraint[key] for key in ("matchAttribute", "distinctAttribute") if constraint.get(key)]
    if len(attributes) != 1:
        yield path, "want matchAttribute or distinctAttribute"
    elif "/" not in attributes[0]:
        yield path, f"{quoted(attributes[0])} has no domain: want an attribute such as resource.kubernetes.io/pcieRoot"
    else:
        yield from _fault(path, check_qualified_name, attributes[0])


def _config(path: str, config: JSON, names: Collection[str]) -> Iterator[tuple[str, str]]:
    for index, name in enumerate(config.get("requests") or ()):
        if name.partition("/")[0] not in names:
            yield f"{path}.requests[{index}]", f"{quoted(name)} is no request: want one of {', '.join(sorted(names))}"
    opaque = config.get("opaque") or {}
    yield from _fault(f"{path}.opaque.driver", check_dns_subdomain, opaque.get("driver") or "")
    if not isinstance(opaque.get("parameters"), dict):
        yield f"{path}.opaque.parameters", "want an object"


def _fault(field: str, check: Any, value: str) -> Iterator[tuple[str, str]]:
    try:
        check(value)
    except ValueError as error:
        yield field, str(error)


def _kind(value: object) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "a text", type(None): "nothing", bool: "true or false"}
    return kinds.get(type(value), "a number")


def requests_of(spec: JSON) -> Requests:
    """The requests of the spec of a ResourceClaim. Each alternative counts; requests with admin access do not."""
    counts: dict[str, int] = {}
    for name, count in _requests((spec.get("devices") or {}).get("requests") or ()):
        counts[name] = counts.get(name, 0) + count
    return counts


def _requests(requests: Iterable[JSON]) -> Iterator[tuple[str, int]]:
    for entry in requests:
        exactly = entry.get("exactly") or {}
        for request in (exactly, *(entry.get("firstAvailable") or ())):
            name = request.get("deviceClassName")
            if name and not request.get("adminAccess"):
                yield name, _ALL if request.get("allocationMode") == "All" else request.get("count") or 1


def added(parts: Iterable[Requests]) -> Requests:
    """All of them together."""
    counts: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            counts[name] = counts.get(name, 0) + count
    return counts


def template_requests(template: JSON) -> Requests:
    """What is kept of a ResourceClaimTemplate."""
    return requests_of((template.get("spec") or {}).get("spec") or {})


def claim_requests(claim: JSON) -> Requests | None:
    """What is kept of a ResourceClaim that a Pod can name; None for one that was made for a Pod."""
    owner = controller_of(claim["metadata"])
    return None if owner.get("kind") == "Pod" else requests_of(claim.get("spec") or {})
