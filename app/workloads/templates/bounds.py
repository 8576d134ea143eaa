"""What a tenant's manifest may not say about itself, and how much its Pod may give the scheduler to look at. Pure.

Of marks: arbitrary JSON in, one line for each finding, beginning with the field's path. Refused are Berth's and the
kubelet's marks, owners, and foreign identities. What a Pod may not ask of the host is in `guards`.

Of terms: one scheduler schedules the Pods of all tenants, one after another. Terms that select Pods cost more than
their own Pod's turn: while the Pod runs, the scheduler goes through them for every other Pod, and while it waits for
a node, for each Pod that comes or goes (queueing hints, KEP-4247). What Berth and the API server add to a Pod never
takes it beyond a bound that it kept before: the placement adds conditions to the terms of required node affinity, the
API server merges `matchLabelKeys` into selectors, and controllers and admission plugins add tolerations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.errors import Denied
from app.kube.names import domain_above
from app.networks.interfaces import chosen_by
from app.pace import step
from app.placement.plan import TERMS_FIELD
from app.text import cut
from app.wire import JSON, encode_json
from app.workloads.model import RESERVED_DOMAINS, USER_MARKS

_STATIC_POD = re.compile(r"kubernetes\.io/config\.(?:mirror|source|hash|seen)", re.ASCII | re.IGNORECASE)
# The forms in which profiles were written before they became fields, with the values that leave a profile.
_PROFILES = {
    "container.apparmor.security.beta.kubernetes.io/": ("", "runtime/default"),
    "container.seccomp.security.alpha.kubernetes.io/": ("runtime/default", "docker/default"),
    "seccomp.security.alpha.kubernetes.io/": ("runtime/default", "docker/default"),
}
_TOKENS = {
    "kubernetes.io/service-account-token": "the token of a service account",
    "bootstrap.kubernetes.io/token": "a token that lets nodes join the cluster",
}
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
MOST_CONDITIONS: Final = 32
"""Match expressions, match fields and match labels of one term, together."""
MOST_VALUES: Final = 256
"""Values of one match expression or match field."""
MOST_SELECTING: Final = 64
"""Match expressions, their values, and labels of all selectors of Pods in one Pod, together."""
_EVERY_POD = "which the scheduler goes through for every other Pod too"
_OWN_POD = "through which the scheduler goes while other Pods wait"
_KEYS = ("matchLabelKeys", "mismatchLabelKeys")


def is_reserved(key: str) -> bool:
    """Whether only Berth may write this label or annotation: below a reserved domain, but what users ask Berth by."""
    return key not in USER_MARKS and domain_above(key, RESERVED_DOMAINS) is not None


def reserved_marks(metadata: Any, path: str) -> Iterator[str]:
    """Labels and annotations that only Berth may write; the admin's templates may not have them either."""
    for field in ("labels", "annotations"):
        for key in _keys(member(metadata, field)):
            step()
            if is_reserved(key):
                yield f"{path}.{field}[{cut(key)}]: the domain is reserved for Berth; use another one"


def foreign_metadata(metadata: Any, path: str) -> Iterator[str]:
    """All that a tenant may not write in the metadata of an object, or of a template of Pods."""
    yield from reserved_marks(metadata, path)
    for field in ("labels", "annotations"):
        for key in _keys(member(metadata, field)):
            step()
            if _STATIC_POD.fullmatch(key):
                yield f"{path}.{field}[{key}]: the kubelet marks its own Pods with it; leave it out"
    for field in ("ownerReferences", "finalizers"):
        if member(metadata, field):
            yield f"{path}.{field}: not allowed in a tenant's manifest; leave it out"
    annotations, where = member(metadata, "annotations"), f"{path}.annotations"
    for key in _keys(annotations):
        step()
        value = str(annotations[key])
        for prefix, fine in _PROFILES.items():
            if key.startswith(prefix) and value not in fine and not value.startswith("localhost/"):
                yield f"{where}[{cut(key)}]: {shown(value)} takes the container's profile away; use runtime/default"


def token_secret(secret: Any, path: str) -> Iterator[str]:
    """A Secret that would be an identity in the infra cluster."""
    kind = member(secret, "type")
    if isinstance(kind, str) and kind in _TOKENS:
        yield f"{path}.type: {shown(kind)} is {_TOKENS[kind]}, which a tenant may not have; use another type"


def network_warnings(metadata: Any, path: str) -> Iterator[str]:
    """What Multus, and Berth in the infra cluster, would say of the networks of the Pods."""
    annotations = {key: text for key, text in (member(metadata, "annotations") or {}).items() if isinstance(text, str)}
    try:
        yield from (f"{path}: {line}" for line in chosen_by(annotations, "").ignored)
    except Denied as denial:
        yield f"{path}: {denial}: such Pods are denied where Berth injects networks, and Multus refuses them"


def member(value: Any, field: str) -> Any:
    """A field of what should be an object; None where it is none."""
    return value.get(field) if isinstance(value, dict) else None


def at(value: Any, path: str) -> Any:
    """What stands at a path of fields below an object, the object itself for an empty one; None where nothing does."""
    for field in path.split(".") if path else ():
        if not isinstance(value, dict):
            return None
        value = value.get(field)
    return value


