"""Validation of whole built-in objects by kind, with the messages of the API server. Pure.

Takes an object that `shapes` decoded and `defaults` completed. `names.check_metadata` checks the metadata.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from app.kinds.contents import check_config_map, check_secret
from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import check_annotations, check_label_selector, check_labels, supported
from app.kinds.validation import check_pod, check_pod_birth, check_pod_spec
from app.kube.selectors import label_selector_from_json

if TYPE_CHECKING:
    from app.wire import JSON

_PERCENT = re.compile(r"[0-9]+%", re.ASCII)
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_NOT_NEGATIVE = "must be greater than or equal to 0"


def check_object(kind: str, obj: JSON) -> list[FieldError]:
    """All faults of a Pod, DaemonSet, Secret or ConfigMap that is to be created; none of other kinds."""
    match kind:
        case "Pod":
            return check_pod(obj) + check_pod_birth(obj["spec"], "spec")
        case "DaemonSet":
            return check_daemon_set(obj)
        case "Secret":
            return check_secret(obj)
        case "ConfigMap":
            return check_config_map(obj)
    return []


def check_daemon_set(obj: JSON) -> list[FieldError]:
    """All faults of a DaemonSet: its selector, the template, how it is rolled out."""
    spec = obj["spec"]
    template = spec["template"]
    errors = _check_selector(spec, template["metadata"])
    errors += [
        FieldError(f"spec.{field}", "Invalid", _NOT_NEGATIVE, spec[field])
        for field in ("minReadySeconds", "revisionHistoryLimit")
        if spec.get(field, 0) < 0
    ]
    errors += check_labels(template["metadata"].get("labels"), "spec.template.labels")
    errors += [
        FieldError(f"spec.template.{fault.field.removeprefix('metadata.')}", fault.type, fault.detail, fault.bad_value)
        for fault in check_annotations(template["metadata"].get("annotations") or {})
    ]
    errors += check_pod_spec(template["spec"], "spec.template.spec")
    errors += supported("spec.template.spec.restartPolicy", template["spec"].get("restartPolicy"), ("Always",))
    if "activeDeadlineSeconds" in template["spec"]:
        text = "activeDeadlineSeconds in DaemonSet is not Supported"
        errors.append(FieldError("spec.template.spec.activeDeadlineSeconds", "Forbidden", text))
    return errors + _check_strategy(spec["updateStrategy"], "spec.updateStrategy")


def _check_selector(spec: JSON, metadata: JSON) -> list[FieldError]:
    selector = spec.get("selector")
    labels = metadata.get("labels")
    errors = check_label_selector(selector or {}, "spec.selector")
    if not errors and not label_selector_from_json(selector).matches(labels):
        text = "`selector` does not match template `labels`"
        errors.append(FieldError("spec.template.metadata.labels", "Invalid", text, labels))
    if selector is not None and not any(selector.values()):
        errors.append(FieldError("spec.selector", "Invalid", "empty selector is invalid for daemonset", {}))
    return errors


def _check_strategy(strategy: JSON, path: str) -> list[FieldError]:
    errors = supported(f"{path}.type", strategy.get("type"), ("RollingUpdate", "OnDelete"))
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") != "RollingUpdate" or rolling is None:
        return errors
    here = f"{path}.rollingUpdate"
    down, up = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors += _check_share(down, f"{here}.maxUnavailable") + _check_share(up, f"{here}.maxSurge")
    if _is_zero(down) and _is_zero(up):
        errors.append(FieldError(f"{here}.maxUnavailable", "Required", "cannot be 0 when maxSurge is 0"))
    elif not _is_zero(down) and not _is_zero(up):
        text = "may not be set when maxUnavailable is non-zero"
        errors.append(FieldError(f"{here}.maxSurge", "Invalid", text, up))
    return errors


def _check_share(share: Any, path: str) -> list[FieldError]:
    """A number of Pods, or a percentage of them."""
    if isinstance(share, int):
        return [FieldError(path, "Invalid", _NOT_NEGATIVE, share)] if share < 0 else []
    if not _PERCENT.fullmatch(share):
        return [FieldError(path, "Invalid", _PERCENT_TEXT, share)]
    digits = share[:-1].lstrip("0")
    if len(digits) > 3 or int(digits or "0") > 100:
        return [FieldError(path, "Invalid", "must not be greater than 100%", share)]
    return []


def _is_zero(share: Any) -> bool:
    return not share if isinstance(share, int) else not share.strip("0%") or not _PERCENT.fullmatch(share)
