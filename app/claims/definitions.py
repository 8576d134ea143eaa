"""Definitions of claims for the whole cluster: entries of a ConfigMap, and annotations of DeviceClasses. Pure.

Of a definition there is a ResourceClaimTemplate of its name in each namespace that uses it, and containers can ask for
`berth.dev/NAME` as if it were a resource. Facts on specs: resource.k8s.io/v1, ResourceClaimSpec.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.claims.devices import check_devices, devices_of
from app.claims.requests import Requests, requests_of
from app.kube.configuration import yaml_in
from app.kube.names import DNS_LABEL_LIMIT, check_dns_subdomain, shorten
from app.wire import JSON

CLASS_DEFINITION = "berth.dev/claim-template"
"""Annotation on a DeviceClass, by its author: the name of a definition that asks for one device of this class."""
CLASS_PREFIX = "berth-class-"
"""How the names of templates begin that are made for attachments with a DeviceClass."""
MOST_DEFINITIONS = 1024
"""In a ConfigMap."""
_TEMPLATE_LIMIT = 253


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
    found, problems = {}, []
    data = config_map.get("data") or {}
    if len(data) > MOST_DEFINITIONS:
        raise ValueError(f"data: want at most {MOST_DEFINITIONS} definitions, got {len(data)}")
    for key, text in sorted(data.items()):
        try:
            check_definition_name(key)
            found[key] = _definition(key, yaml_in(text, key))
        except ValueError as error:
            problems.append(str(error) if str(error).startswith("data[") else f"data[{key}]: {error}")
    if problems:
        raise ValueError("; ".join(problems))
    return found


def check_definition_name(name: str) -> str:
    """The name of a definition. Raises ValueError where it cannot be one."""
    check_dns_subdomain(name)
    if len(name) > DNS_LABEL_LIMIT:
        raise ValueError(f"has {len(name)} characters: want at most {DNS_LABEL_LIMIT}, as a label value has")
    if name.startswith(CLASS_PREFIX):
        raise ValueError(f"begins with {CLASS_PREFIX}, as templates for a DeviceClass do: want another name")
    return name


def of_class(one: DeviceClass, name: str) -> Definition:
    """The definition of this name that asks for one device of a class."""
    spec = devices_of({"device": one.name})
    return Definition(name, spec, requests_of(spec), one)


def all_definitions(configured: Definitions, classes: Iterable[DeviceClass]) -> Definitions:
    """Those of the ConfigMap, and those of classes; of two with one name the first, classes in the order of names."""
    found = dict(configured)
    for one in sorted(classes, key=lambda one: one.name):
        if one.definition:
            found.setdefault(one.definition, of_class(one, one.definition))
    return found


def _definition(name: str, said: object) -> Definition:
    spec = check_devices(said)
    return Definition(name, spec, requests_of(spec))
