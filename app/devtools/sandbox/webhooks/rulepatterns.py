"""The rules of a webhook as they are written: which operations, groups, versions and resource patterns are accepted.

Pure. How the patterns match a request is in `webhookrules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.kinds.fielderrors import FieldError, supported

if TYPE_CHECKING:
    from app.wire import JSON

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")


def check_rule(rule: JSON, path: str) -> list[FieldError]:
    """All faults of one rule: empty lists, a wildcard beside what it covers, unknown words."""
    errors = _check_list(rule, "operations", "operations", path)
    for index, operation in enumerate(rule.get("operations") or []):
        errors += supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    errors += _check_list(rule, "apiGroups", "API groups", path)
    versions = rule.get("apiVersions") or []
    errors += _check_list(rule, "apiVersions", "API versions", path)
    errors += [FieldError(f"{path}.apiVersions[{at}]", "Required") for at, text in enumerate(versions) if not text]
    errors += _check_resources(rule.get("resources") or [], f"{path}.resources")
    if rule.get("scope"):
        errors += supported(f"{path}.scope", rule["scope"], _SCOPES)
    return errors


def _check_list(rule: JSON, field: str, words: str, path: str) -> list[FieldError]:
    values = rule.get(field) or []
    if not values:
        return [FieldError(f"{path}.{field}", "Required")]
    if len(values) > 1 and "*" in values:
        text = f"if '*' is present, must not specify other {words}"
        return [FieldError(f"{path}.{field}", "Invalid", text, values)]
    return []


def _check_resources(resources: list[str], path: str) -> list[FieldError]:
    if not resources:
        return [FieldError(path, "Required")]
    errors: list[FieldError] = []
    for index, text in enumerate(resources):
        if not text:
            errors.append(FieldError(f"{path}[{index}]", "Required"))
        elif wider := _covered_by(text, resources[:index]):
            fault = f"if '{wider}' is present, must not specify {text}"
            errors.append(FieldError(f"{path}[{index}]", "Invalid", fault, text))
    if len(resources) > 1 and "*/*" in resources:
        errors.append(FieldError(path, "Invalid", "if '*/*' is present, must not specify other resources", resources))
    if "*" in resources and any(text not in ("", "*") and "/" not in text for text in resources):
        fault = "if '*' is present, must not specify other resources without subresources"
        errors.append(FieldError(path, "Invalid", fault, resources))
    return errors


def _covered_by(pattern: str, earlier: list[str]) -> str:
    """Which of the patterns before it says all that `pattern` says, "" where none does."""
    resource, slash, subresource = pattern.partition("/")
    if not slash or pattern == "*/*":
        return ""
    return next((wide for wide in (f"{resource}/*", f"*/{subresource}") if wide in earlier), "")
