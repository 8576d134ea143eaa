"""Checks whether matchConditions let every Pod through that needs Berth, by evaluating them for made-up Pods.

The sandbox's evaluator evaluates the CEL. It supports a part of the language, and a finding says what it cannot decide.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from app.cel.matchconditions import ConditionFailed
from app.doctor import commands, networks, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, error, info, or_default
from app.doctor.webhooks import Registered
from app.registry import asked_of_pods
from app.wire import JSON

_Key = tuple[str, str]
"""An annotation or a label of a Pod: `annotations` or `labels`, and the key."""


async def left_out(cluster: Cluster) -> AsyncIterator[Finding]:
    """Annotations by which Pods ask, and labels of the control switches, that no webhook is called for."""
    anywhere = {objects.NAME_LABEL: "default"}
    called = [one for one in await cluster.registered() if one.injects and one.selects_namespace(anywhere)]
    if not called or any(not one.conditions for one in called):
        return
    labels = await or_default(networks.injected_labels(cluster), [])
    keys = [("annotations", one) for one in asked_of_pods() if isinstance(one, str)]
    unknown: dict[str, str] = {}
    missing = [key for key in (*keys, *(("labels", one) for one in labels)) if not _any_admits(called, key, unknown)]
    one, of_labels = called[0], f"webhook.injectionLabels={{{','.join(labels)}}}"
    # All missing keys at once: of separate commands the last would undo the rest.
    wider = [_wider(one.conditions, missing)]
    command = commands.fix(
        cluster, one, "matchConditions", wider, *([of_labels] if any(place == "labels" for place, _ in missing) else [])
    )
    for place, key in missing:
        what = (
            f"annotation {key}" if place == "annotations" else f"label {key} of {networks.config_map(cluster).subject}"
        )
        yield error("BERTH0510", one, what=what, command=command)
    for subject, why in unknown.items():
        yield info("BERTH0511", subject, why=why)


def _any_admits(called: Sequence[Registered], key: _Key, unknown: dict[str, str]) -> bool:
    """Whether one is called, or may be; why that is not known goes to `unknown`."""
    may_be = False
    for one in called:
        try:
            if one.admits({"namespace": "default", key[0]: {key[1]: "true"}}):
                return True
        except ConditionFailed as failure:
            unknown.setdefault(one.subject, str(failure))
            may_be = True
    return may_be


def _wider(conditions: Sequence[JSON], missing: Sequence[_Key]) -> JSON:
    """All conditions as one, or else any of the keys."""
    all_of = " && ".join(f"({condition['expression']})" for condition in conditions)
    any_of = [f"(has(object.metadata.{place}) && '{key}' in object.metadata.{place})" for place, key in missing]
    expression = " || ".join([f"({all_of})", *any_of])
    return {"name": conditions[0].get("name") or "asks-for-injection", "expression": expression}
