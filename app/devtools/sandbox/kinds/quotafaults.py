"""Validation of ResourceQuotas, in the API server's words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.devtools.sandbox.kinds.quotausage import is_count
from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import qualified_faults
from app.kube.quantity import parse

if TYPE_CHECKING:
    from app.wire import JSON

_STANDARD = frozenset(
    {
        "configmaps",
        "resourcequotas",
        "replicationcontrollers",
        "secrets",
        "services",
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_OF_PODS = frozenset({"pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""What may stand beside a scope."""
_HUGE = ("hugepages-", "requests.hugepages-")
_POD_SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity")
_SCOPES = frozenset({*_POD_SCOPES, "PriorityClass", "VolumeAttributesClass"})


def check_quota(quota: JSON, old: JSON | None) -> list[FieldError]:
    """All faults of a ResourceQuota, its metadata aside."""
    spec = quota.get("spec") or {}
    errors = [fault for name, value in (spec.get("hard") or {}).items() for fault in _check_bound(name, value)]
    listed, expressions = spec.get("scopes") or [], (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    unknown = [scope for scope in listed if scope not in _SCOPES]
    errors += [FieldError("spec.scopes", "Invalid", "unsupported scope", listed) for _ in unknown]
    path = "spec.scopeSelector.matchExpressions"
    for expression in expressions:
        errors += _check_expression(expression, path)
        if any(name in _STANDARD and name not in _OF_PODS for name in spec.get("hard") or {}):
            text = "unsupported scope applied to resource"
            errors.append(FieldError(path, "Invalid", text, spec["scopeSelector"]))
    if old is not None and set(listed) != set((old.get("spec") or {}).get("scopes") or []):
        errors.append(FieldError("spec.scopes", "Invalid", "field is immutable", listed))
    return errors


def _check_bound(name: str, value: str) -> list[FieldError]:
    path = f"spec.hard[{name}]"
    errors = [FieldError(path, "Invalid", text, name) for text in qualified_faults(name)]
    if not errors and "/" not in name and name not in _STANDARD and not name.startswith(_HUGE):
        text = "must be a standard resource type or fully qualified"
        errors.append(FieldError(path, "Invalid", text, name))
        errors.append(FieldError(path, "Invalid", "must be a standard resource for quota", name))
    amount = parse(value)
    if amount < 0:
        errors.append(FieldError(path, "Invalid", "must be greater than or equal to 0", value))
    elif amount != amount.to_integral_value() and ("/" in name or is_count(name)):
        errors.append(FieldError(path, "Invalid", "must be an integer", value))
    return errors


def _check_expression(expression: JSON, path: str) -> list[FieldError]:
    scope, operator, values = (expression.get(key) for key in ("scopeName", "operator", "values"))
    errors = []
    if scope not in _SCOPES:
        errors.append(FieldError(f"{path}.scopeName", "Invalid", "unsupported scope", scope))
    if scope in _POD_SCOPES and operator != "Exists":
        text = (
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
            "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
            "ResourceQuotaScopeCrossNamespacePodAffinity"
        )
        errors.append(FieldError(f"{path}.operator", "Invalid", text, operator))
    if operator in ("In", "NotIn") and not values:
        text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        errors.append(FieldError(f"{path}.values", "Required", text))
    elif operator in ("Exists", "DoesNotExist") and values:
        text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        errors.append(FieldError(f"{path}.values", "Invalid", text, values))
    elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        errors.append(FieldError(f"{path}.operator", "Invalid", "not a valid selector operator", operator))
    return errors