def each(holder: Any, field: str, path: str) -> Iterator[tuple[str, JSON]]:
    """The objects in the list at a path of fields, each with its path; other entries are for the check of shapes."""
    items = at(holder, field)
    for index, item in enumerate(items if isinstance(items, list) else []):
        step()
        if isinstance(item, dict):
            yield f"{path}.{field}[{index}]", item


def shown(value: object) -> str:
    """A value of a manifest as JSON, cut where it is long."""
    return cut(encode_json(value).decode())


@dataclass(frozen=True, slots=True)
class Bound:
    """How many items a list may have; `term` is where in an item its conditions stand.

    `selects`: these are selectors of Pods. In a Pod that the API server has taken there may be `added` more items, and
    in each item `conditions_added` more conditions.
    """

    most: int
    unit: str
    cost: str
    term: str = ""
    selects: bool = False
    added: int = 0
    conditions_added: int = 0


_REQUIRED_TERMS = Bound(16, "terms", _EVERY_POD, selects=True)
_PREFERRED_TERMS = Bound(16, "terms", _EVERY_POD, selects=True, term="podAffinityTerm")
BOUNDS: Final[Mapping[str, Bound]] = {
    f"affinity.podAffinity.{REQUIRED}": _REQUIRED_TERMS,
    f"affinity.podAffinity.{PREFERRED}": _PREFERRED_TERMS,
    f"affinity.podAntiAffinity.{REQUIRED}": _REQUIRED_TERMS,
    f"affinity.podAntiAffinity.{PREFERRED}": _PREFERRED_TERMS,
    # The placement adds the host and the tenant. It adds a term where there is none.
    TERMS_FIELD: Bound(16, "terms", _OWN_POD, conditions_added=2),
    f"affinity.nodeAffinity.{PREFERRED}": Bound(16, "terms", _OWN_POD, term="preference"),
    "topologySpreadConstraints": Bound(16, "constraints", _OWN_POD, selects=True),
    # The controller of DaemonSets adds up to seven, admission plugins three and one for each extended resource.
    "tolerations": Bound(64, "tolerations", _OWN_POD, added=16),
}
"""By the path of the list in the spec of a Pod."""
_SELECTING: Final = [field for field, bound in BOUNDS.items() if bound.selects]


def weight_of(spec: Any) -> int:
    """What a Pod counts for among those without a node: 1, and 4 more for each term that selects Pods."""
    return 1 + 4 * sum(_length(spec, field) for field in _SELECTING)


def crowded(spec: Any, path: str, *, admitted: bool) -> Iterator[str]:
    """One line for each list with more than a tenant's Pod may have in it. What is in such a list is not looked at."""
    selecting = 0
    for field, bound in BOUNDS.items():
        most = bound.most + (bound.added if admitted else 0)
        if (length := _length(spec, field)) > most:
            yield _line(f"{path}.{field}", f"{length} {bound.unit}, {bound.cost}", most)
            continue
        conditions = MOST_CONDITIONS + (bound.conditions_added if admitted else 0)
        for here, item in each(spec, field, path):
            term, where = at(item, bound.term), f"{here}.{bound.term}" if bound.term else here
            yield from _conditions(term, where, conditions, bound.cost)
            selecting += _selecting(term) if bound.selects else 0
    if selecting > MOST_SELECTING:
        what = f"{selecting} match expressions, values and labels select Pods in affinity and topologySpreadConstraints"
        yield _line(path, f"{what}, through which the scheduler goes for each Pod that comes or goes", MOST_SELECTING)


def _keys(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def _conditions(term: Any, path: str, most: int, cost: str) -> Iterator[str]:
    count = _length(term, "labelSelector.matchLabels") + _unmerged(term)
    for field in ("matchExpressions", "matchFields", "labelSelector.matchExpressions"):
        count += _length(term, field)
        for here, expression in each(term, field, path):
            if (length := _length(expression, "values")) > MOST_VALUES:
                yield _line(f"{here}.values", f"{length} values, {cost}", MOST_VALUES)
    if count > most:
        yield _line(path, f"{count} match expressions, fields and labels, {cost}", most)


def _selecting(term: Any) -> int:
    """What one selector of Pods counts for; the API server merges a label key as an expression with one value."""
    expressions = [expression for _, expression in each(term, "labelSelector.matchExpressions", "")]
    values = sum(_length(expression, "values") for expression in expressions)
    return _length(term, "labelSelector.matchLabels") + len(expressions) + values + 2 * _unmerged(term)


def _unmerged(term: Any) -> int:
    """How many label keys the API server will merge into the selector; it has an expression for each that it has."""
    lists = [labels for field in _KEYS if isinstance(labels := member(term, field), list)]
    keys = {key for names in lists for key in names if isinstance(key, str)}
    merged = {str(expression.get("key")) for _, expression in each(term, "labelSelector.matchExpressions", "")}
    return sum(map(len, lists)) - len(keys & merged)


def _length(holder: Any, field: str) -> int:
    members = at(holder, field)
    return len(members) if isinstance(members, (list, dict)) else 0


def _line(path: str, what: str, most: int) -> str:
    return f"{path}: {what}; a tenant's Pod has at most {most}"
