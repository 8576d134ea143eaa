"""Where a Pod may run: a pure choice among nodes, and the scheduler's words where there is none.

Honors unschedulable nodes, spec.nodeName, NoSchedule and NoExecute taints, nodeSelector, required node affinity, free
capacity of every requested resource, what other Pods mean (`neighbors`), and devices of claims (`Devices`). Preferences
are not modeled; of the nodes that fit, one whose own capacity serves the Pod comes first, then the one with the fewest
Pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from app.devtools.sandbox.standins.neighbors import Neighbors
from app.kinds.requests import Amounts, added, amounts_of, pod_requests
from app.wire import JSON

UNSCHEDULABLE = "node(s) were unschedulable"
OTHER_NAME = "node(s) didn't match the requested node name"
TAINTED = "node(s) had untolerated taint(s)"
NO_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
_NOT_READY: JSON = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_CORDONED: JSON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Placement:
    """`node` is the chosen node's name, or "" with the reason in `message`."""

    node: str
    message: str = ""


class Devices(Protocol):
    """The devices that the Pod gets by claims."""

    def needed(self) -> bool: ...

    def served(self, node: JSON) -> Collection[str]:
        """The resources that devices serve on this node, so that its capacity need not."""
        ...

    def refusal(self, node: JSON) -> str | None:
        """Why the node does not have them."""
        ...


class _NoDevices:
    def needed(self) -> bool:
        return False

    def served(self, _node: JSON) -> Collection[str]:
        return ()

    def refusal(self, _node: JSON) -> str | None:
        return None


NO_DEVICES: Devices = _NoDevices()


def place(
    pod: JSON,
    nodes: Sequence[JSON],
    pods: Sequence[JSON],
    namespaces: Mapping[str, JSON] | None = None,
    devices: Devices = NO_DEVICES,
) -> Placement:
    """The node for `pod`, given all nodes and the Pods that are bound to them (finished ones do not count).

    `namespaces` has the labels of namespaces by name.
    """
    if not nodes:
        return Placement("", "no nodes available to schedule pods")
    pods = [other for other in pods if not _is_over(other)]
    used, counts = _usage(pods)
    neighbors = Neighbors(pod, nodes, pods, namespaces or {}, lambda node: matches_node(pod["spec"], node))
    wanted = pod_requests(pod)
    reasons: Counter[str] = Counter()
    hopeless = 0
    fitting: list[tuple[bool, int, str]] = []
    for node in nodes:
        name = node["metadata"]["name"]
        found = _refusal(pod, node)
        if found is None:
            served = devices.served(node)
            counted = {resource: amount for resource, amount in wanted.items() if resource not in served}
            lacking = _lacking(counted, node, used.get(name, {}), counts[name])
            if not lacking and (kept_off := neighbors.refusal(node)):
                lacking = [kept_off]
            if not lacking and (kept_off := devices.refusal(node)):
                lacking = [kept_off]
                hopeless += 1
            if not lacking:
                fitting.append((bool(served), counts[name], name))
            reasons.update(lacking)
        else:
            reasons[found] += 1
            hopeless += 1
    if fitting:
        return Placement(min(fitting)[-1])
    return Placement("", _explain(len(nodes), reasons, hopeless, claims=devices.needed()))


def no_node(total: int, reason: str) -> str:
    """The message about a Pod that no node can run, whatever the node."""
    available = f"0/{total} nodes are available: "
    helpless = f"{total} Preemption is not helpful for scheduling"
    return f"{available}{reason}. no new claims to deallocate, preemption: {available}{helpless}."


def _explain(total: int, reasons: Counter[str], hopeless: int, *, claims: bool) -> str:
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    deallocation = "still not schedulable" if claims else "no new claims to deallocate"
    tail = []
    if total - hopeless:
        tail.append(f"{total - hopeless} No preemption victims found for incoming pod")
    if hopeless:
        tail.append(f"{hopeless} Preemption is not helpful for scheduling")
    available = f"0/{total} nodes are available: "
    return f"{available}{listed}. {deallocation}, preemption: {available}{', '.join(tail)}."


def _refusal(pod: JSON, node: JSON) -> str | None:
    """Why the node is out of the question for the Pod, whatever else runs there."""
    spec: JSON = pod.get("spec") or {}
    node_spec: JSON = node.get("spec") or {}
    tolerations: list[JSON] = spec.get("tolerations") or []
    if node_spec.get("unschedulable") and not is_tolerated(_CORDONED, tolerations):
        return UNSCHEDULABLE
    if spec.get("nodeName") and spec["nodeName"] != node["metadata"]["name"]:
        return OTHER_NAME
    taints = [*(node_spec.get("taints") or []), *([] if _is_ready(node) else [_NOT_READY])]
    hard = [taint for taint in taints if taint.get("effect") in ("NoSchedule", "NoExecute")]
    if any(not is_tolerated(taint, tolerations) for taint in hard):
        return TAINTED
    return None if matches_node(spec, node) else NO_AFFINITY


def _is_ready(node: JSON) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def is_tolerated(taint: JSON, tolerations: Iterable[JSON]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: JSON, taint: JSON) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint.get("key")):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def matches_node(spec: JSON, node: JSON) -> bool:
    """Whether the Pod spec's nodeSelector and required node affinity allow the node."""
    metadata: JSON = node.get("metadata") or {}
    labels: dict[str, str] = metadata.get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity: JSON = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or matches_selector(required, node)


def matches_selector(selector: JSON, node: JSON) -> bool:
    """Whether a node selector allows the node: one of its terms does."""
    metadata: JSON = node.get("metadata") or {}
    labels, fields = metadata.get("labels") or {}, {"metadata.name": metadata.get("name", "")}
    return any(_term_holds(term, labels, fields) for term in selector.get("nodeSelectorTerms") or [])


def _term_holds(term: JSON, labels: dict[str, str], fields: dict[str, str]) -> bool:
    expressions, on_fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not on_fields:
        # An empty term selects no node at all.
        return False
    return all(_expression_holds(e, labels) for e in expressions) and all(
        _expression_holds(e, fields) for e in on_fields
    )


def _expression_holds(term: JSON, labels: Mapping[str, str]) -> bool:
    """One `key operator values` of node affinity: the operators of label selectors, and Gt and Lt on integers."""
    key, operator, values = term.get("key", ""), term.get("operator"), term.get("values") or []
    value = labels.get(key)
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator in ("Gt", "Lt") and value is not None and len(values) == 1:
        try:
            left, right = int(value), int(values[0])
        except ValueError:
            return False
        return left > right if operator == "Gt" else left < right
    return False


def _lacking(wanted: Amounts, node: JSON, used: Amounts, count: int) -> list[str]:
    allocatable = amounts_of((node.get("status") or {}).get("allocatable"))
    lacking = ["Too many pods"] if count + 1 > allocatable.get("pods", Decimal(0)) else []
    for name, amount in sorted(wanted.items()):
        if amount and amount > allocatable.get(name, Decimal(0)) - used.get(name, Decimal(0)):
            lacking.append(f"Insufficient {name}")
    return lacking


def _usage(pods: Iterable[JSON]) -> tuple[dict[str, Amounts], Counter[str]]:
    used: dict[str, Amounts] = {}
    counts: Counter[str] = Counter()
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if not node:
            continue
        counts[node] += 1
        used[node] = added(used.get(node, {}), pod_requests(pod))
    return used, counts


def _is_over(pod: JSON) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
