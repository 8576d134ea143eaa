"""Node selectors of attachments, laid over the Pod's own selector. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from app.admission.chain import Plan
from app.admission.patch import pointer
from app.admission.pods import Pod
from app.errors import Denied
from app.networks.model import NODE_SELECTOR, Attachment, parse_node_selector
from app.text import quoted

_PATH = "/spec/nodeSelector"
Labels = dict[str, tuple[str, Attachment]]
"""The value of each label, with the first attachment that asks for it."""


def wanted_labels(attachments: Iterable[Attachment]) -> Labels:
    """Raises Denied for a broken selector, and where two attachments contradict each other: no node fits both."""
    wanted: Labels = {}
    for attachment in attachments:
        if not attachment.node_selector:
            continue
        try:
            labels = parse_node_selector(attachment.node_selector)
        except ValueError as error:
            raise Denied(
                f"network attachment definition '{attachment.key}': annotation {NODE_SELECTOR}: {error}",
                reason="BadNodeSelector",
            ) from error
        for key, value in labels:
            other_value, other = wanted.setdefault(key, (value, attachment))
            if other_value != value:
                raise Denied(
                    f"network attachment definitions '{other.key}' and '{attachment.key}' contradict each other: "
                    f"their node selectors ask for {key}={other_value} and {key}={value}; no node fits both",
                    reason="NodeSelectorContradiction",
                )
    return wanted


def plan_node_selector(pod: Pod, wanted: Labels, plan: Plan, *, conflict: str) -> list[str]:
    """Plan the labels that the Pod's selector lacks; returns a line for each. Raises Denied for conflict "deny"."""
    if not wanted:
        return []
    own = pod.spec.node_selector
    changes = [(key, value, source) for key, (value, source) in sorted(wanted.items()) if own.get(key) != value]
    for key, value, source in changes:
        if key in own:
            text = f"nodeSelector {key}={quoted(own[key])[1:-1]} of the Pod"
            if conflict == "deny":
                raise Denied(
                    f"{text} contradicts network attachment definition '{source.key}', which asks for {key}={value}",
                    reason="NodeSelectorConflict",
                )
            plan.warnings.append(f"{text} is overridden with {value!r} by network attachment '{source.key}'")
        reason = f"annotation {NODE_SELECTOR} of {source.key}"
        plan.patch.ensure(_PATH, {}, present=bool(own), reason=reason)
        plan.patch.add(pointer("spec", "nodeSelector", key), value, reason=reason)
    if changes:
        plan.count("node-selector", len(changes))
    return [f"{key}={value} for {source.key}" for key, value, source in changes]
