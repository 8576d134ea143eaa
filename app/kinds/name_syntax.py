"""Syntax of names, labels, annotations and label selectors in the API server's words. Pure: text in, field errors out.

The product has rules of its own for names (`app.kube.names`), which explain themselves to people and stop at the first
fault; here is every fault, as clients of an API server know it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from app.kinds.fielderrors import MOST_FAULTS, Field, FieldError, invalid
from app.pace import step
from app.wire import JSON

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "[-._a-zA-Z0-9]+"
_KEY_FORM = re.compile(_KEY, re.ASCII)
_QUALIFIED_FORM = re.compile(_QUALIFIED, re.ASCII)
_PORT_LETTERS = re.compile("[-a-z0-9]+")
PORT_TEXT = "must be between 1 and 65535, inclusive"
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
_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    f"regex used for validation is '\\*\\.{_SUBDOMAIN}')"
)
_CASELESS_TEXT = (
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an "
    f"alphanumeric character (e.g. 'Example.com', regex used for validation is '{_SUBDOMAIN}')"
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
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    f"or 'key-name', regex used for validation is '{_KEY}')"
)


def check_element_name(element: Field, seen: set[str]) -> None:
    """The name of a list's element: it is there, a DNS label, and in no earlier element of `seen`."""
    if element.named("name", label_faults):
        element.unique("name", element.text("name"), seen)


def descending_path_faults(path: str) -> list[str]:
    """What is wrong with a path below a directory: it is relative, and does not lead out of it."""
    faults = ["must be a relative path"] if path.startswith("/") else []
    return [*faults, "must not contain '..'"] if ".." in path.split("/") else faults


def inner_path_faults(file: str) -> list[str]:
    """As `descending_path_faults`, for a file that a volume writes: names with two dots in front are its own."""
    faults = descending_path_faults(file)
    reserved = file.startswith("..") and not file.startswith("../")
    return [*faults, "must not start with '..'"] if reserved else faults


def too_long(limit: int, unit: str = "bytes") -> str:
    return f"must be no more than {limit} {unit}"


def _form(pattern: str, limit: int, text: str, unit: str = "characters") -> Callable[[str], list[str]]:
    """What is wrong with a value of this form and length, which is in bytes, whatever unit the server says."""
    form = re.compile(pattern, re.ASCII)

    def faults(value: str) -> list[str]:
        faults = [too_long(limit, unit)] if len(value.encode()) > limit else []
        return faults if form.fullmatch(value) else [*faults, text]

    return faults


label_faults = _form(_LABEL, 63, _LABEL_TEXT)
dns1035_faults = _form(_1035, 63, _1035_TEXT)
"""The older kind of DNS label, which begins with a letter."""
subdomain_faults = _form(_SUBDOMAIN, 253, _SUBDOMAIN_TEXT)
declared_label_faults = _form(_LABEL, 63, _LABEL_TEXT, "bytes")
declared_subdomain_faults = _form(_SUBDOMAIN, 253, _SUBDOMAIN_TEXT, "bytes")
"""The same where the server has the rule as a declaration, and for the prefix of a label: other words."""
caseless_subdomain_faults = _form(f"(?i:{_SUBDOMAIN})", 253, _CASELESS_TEXT, "bytes")
label_value_faults = _form(f"({_QUALIFIED})?", 63, _VALUE_TEXT, "bytes")


wildcard_faults = _form(rf"\*\.{_SUBDOMAIN}", 253, _WILDCARD_TEXT)
"""A subdomain whose first label may be any."""


