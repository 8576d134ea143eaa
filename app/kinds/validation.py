"""Validation of Pods as far as honest tests of a webhook need it, in the API server's words.

Pure: an object that `shapes` decoded and `defaults` completed in, field errors out. What hangs on one container is in
`containers`; here are the Pod's spec as a whole, its volumes, its placement, and what an update may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.kinds.containers import check_containers, check_downward_item
from app.kinds.fielderrors import FieldError
from app.kinds.names import check_labels, label_faults, qualified_faults, subdomain_faults, supported
from app.kinds.podshapes import VOLUME_SOURCES

if TYPE_CHECKING:
    from app.wire import JSON

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_pod(pod: JSON) -> list[FieldError]:
    """All faults of a Pod that is to be created (its metadata aside)."""
    return check_pod_spec(pod["spec"], "spec")


def check_pod_spec(spec: JSON, path: str) -> list[FieldError]:
    """All faults of a Pod's spec, in a Pod or in a template at `path`."""
    volumes = spec.get("volumes") or []
    errors = _check_volumes(volumes, f"{path}.volumes")
    errors += check_containers(spec, path, {volume.get("name") for volume in volumes})
    errors += supported(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    errors += supported(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    errors += check_labels(spec.get("nodeSelector"), f"{path}.nodeSelector")
    errors += _check_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    errors += _check_tolerations(spec.get("tolerations") or [], f"{path}.tolerations")
    if spec.get("nodeName"):
        errors += [
            FieldError(f"{path}.nodeName", "Invalid", text, spec["nodeName"])
            for text in subdomain_faults(spec["nodeName"])
        ]
    if spec.get("hostname"):
        errors += [
            FieldError(f"{path}.hostname", "Invalid", text, spec["hostname"]) for text in label_faults(spec["hostname"])
        ]
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
    return [
        FieldError(
            "spec.schedulingGates",
            "Forbidden",
            f"only deletion is allowed, but found new scheduling gate '{added[0].get('name')}'",
        )
    ]


def _check_added_tolerations(after: JSON, before: JSON) -> list[FieldError]:
    kept = after.get("tolerations") or []
    if all(entry in kept for entry in before.get("tolerations") or []):
        return []
    return [
        FieldError(
            "spec.tolerations", "Forbidden", "existing toleration can not be modified except its tolerationSeconds"
        )
    ]


def _check_volumes(volumes: list[JSON], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        here, name = f"{path}[{index}]", volume.get("name") or ""
        sources = [source for source in VOLUME_SOURCES if source in volume]
        if not sources:
            errors.append(FieldError(here, "Required", "must specify a volume type"))
        text = "may not specify more than 1 volume type"
        errors += [FieldError(f"{here}.{extra}", "Forbidden", text) for extra in sources[1:]]
        if sources:
            errors += _check_source(sources[0], volume[sources[0]] or {}, f"{here}.{sources[0]}")
        if not name:
            errors.append(FieldError(f"{here}.name", "Required"))
        else:
            errors += [FieldError(f"{here}.name", "Invalid", text, name) for text in label_faults(name)]
            if name in seen:
                errors.append(FieldError(f"{here}.name", "Duplicate", "", name))
        seen.add(name)
    return errors


def _check_source(source: str, value: JSON, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    required = {"hostPath": "path", "configMap": "name", "secret": "secretName", "persistentVolumeClaim": "claimName"}
    field = required.get(source)
    if field and not value.get(field):
        errors.append(FieldError(f"{path}.{field}", "Required"))
    mode = value.get("defaultMode")
    if mode is not None and not 0 <= mode <= 0o777:
        text = "must be a number between 0 and 0777 (octal), both inclusive"
        errors.append(FieldError(f"{path}.defaultMode", "Invalid", text, mode))
    if source == "downwardAPI":
        for item in value.get("items") or []:
            errors += check_downward_item(item, path)
    return errors


def _check_affinity(affinity: JSON, path: str) -> list[FieldError]:
    node = affinity.get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    errors: list[FieldError] = []
    if required is not None:
        here = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        terms = required.get("nodeSelectorTerms") or []
        if not terms:
            errors.append(FieldError(here, "Required", "must have at least one node selector term"))
        for index, term in enumerate(terms):
            errors += _check_expressions(term, f"{here}[{index}]")
    for index, entry in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or []):
        here = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        if not 1 <= entry.get("weight", 0) <= 100:
            errors.append(FieldError(f"{here}.weight", "Invalid", "must be in the range 1-100", entry.get("weight", 0)))
        errors += _check_expressions(entry.get("preference") or {}, f"{here}.preference")
    return errors


def _check_expressions(term: JSON, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, expression in enumerate(term.get("matchExpressions") or []):
        here = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values") or []
        if operator in ("In", "NotIn") and not values:
            errors.append(
                FieldError(f"{here}.values", "Required", "must be specified when `operator` is 'In' or 'NotIn'")
            )
        elif operator in ("Exists", "DoesNotExist") and values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(FieldError(f"{here}.values", "Forbidden", text))
        elif operator in ("Gt", "Lt") and len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(FieldError(f"{here}.values", "Required", text))
        elif operator not in _SELECTOR_OPERATORS:
            errors.append(FieldError(f"{here}.operator", "Invalid", "not a valid selector operator", operator))
        key = expression.get("key", "")
        errors += [FieldError(f"{here}.key", "Invalid", text, key) for text in qualified_faults(key)]
    return errors


def _check_tolerations(tolerations: list[JSON], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, entry in enumerate(tolerations):
        here, operator = f"{path}[{index}]", entry.get("operator") or "Equal"
        if entry.get("key"):
            errors += [
                FieldError(f"{here}.key", "Invalid", text, entry["key"]) for text in qualified_faults(entry["key"])
            ]
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(FieldError(f"{here}.operator", "Invalid", text, entry.get("operator") or ""))
        if operator == "Exists" and entry.get("value"):
            text = "value must be empty when `operator` is 'Exists'"
            errors.append(FieldError(f"{here}.operator", "Invalid", text, entry["value"]))
        if operator not in ("Exists", "Equal"):
            errors += supported(f"{here}.operator", operator, ("Equal", "Exists"))
        if entry.get("tolerationSeconds") is not None and entry.get("effect") != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(FieldError(f"{here}.effect", "Invalid", text, entry.get("effect") or ""))
        if entry.get("effect"):
            errors += supported(f"{here}.effect", entry["effect"], _EFFECTS)
    return errors
