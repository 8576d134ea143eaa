"""Checks a pending Pod against running Pods: required Pod affinity and anti-affinity, and hard spreading. Pure.

Anti-affinity holds in both directions, as in the scheduler: a running Pod's term keeps off the Pods that it selects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from app.kube.selectors import LabelSelector, Requirement, label_selector_from_json
from app.wire import JSON

EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
AFFINITY = "node(s) didn't match pod affinity rules"
SPREADING = "node(s) didn't match pod topology spread constraints"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_Domain = tuple[str, str]
"""A topology key with its value: the nodes that share it."""


class Neighbors:
    """What keeps `pod` off nodes, given the Pods that are bound to `nodes`, and the labels of namespaces by name.

    `eligible` says which nodes the Pod's own node affinity allows: spreading counts Pods on these alone.
    """

    def __init__(
        self,
        pod: JSON,
        nodes: Sequence[JSON],
        pods: Iterable[JSON],
        namespaces: Mapping[str, JSON],
        eligible: Callable[[JSON], bool],
    ) -> None:
        self._pod = pod
        self._nodes = nodes
        self._namespaces = namespaces
        labels = {node["metadata"]["name"]: _labels(node) for node in nodes}
        self._bound = [(other, labels[name]) for other in pods if (name := other["spec"].get("nodeName")) in labels]
        self._kept_off = {
            domain
            for other, around in self._bound
            for term in _terms(other, "podAntiAffinity")
            if self._selects(term, other, pod) and (domain := _domain(term, around))
        }
        self._avoided = self._domains_of(_terms(pod, "podAntiAffinity"))
        self._sought = [(term, self._domains_of(iter([term]))) for term in _terms(pod, "podAffinity")]
        self._spreading = [self._spread(one, eligible) for one in _hard_constraints(pod)]

    def refusal(self, node: JSON) -> str | None:
        """Why the Pod cannot run on the node because of other Pods; None where it can."""
        labels = _labels(node)
        if any(not fits(labels) for fits in self._spreading):
            return SPREADING
        if any(not self._attracted(term, domains, labels) for term, domains in self._sought):
            return AFFINITY
        here = set(labels.items())
        if here & self._avoided:
            return ANTI_AFFINITY
        return EXISTING_ANTI_AFFINITY if here & self._kept_off else None

    def _domains_of(self, terms: Iterator[JSON]) -> set[_Domain]:
        """Where Pods run that one of the terms selects."""
        return {
            domain
            for term in terms
            for other, around in self._bound
            if self._selects(term, self._pod, other) and (domain := _domain(term, around))
        }

    def _attracted(self, term: JSON, domains: set[_Domain], labels: JSON) -> bool:
        if not domains:
            # The first Pod of a group that looks for its own kind.
            return term["topologyKey"] in labels and self._selects(term, self._pod, self._pod)
        return bool(domains & set(labels.items()))

    def _selects(self, term: JSON, owner: JSON, other: JSON) -> bool:
        """Whether a term of `owner` selects `other`."""
        namespace = other["metadata"].get("namespace")
        names, among = term.get("namespaces") or [], term.get("namespaceSelector")
        if among is not None:
            labels = self._namespaces.get(namespace, {})
            inside = namespace in names or label_selector_from_json(among).matches(labels)
        else:
            inside = namespace in (names or [owner["metadata"].get("namespace")])
        return inside and _selector(term, owner).matches(_labels(other))

    def _spread(self, constraint: JSON, eligible: Callable[[JSON], bool]) -> Callable[[JSON], bool]:
        """Whether a node with these labels keeps the skew of one constraint."""
        key, selector = constraint["topologyKey"], _selector(constraint, self._pod)
        ignore = constraint.get("nodeAffinityPolicy") == "Ignore"
        domains = {_labels(node)[key] for node in self._nodes if key in _labels(node) and (ignore or eligible(node))}
        counts: Counter[str] = Counter()
        for other, around in self._bound:
            same = other["metadata"].get("namespace") == self._pod["metadata"].get("namespace")
            if same and around.get(key) in domains and selector.matches(_labels(other)):
                counts[around[key]] += 1
        least = min((counts[domain] for domain in domains), default=0)
        own = int(selector.matches(_labels(self._pod)))
        return lambda labels: key in labels and counts[labels[key]] + own - least <= constraint["maxSkew"]


def _terms(pod: JSON, kind: str) -> Iterator[JSON]:
    affinity: JSON = (pod["spec"].get("affinity") or {}).get(kind) or {}
    yield from affinity.get(_REQUIRED) or ()


def _hard_constraints(pod: JSON) -> list[JSON]:
    constraints = pod["spec"].get("topologySpreadConstraints") or []
    return [one for one in constraints if one.get("whenUnsatisfiable") == "DoNotSchedule"]


def _selector(holder: JSON, owner: JSON) -> LabelSelector:
    """A label selector with what `matchLabelKeys` and `mismatchLabelKeys` take from the labels of the Pod itself."""
    found = label_selector_from_json(holder.get("labelSelector"))
    own = _labels(owner)
    same = [Requirement(key, "In", frozenset({own[key]})) for key in holder.get("matchLabelKeys") or () if key in own]
    other = [
        Requirement(key, "NotIn", frozenset({own[key]})) for key in holder.get("mismatchLabelKeys") or () if key in own
    ]
    return LabelSelector((*found.requirements, *same, *other), found.nothing)


def _domain(term: JSON, labels: JSON) -> _Domain | None:
    key = term["topologyKey"]
    return (key, labels[key]) if key in labels else None


def _labels(obj: JSON) -> JSON:
    labels: JSON = obj["metadata"].get("labels") or {}
    return labels
