"""Syntax of names, labels, annotations and label selectors in the API server's words. Pure: text in, field errors out.

The product has rules of its own for names (`app.kube.names`), which explain themselves to people and stop at the first
fault; here is every fault, as clients of an API server know it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from app.kinds.fielderrors import FieldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from app.wire import JSON

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED_FORM = re.compile(_QUALIFIED, re.ASCII)
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
ANNOTATIONS_LIMIT = 256 * 1024
_MANAGER_LIMIT = 128

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'({_QUALIFIED})?')"
)


_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    f"and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{_1035}')"
)


def supported(path: str, value: Any, values: Iterable[str]) -> list[FieldError]:
    """An enumeration; the values are named in the order in which the server prints them."""
    if value in values:
        return []
    text = "supported values: " + ", ".join(f'"{known}"' for known in values)
    return [FieldError(path, "NotSupported", text, value)]


def invalid(path: str, value: object, texts: Iterable[str]) -> list[FieldError]:
    """A fault of one field for each text."""
    return [FieldError(path, "Invalid", text, value) for text in texts]


def check_element_name(path: str, name: str, seen: set[str]) -> list[FieldError]:
    """The name of a list's element: it is there, a DNS label, and in no earlier element of `seen`."""
    errors = invalid(path, name, label_faults(name)) if name else [FieldError(path, "Required")]
    if name and name in seen:
        errors.append(FieldError(path, "Duplicate", "", name))
    seen.add(name)
    return errors


def check_inner_path(file: str, path: str) -> list[FieldError]:
    """A path inside of a volume: relative, and not out of it."""
    if file.startswith("/"):
        return [FieldError(path, "Invalid", "must be a relative path", file)]
    if ".." in file.split("/"):
        return [FieldError(path, "Invalid", "must not contain '..'", file)]
    return []


def too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _form(pattern: str, limit: int, text: str) -> Callable[[str], list[str]]:
    """What is wrong with a value of this form and length."""
    form = re.compile(pattern, re.ASCII)

    def faults(value: str) -> list[str]:
        found = [too_long(limit)] if len(value.encode()) > limit else []
        return found if form.fullmatch(value) else [*found, text]

    return faults


label_faults = _form(_LABEL, 63, _LABEL_TEXT)
dns1035_faults = _form(_1035, 63, _1035_TEXT)
"""The older kind of DNS label, which begins with a letter."""
subdomain_faults = _form(_SUBDOMAIN, 253, _SUBDOMAIN_TEXT)
label_value_faults = _form(f"({_QUALIFIED})?", 63, _VALUE_TEXT)


