"""Validation of Pods in the API server's words: what it would refuse, without its admission plugins.

Pure: takes an object that `shapes` decoded and `defaults` completed. Here are the Pod's spec as a whole, and what an
update may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.kinds.containers import check_containers, check_overhead
from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import (
    check_element_name,
    check_labels,
    invalid,
    qualified_faults,
    subdomain_faults,
    supported,
)
from app.kinds.networking import check_networking
from app.kinds.scheduling import check_affinity, check_spreading, check_tolerations
from app.kinds.security import check_pod_security
from app.kinds.volumes import check_volumes

if TYPE_CHECKING:
    from app.wire import JSON

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_LONGEST = 2**31 - 1
_UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_pod(pod: JSON) -> list[FieldError]:
    """All faults of a Pod that is to be created (its metadata aside)."""
    spec = pod["spec"]
    errors = check_pod_spec(spec, "spec")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        text = "cannot be set until all schedulingGates have been cleared"
        errors.append(FieldError("spec.nodeName", "Forbidden", text))
    return errors


def check_pod_spec(spec: JSON, path: str) -> list[FieldError]:
    """All faults of a Pod's spec, in a Pod or in a template at `path`."""
    errors = check_volumes(spec.get("volumes") or [], f"{path}.volumes")
    errors += check_containers(spec, path)
    errors += supported(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    errors += check_networking(spec, path)
    errors += check_labels(spec.get("nodeSelector"), f"{path}.nodeSelector")
    errors += check_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    errors += check_tolerations(spec.get("tolerations") or [], f"{path}.tolerations")
    errors += check_spreading(spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")
    errors += check_pod_security(spec, path)
    errors += _check_names(spec, path)
    errors += _check_claims(spec.get("resourceClaims") or [], f"{path}.resourceClaims")
    if not 1 <= spec.get("activeDeadlineSeconds", 1) <= _LONGEST:
        text = f"must be between 1 and {_LONGEST}, inclusive"
        errors.append(FieldError(f"{path}.activeDeadlineSeconds", "Invalid", text, spec["activeDeadlineSeconds"]))
    errors += check_overhead(spec.get("overhead") or {}, f"{path}.overhead")
    if "preemptionPolicy" in spec:
        errors += supported(f"{path}.preemptionPolicy", spec["preemptionPolicy"], ("Never", "PreemptLowerPriority"))
    if "os" in spec:
        errors += supported(f"{path}.os", spec["os"].get("name") or "", ("linux", "windows"))
    return errors


def check_pod_birth(spec: JSON, path: str) -> list[FieldError]:
    """What only a Pod that already exists may have."""
    if not spec.get("ephemeralContainers"):
        return []
    return [FieldError(f"{path}.ephemeralContainers", "Forbidden", "cannot be set on create")]


def _check_names(spec: JSON, path: str) -> list[FieldError]:
    """Fields that name other objects, conditions and gates."""
    errors: list[FieldError] = []
    for field in ("nodeName", "serviceAccountName", "priorityClassName", "runtimeClassName"):
        name = spec.get(field)
        if name:
            errors += invalid(f"{path}.{field}", name, subdomain_faults(name))
    for index, gate in enumerate(spec.get("readinessGates") or []):
        here, name = f"{path}.readinessGates[{index}].conditionType", gate.get("conditionType") or ""
        errors += invalid(here, name, qualified_faults(name))
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or []):
        here, name = f"{path}.schedulingGates[{index}]", gate.get("name") or ""
        errors += invalid(here, name, qualified_faults(name))
        if name in seen:
            errors.append(FieldError(here, "Duplicate", "", name))
        seen.add(name)
    return errors


def _check_claims(claims: list[JSON], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        here, name = f"{path}[{index}]", claim.get("name") or ""
        errors += check_element_name(f"{here}.name", name, seen)
        sources = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if field in claim]
        if not sources:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(FieldError(here, "Invalid", text, claim))
        elif len(sources) > 1:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(FieldError(here, "Invalid", text, claim))
    return errors


def check_pod_update(new: JSON, old: JSON) -> list[FieldError]:
    """What an update of a Pod's main resource changes although it may not."""
    after, before = dict(new["spec"]), dict(old["spec"])
    errors: list[FieldError] = []
    if len(after.get("containers") or []) != len(before.get("containers") or []):
        return [FieldError("spec.containers", "Forbidden", "pod updates may not add or remove containers")]
    gated = bool(before.get("schedulingGates"))
    errors += _check_gates(after, before)
    errors += _check_added_tolerations(after, before)
    for spec in (after, before):
        for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"):
            spec.pop(name, None)
        if gated:  # a gated Pod may still narrow where it runs
            spec.pop("nodeSelector", None)
            spec.pop("affinity", None)
        for name in ("containers", "initContainers"):
            if name in spec:
                spec[name] = [{**container, "image": ""} for container in spec[name]]
    if after != before:
        errors.append(FieldError("spec", "Forbidden", _UPDATE_TEXT))
    return errors


def _check_gates(after: JSON, before: JSON) -> list[FieldError]:
    kept = {gate.get("name") for gate in before.get("schedulingGates") or []}
    added = [gate for gate in after.get("schedulingGates") or [] if gate.get("name") not in kept]
    if not added:
        return []
    text = f"only deletion is allowed, but found new scheduling gate '{added[0].get('name')}'"
    return [FieldError("spec.schedulingGates", "Forbidden", text)]


def _check_added_tolerations(after: JSON, before: JSON) -> list[FieldError]:
    kept = after.get("tolerations") or []
    if all(entry in kept for entry in before.get("tolerations") or []):
        return []
    text = "existing toleration can not be modified except its tolerationSeconds"
    return [FieldError("spec.tolerations", "Forbidden", text)]