def path_segment_faults(value: str) -> list[str]:
    """What is wrong with a name that only has to fit into a path (RBAC objects)."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{mark}'" for mark in "/%" if mark in value]


def port_name_faults(name: str) -> list[str]:
    """What is wrong with the name of a port."""
    faults = ["must be no more than 15 characters"] if len(name.encode()) > 15 else []
    if not _PORT_LETTERS.fullmatch(name):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        faults.append("must contain at least one letter (a-z)")
    if "--" in name:
        faults.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        faults.append("must not begin or end with a hyphen")
    return faults


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
        texts = declared_subdomain_faults(prefix) if prefix else ["must be non-empty"]
        faults += [f"prefix part {text}" for text in texts]
    if not name:
        return [*faults, "name part must be non-empty", _QUALIFIED_TEXT]
    if len(name.encode()) > 63:
        faults.append(f"name part {too_long(63)}")
    return faults if _QUALIFIED_FORM.fullmatch(name) else [*faults, _QUALIFIED_TEXT]


def key_faults(key: str) -> list[str]:
    """What is wrong with a key of a Secret or ConfigMap."""
    faults = ["must be no more than 253 characters"] if len(key) > 253 else []
    if not _KEY_FORM.fullmatch(key):
        faults.append(_KEY_TEXT)
    if key in (".", ".."):
        faults.append(f"must not be '{key}'")
    elif key.startswith(".."):
        faults.append("must not start with '..'")
    return faults


def check_labels(labels: Any, path: str) -> list[FieldError]:
    """Keys and values of a label map; the key is what a faulty value is reported under, as the server does."""
    errors: list[FieldError] = []
    for key, value in (labels or {}).items():
        step()
        errors += invalid(path, key, qualified_faults(key)) + invalid(path, value, label_value_faults(value))
        if len(errors) >= MOST_FAULTS:
            break  # the rest would be the same work for nothing
    return errors


def check_label_selector(selector: JSON, path: str) -> list[FieldError]:
    """A LabelSelector object: its labels, and operators that have the values they need."""
    field = Field(selector, path, check_labels(selector.get("matchLabels"), f"{path}.matchLabels"))
    for expression in field.each("matchExpressions"):
        check_operator(expression)
        expression.texts("values", label_value_faults)
    return field.errors


def check_operator(expression: Field, *, numbers: bool = False) -> None:
    """The operator and the key of one expression, and whether it has values; `numbers` are for nodes alone."""
    operator, values = expression.text("operator"), expression.value.get("values") or []
    if operator in ("In", "NotIn"):
        expression.required("values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            expression.fault("values", "Forbidden", text)
    elif not numbers or operator not in ("Gt", "Lt"):
        expression.fault("operator", "Invalid", "not a valid selector operator", operator)
    elif len(values) != 1:
        text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        expression.fault("values", "Required", text)
    expression.syntax("key", qualified_faults)


def check_metadata(metadata: JSON, *, namespaced: bool, name_rule: str, free_finalizers: bool) -> list[FieldError]:
    """ObjectMeta of any kind; `name_rule` is `subdomain`, `label` or `path`.

    `free_finalizers` are names without a path, which only some groups take.
    """
    meta = Field(metadata, "metadata")
    rule = {"subdomain": subdomain_faults, "label": label_faults, "path": path_segment_faults}[name_rule]
    meta.syntax("generateName", lambda prefix: rule(prefix.rstrip("-.") or "-"), optional=True)
    meta.named("name", rule, "name or generateName is required")
    if not namespaced and metadata.get("namespace"):
        meta.fault("namespace", "Forbidden", "not allowed on this type")
    meta.errors += check_labels(metadata.get("labels"), "metadata.labels")
    meta.errors += check_annotations(metadata.get("annotations") or {})
    _check_owners(meta)
    for entry in meta.each("managedFields"):
        if len(entry.text("manager").encode()) > _MANAGER_LIMIT:
            entry.fault("manager", "TooLong", f"may not be more than {_MANAGER_LIMIT} bytes")
    for here, finalizer in meta.entries("finalizers"):
        meta.errors += invalid("metadata.finalizers", finalizer, qualified_faults(finalizer))
        if not free_finalizers and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            meta.fault(here, "Invalid", text, finalizer)
    return meta.errors


def check_annotations(annotations: JSON, path: str = "metadata.annotations") -> list[FieldError]:
    errors = [fault for key in annotations for fault in invalid(path, key, qualified_faults(key.lower()))]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > ANNOTATIONS_LIMIT:
        errors.append(FieldError(path, "TooLong", f"may not be more than {ANNOTATIONS_LIMIT} bytes"))
    return errors


def _check_owners(meta: Field) -> None:
    owners = meta.value.get("ownerReferences") or []
    for owner in owners:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                text = "version must not be empty" if field == "apiVersion" else "must not be empty"
                meta.fault(f"ownerReferences.{field}", "Invalid", text, "")
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        meta.fault("ownerReferences", "Invalid", "Only one reference can have Controller set to true")
