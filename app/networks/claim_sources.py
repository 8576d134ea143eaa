"""Which claim gives an attachment its device, by annotations of the attachment. Pure.

Without one of these annotations the device comes by a resource of the Pod's container, as ever.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from app.admission.pods import INJECT
from app.kube.names import check_dns_subdomain
from app.wire import JSON

CLAIM_TEMPLATE = "berth.dev/resource-claim-template"
"""Annotation on an attachment, by its author: the ResourceClaimTemplate, in the namespace of the Pod, that gives each
selection its device, in place of a resource. With `--claims`.
"""
DEVICE_CLASS = "berth.dev/device-class"
"""Annotation on an attachment, by its author: the DeviceClass of which each selection gets one device by a claim, in
place of a resource. With `--claims`.
"""
_KEYS = (CLAIM_TEMPLATE, DEVICE_CLASS)


class ClaimSource(msgspec.Struct, frozen=True):
    """The annotations of an attachment, trimmed but unchecked; "" for one that it does not have."""

    template: str = ""
    device_class: str = ""


def claim_source(annotations: JSON) -> ClaimSource | None:
    """The source of an attachment with these annotations; None where it has none, or opted out."""
    template, device_class = (_text(annotations, key) for key in _KEYS)
    if opted_out(annotations) or not (template or device_class):
        return None
    return ClaimSource(template, device_class)


def opted_out(annotations: JSON) -> bool:
    """Whether nothing is injected for the device of the attachment."""
    return _text(annotations, INJECT).lower() == "false"


def source_problems(source: ClaimSource) -> Iterator[tuple[str, str]]:
    """Pairs of an annotation and what is wrong with it."""
    values = (source.template, source.device_class)
    if all(values):
        yield DEVICE_CLASS, f"excludes {CLAIM_TEMPLATE}: want one of the two"
    for key, value in zip(_KEYS, values, strict=True):
        try:
            check_dns_subdomain(value or "none")
        except ValueError as error:
            yield key, str(error)


def _text(annotations: JSON, key: str) -> str:
    value = annotations.get(key)
    return value.strip() if isinstance(value, str) else ""