def path_segment_faults(value: str) -> list[str]:
    """What is wrong with a name that only has to fit into a path (RBAC objects)."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{mark}'" for mark in "/%" if mark in value]


def qualified_faults(value: str) -> list[str]:
    """What is wrong with a label key or a resource name: an optional subdomain, a slash, a name."""
    prefix, slash, name = value.rpartition("/")
    faults: list[str] = []
    if slash:
        if value.count("/") > 1:
            text = _QUALIFIED_TEXT.removeprefix("name part ")
            return [
                f"a valid label key {text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ]
        texts = subdomain_faults(prefix) if prefix else ["must be non-empty"]
        faults += [f"prefix part {text}" for text in texts]
    if not name:
        return [*faults, "name part must be non-empty", _QUALIFIED_TEXT]
    if len(name.encode()) > 63:
        faults.append(f"name part {too_long(63)}")
    return faults if _QUALIFIED_FORM.fullmatch(name) else [*faults, _QUALIFIED_TEXT]


def check_labels(labels: Any, path: str) -> list[FieldError]:
    """Keys and values of a label map; the key is what a faulty value is reported under, as the server does."""
    errors: list[FieldError] = []
    for key, value in (labels or {}).items():
        errors += invalid(path, key, qualified_faults(key)) + invalid(path, value, label_value_faults(value))
    return errors


def check_label_selector(selector: JSON, path: str) -> list[FieldError]:
    """A LabelSelector object: its labels, and operators that have the values they need."""
    errors = check_labels(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or []):
        here = f"{path}.matchExpressions[{index}]"
        errors += check_operator(expression, here)
        errors += check_values(expression, here, label_value_faults)
    return errors


def check_operator(expression: JSON, path: str, *, numbers: bool = False) -> list[FieldError]:
    """The operator and the key of one expression, and whether it has values; `numbers` are for nodes alone."""
    operator, values, key = (
        expression.get("operator") or "",
        expression.get("values") or [],
        expression.get("key") or "",
    )
    errors: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(FieldError(f"{path}.values", "Required", text))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(FieldError(f"{path}.values", "Forbidden", text))
    elif not numbers or operator not in ("Gt", "Lt"):
        errors.append(FieldError(f"{path}.operator", "Invalid", "not a valid selector operator", operator))
    elif len(values) != 1:
        text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        errors.append(FieldError(f"{path}.values", "Required", text))
    return errors + invalid(f"{path}.key", key, qualified_faults(key))


def check_values(expression: JSON, path: str, faults: Callable[[str], list[str]]) -> list[FieldError]:
    return [
        fault
        for at, value in enumerate(expression.get("values") or [])
        for fault in invalid(f"{path}.values[{at}]", value, faults(value))
    ]


def check_metadata(metadata: JSON, *, namespaced: bool, name_rule: str, free_finalizers: bool) -> list[FieldError]:
    """ObjectMeta of any kind; `name_rule` is `subdomain`, `label` or `path`.

    `free_finalizers` are names without a path, which only some groups take.
    """
    errors: list[FieldError] = []
    rule = {"subdomain": subdomain_faults, "label": label_faults, "path": path_segment_faults}[name_rule]
    name = metadata.get("name") or ""
    prefix = metadata.get("generateName") or ""
    if prefix:
        errors += invalid("metadata.generateName", prefix, rule(prefix.rstrip("-.") or "-"))
    if not name:
        errors.append(FieldError("metadata.name", "Required", "name or generateName is required"))
    else:
        errors += invalid("metadata.name", name, rule(name))
    if not namespaced and metadata.get("namespace"):
        errors.append(FieldError("metadata.namespace", "Forbidden", "not allowed on this type"))
    errors += check_labels(metadata.get("labels"), "metadata.labels")
    errors += check_annotations(metadata.get("annotations") or {})
    errors += _check_owners(metadata.get("ownerReferences") or [])
    for index, entry in enumerate(metadata.get("managedFields") or []):
        if len((entry.get("manager") or "").encode()) > _MANAGER_LIMIT:
            text = f"may not be more than {_MANAGER_LIMIT} bytes"
            errors.append(FieldError(f"metadata.managedFields[{index}].manager", "TooLong", text))
    for index, finalizer in enumerate(metadata.get("finalizers") or []):
        errors += invalid("metadata.finalizers", finalizer, qualified_faults(finalizer))
        if not free_finalizers and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(FieldError(f"metadata.finalizers[{index}]", "Invalid", text, finalizer))
    return errors


def check_annotations(annotations: JSON) -> list[FieldError]:
    errors: list[FieldError] = []
    size = 0
    for key, value in annotations.items():
        errors += invalid("metadata.annotations", key, qualified_faults(key.lower()))
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_LIMIT:
        errors.append(
            FieldError("metadata.annotations", "TooLong", f"may not be more than {ANNOTATIONS_LIMIT} bytes", "")
        )
    return errors


def _check_owners(owners: list[JSON]) -> list[FieldError]:
    errors: list[FieldError] = []
    controllers = 0
    for owner in owners:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                text = "version must not be empty" if field == "apiVersion" else "must not be empty"
                errors.append(FieldError(f"metadata.ownerReferences.{field}", "Invalid", text, owner.get(field) or ""))
        controllers += bool(owner.get("controller"))
    if controllers > 1:
        text = "Only one reference can have Controller set to true"
        errors.append(FieldError("metadata.ownerReferences", "Invalid", text, owners))
    return errors
