"""Validation of what a Pod's status says about its ResourceClaims, in the API server's words. Pure."""

from __future__ import annotations

from app.kinds.fielderrors import Field, FieldError
from app.kinds.name_syntax import label_faults, subdomain_faults
from app.wire import JSON

_WHERE = "spec.initContainers{0} or spec.containers{0}"


def check_pod_claims(pod: JSON) -> list[FieldError]:
    """All faults of `resourceClaimStatuses` and `extendedResourceClaimStatus`."""
    status, spec = Field(pod.get("status") or {}, "status"), pod.get("spec") or {}
    known = {claim.get("name") for claim in spec.get("resourceClaims") or []}
    seen: set[str] = set()
    for claim in status.each("resourceClaimStatuses"):
        name = claim.text("name")
        if name not in known:
            claim.fault("name", "Invalid", "must match the name of an entry in `spec.resourceClaims`", name)
        claim.unique("name", name, seen)
        if "resourceClaimName" in claim.value:
            claim.syntax("resourceClaimName", subdomain_faults)
    for extended in status.present("extendedResourceClaimStatus"):
        _check_extended(extended, spec)
    return status.errors


def _check_extended(extended: Field, spec: JSON) -> None:
    containers = {one.get("name"): one for kind in ("initContainers", "containers") for one in spec.get(kind) or []}
    extended.required("requestMappings", "at least one request mapping is required")
    seen: list[JSON] = []
    for mapping in extended.each("requestMappings"):
        container, resource = mapping.text("containerName"), mapping.text("resourceName")
        if container not in containers:
            text = f"must match the name of an entry in {_WHERE.format('.name')}"
            mapping.fault("containerName", "Invalid", text, container)
        elif resource not in ((containers[container].get("resources") or {}).get("requests") or {}):
            text = f"must match the extended resource name of an entry in {_WHERE.format('.resources.requests')}"
            mapping.fault("resourceName", "Invalid", text, resource)
        # The server reports a request's name at the list's parent.
        for text in label_faults(mapping.text("requestName")):
            extended.fault("requestName", "Invalid", text, mapping.text("requestName"))
        if mapping.value in seen:
            for name in ("containerName", "resourceName", "requestName"):
                mapping.fault(name, "Duplicate")
        seen.append(mapping.value)
    extended.named("resourceClaimName", subdomain_faults)
