"""Node selectors of attachments: a comma list of labels, laid over the Pod's own selector. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from app.admission.chain import Plan
from app.admission.patch import pointer
from app.admission.pods import Pod
from app.errors import Denied
from app.kube.names import check_label_key, check_label_value
from app.networks.model import NODE_SELECTOR, Attachment
from app.text import quoted

_PATH = "/spec/nodeSelector"
_CACHED_LENGTH = 512


def parse_node_selector(text: str) -> tuple[tuple[str, str], ...]:
    """The labels of `key=value, key=value`, sorted; a key alone has the value "". () for a blank text.

    Raises ValueError that says which label is wrong and what would be right.
    """
    if len(text) <= _CACHED_LENGTH:
        return _parse_cached(text)
    return _parse(text)


def _parse(text: str) -> tuple[tuple[str, str], ...]:
    if not text.strip():
        return ()
    labels: dict[str, str] = {}
    for index, item in enumerate(text.split(","), start=1):
        key, _, value = (part.strip() for part in item.partition("="))
        if not key:
            raise ValueError(f"label {index} ({quoted(item)}) has no key: use key=value[,key=value…]")
        try:
            check_label_key(key)
            check_label_value(value)
        except ValueError as error:
            raise ValueError(f"label {index} ({quoted(item)}): {error}") from None
        if labels.setdefault(key, value) != value:
            raise ValueError(f"label {key} has two values, {labels[key]!r} and {value!r}: use one")
    return tuple(sorted(labels.items()))


_parse_cached = lru_cache(maxsize=4096)(_parse)


def wanted_labels(attachments: Iterable[Attachment]) -> dict[str, tuple[str, Attachment]]:
    """The labels that the attachments ask for, each with the first one that does.

    Raises Denied for a broken selector and where two attachments contradict each other, because no node fits both.
    """
    wanted: dict[str, tuple[str, Attachment]] = {}
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


def plan_node_selector(pod: Pod, wanted: dict[str, tuple[str, Attachment]], plan: Plan, *, conflict: str) -> list[str]:
    """Plan the labels that the Pod's selector lacks; returns a line for each. Raises Denied for conflict "deny"."""
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
