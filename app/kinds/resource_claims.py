"""Validation of the ResourceClaims that a Pod and its containers use, in the API server's words. Pure."""

from __future__ import annotations

from itertools import islice

from app.kinds.fielderrors import Field, FieldError
from app.kinds.name_syntax import check_element_name, label_faults, subdomain_faults
from app.wire import JSON

_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
_NAMED = 256
"""Claims that a fault names."""
_MIRROR = "kubernetes.io/config.mirror"


def check_pod_claims(pod: Field) -> None:
    """The claims of a Pod's spec: each has a name of its own, and one source, which need not exist."""
    seen: set[str] = set()
    for claim in pod.each("resourceClaims"):
        check_element_name(claim, seen)
        shown = {"Name": claim.text("name"), **{name[0].upper() + name[1:]: claim.value.get(name) for name in _SOURCES}}
        given = [name for name in _SOURCES if name in claim.value]
        if not given:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            claim.fault("", "Invalid", text, shown)
        elif len(given) > 1:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            claim.fault("", "Invalid", text, shown)
        for name in given:
            claim.syntax(name, subdomain_faults)


def mirror_faults(pod: JSON) -> list[FieldError]:
    """The fault of claims in a Pod that a node's own files define."""
    mirrors = _MIRROR in ((pod.get("metadata") or {}).get("annotations") or {})
    if not mirrors or not pod["spec"].get("resourceClaims"):
        return []
    return [FieldError("[]", "Forbidden", "static pods do not support resource claims")]  # without a path, as there


def claim_names(spec: JSON) -> dict[str, None]:
    """The names of a Pod's claims, in their order."""
    return dict.fromkeys(sorted({claim["name"] for claim in spec.get("resourceClaims") or [] if claim.get("name")}))


def check_container_claims(resources: Field, known: dict[str, None]) -> None:
    """The claims that one container uses: those `known` of its Pod, and no claim or request twice.

    A whole claim has all of its requests in it.
    """
    text = "must be one of the names in pod.spec.resourceClaims" + (
        f": {', '.join(islice(known, _NAMED))}{', …' if len(known) > _NAMED else ''}" if known else " which is empty"
    )
    whole: set[str] = set()
    parts: dict[str, set[str]] = {}
    for here, entry in resources.entries("claims"):
        name, request = entry.get("name") or "", entry.get("request") or ""
        if not name:
            resources.fault(here, "Required")
            continue
        if request and name not in whole:
            Field(entry, resources.at(here), resources.errors).syntax("request", label_faults)
        if name in whole or (not request and name in parts):
            resources.fault(here, "Duplicate", "", name)
        elif request in parts.get(name, ()):
            resources.fault(here, "Duplicate", "", f"{name}/{request}")
        if request:
            parts.setdefault(name, set()).add(request)
        else:
            whole.add(name)
        if name not in known:
            resources.fault(here, "NotFound", text, name)
