"""Finds hardware that one Pod asks for twice: by an extended resource, and by a claim. Pure.

The scheduler gives a device for each (KEP-5004), and one of them is used by nothing. The resources of a DeviceClass are
its `spec.extendedResourceName` and the implicit `deviceclass.resource.kubernetes.io/NAME`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from app.admission.pods import INJECT, Pod
from app.claims.definitions import DeviceClass
from app.claims.injection.adding import containers_of
from app.kube import quantity
from app.kube.resources import IMPLICIT_PREFIX
from app.networks.claim_sources import CLAIM_TEMPLATE, DEVICE_CLASS
from app.text import quoted


class Asking(NamedTuple):
    """Which container asks for an extended resource, and where in the Pod."""

    resource: str
    field: str


def extended_resources(pod: Pod) -> list[Asking]:
    """The extended resources that containers ask for, each where it stands first; amounts of zero do not count."""
    found: dict[str, Asking] = {}
    for kind, index, container in containers_of(pod):
        resources = container.resources
        for side, amounts in (("limits", resources.limits), ("requests", resources.requests)) if resources else ():
            for name, value in amounts.items():
                if "/" in name and _is_some(value):
                    found.setdefault(name, Asking(name, f"spec.{kind}[{index}].resources.{side}[{name}]"))
    return list(found.values())


def doubled(
    asking: Iterable[Asking], classes: Mapping[str, DeviceClass | None], claims: Mapping[str, str]
) -> Iterator[str]:
    """What is asked for twice. `claims` is the claim of the Pod that asks for a device of a class, by the class.

    A class of `classes` that does not exist (None) has its implicit resource alone.
    """
    served = {IMPLICIT_PREFIX + name: name for name in claims}
    served |= {
        device_class.resource: name
        for name, device_class in classes.items()
        if device_class is not None and device_class.resource
    }
    for request in asking:
        name = served.get(request.resource)
        if name is not None:
            yield (
                f"{request.field}: {request.resource} and claim {quoted(claims[name])} both ask for a device of "
                f"DeviceClass {name}: drop one of them. Where networks need the resource, annotate their attachment "
                f'with {DEVICE_CLASS} or {CLAIM_TEMPLATE} to have it served by a claim, or with {INJECT}: "false"; on '
                "the Pod the latter turns off injection and this check"
            )


def _is_some(value: str | float) -> bool:
    """What is no quantity, the API server refuses."""
    try:
        return quantity.parse(value) > 0
    except ValueError:
        return False
