"""Label and field selectors of list, watch and deletecollection: parse once, then match objects.

Pure. The set of fields that may be selected is the API server's, per resource, and so are the words of a refusal;
`app.kube.selectors` is the product's own reader, which knows fewer fields and operators.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.devtools.sandbox.api.failures import StatusError, bad_request

if TYPE_CHECKING:
    from app.devtools.sandbox.kinds.builtin import ApiResource
    from app.wire import JSON

_REQUIREMENT = re.compile(
    r"""\s*(?:
        !\s*(?P<absent>[^\s,=!()<>]+)
      | (?P<set_key>[^\s,=!()<>]+)\s+(?P<set_op>in|notin)\s*\((?P<values>[^()]*)\)
      | (?P<key>[^\s,=!()<>]+)\s*(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s,=!()<>]*)
      | (?P<present>[^\s,=!()<>]+)
    )\s*(?:,|$)""",
    re.VERBOSE,
)
_LABEL_KEY = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?",
    re.ASCII,
)
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?)?", re.ASCII)
_LONGEST = 63
"""Characters of a label's value, and of its key behind the prefix."""
_COMMON_FIELDS = frozenset({"metadata.name", "metadata.namespace"})
_FIELDS: dict[tuple[str, str], frozenset[str]] = {
    ("", "pods"): frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    ("", "nodes"): frozenset({"spec.unschedulable"}),
    ("resource.k8s.io", "resourceslices"): frozenset({"spec.nodeName", "spec.driver"}),
    ("", "namespaces"): frozenset({"status.phase"}),
    ("", "secrets"): frozenset({"type"}),
    ("", "services"): frozenset({"spec.clusterIP", "spec.type"}),
    ("", "events"): frozenset(
        {
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        }
    ),
    ("batch", "jobs"): frozenset({"status.successful"}),
}


@dataclass(frozen=True, slots=True)
class _Term:
    key: str
    op: str
    values: frozenset[str]

    def holds(self, actual: str | None) -> bool:
        match self.op:
            case "in":
                return actual in self.values
            case "notin":  # an object without the label is selected, as by the API server
                return actual not in self.values
            case "exists":
                return actual is not None
            case "absent":
                return actual is None
        if actual is None or not actual.lstrip("-").isdigit():
            return False
        bound = int(next(iter(self.values)))
        return int(actual) > bound if self.op == ">" else int(actual) < bound


@dataclass(frozen=True, slots=True)
class Selection:
    """A conjunction of label and field requirements; the empty one matches everything."""

    labels: tuple[_Term, ...] = ()
    fields: tuple[_Term, ...] = ()

    @property
    def everything(self) -> bool:
        return not self.labels and not self.fields

    def matches(self, obj: JSON) -> bool:
        if self.labels:
            labels = obj["metadata"].get("labels") or {}
            if not all(term.holds(labels.get(term.key)) for term in self.labels):
                return False
        return all(term.holds(_field_value(obj, term.key)) for term in self.fields)


EVERYTHING = Selection()


def parse_selection(resource: ApiResource, *, label_selector: str, field_selector: str) -> Selection:
    """Raises StatusError 400 for syntax and for fields that the resource cannot be selected by."""
    if not label_selector and not field_selector:
        return EVERYTHING
    fields = tuple(_parse_fields(resource, field_selector)) if field_selector else ()
    return Selection(tuple(_parse_labels(label_selector)), fields)


def _parse_labels(text: str) -> list[_Term]:
    terms: list[_Term] = []
    position = 0
    text = text.strip()
    while position < len(text):
        found = _REQUIREMENT.match(text, position)
        if found is None:
            raise _refused(f"found {text[position : position + 40]!r}")
        position = found.end()
        terms.append(_label_term(found))
    for term in terms:
        _check_label(term)
    return terms


def _check_label(term: _Term) -> None:
    """An API server refuses what can be the label of no object."""
    key = f'<nil>: Invalid value: "{term.key}": name part must'
    if not _LABEL_KEY.fullmatch(term.key):
        raise _refused(f"{key} consist of alphanumeric characters, '-', '_' or '.'")
    if len(term.key.rpartition("/")[2]) > _LONGEST:
        raise _refused(f"{key} be no more than {_LONGEST} bytes")
    for index, value in enumerate(sorted(term.values)):
        field = f'values[{index}][{term.key}]: Invalid value: "{value}"'
        if len(value) > _LONGEST:
            raise _refused(f"{field}: must be no more than {_LONGEST} bytes")
        if not _LABEL_VALUE.fullmatch(value):
            raise _refused(f"{field}: a valid label must be an empty string or consist of alphanumeric characters")


def _refused(problem: str) -> StatusError:
    return bad_request(f"unable to parse requirement: {problem}")


def _label_term(found: re.Match[str]) -> _Term:
    if key := found["absent"]:
        return _Term(key, "absent", frozenset())
    if key := found["present"]:
        return _Term(key, "exists", frozenset())
    if key := found["set_key"]:
        return _Term(key, found["set_op"], frozenset(value.strip() for value in found["values"].split(",")))
    operator = {"=": "in", "==": "in", "!=": "notin"}.get(found["op"], found["op"])
    value = found["value"]
    if operator in "<>" and not value.lstrip("-").isdigit():
        raise _refused("for 'Gt', 'Lt' operators, the value must be an integer")
    return _Term(found["key"], operator, frozenset({value}))


def _parse_fields(resource: ApiResource, text: str) -> list[_Term]:
    allowed = _COMMON_FIELDS | _FIELDS.get(resource.key, frozenset()) | frozenset(resource.selectable)
    terms: list[_Term] = []
    for part in filter(None, text.split(",")):
        found = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", part)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        key, operator, value = found.groups()
        if key not in allowed:
            if resource.key == ("batch", "jobs"):
                raise bad_request(f'field label "{key}" not supported for Job')
            if resource.custom or resource.key in _FIELDS:
                raise bad_request(f"field label not supported: {key}")
            raise bad_request(f'"{key}" is not a known field selector: only "metadata.name", "metadata.namespace"')
        terms.append(_Term(key, "notin" if operator == "!=" else "in", frozenset({value})))
    return terms


def _field_value(obj: JSON, path: str) -> str:
    """An absent field selects like its zero value: "" or, for the booleans among them, `false`."""
    node: Any = obj
    for part in path.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    if path in ("spec.unschedulable", "spec.hostNetwork"):
        return "true" if node else "false"
    return "" if node is None else str(node)
