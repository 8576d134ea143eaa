"""Who serves a Pod where admission policies of Berth are installed: these, or the webhook."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

from app.cel import matchconditions
from app.doctor.cluster import Cluster
from app.doctor.objects import Object
from app.doctor.policies import configuration_of, generated_in, terms_in
from app.doctor.webhooks import NEW_POD
from app.kube.resources import MUTATING_POLICIES
from app.networks.podnetinfo import VOLUME
from app.policies.keeping import condition_of
from app.policies.objects import CONDITION, POLICIES_OF
from app.why.model import Asking, or_else, read
from app.wire import JSON


class Served(NamedTuple):
    """What serves a Pod, by its name; without `by_policy` it is the webhook."""

    name: str
    by_policy: bool


_WEBHOOK = Served("the webhook", by_policy=False)


def served_by(it: Object) -> Asking[Served | None]:
    """None where there are no policies, or nothing serves it, or that cannot be read."""
    return (yield from or_else(read(partial(_served_by, it=it)), None))


async def _served_by(cluster: Cluster, it: Object) -> Served | None:
    policies = await cluster.listed(MUTATING_POLICIES, label_selector=POLICIES_OF)
    if not policies:
        return None
    metadata = policies[0]["metadata"]
    name = metadata["labels"][POLICIES_OF]
    by_policy = Served(f"{MUTATING_POLICIES.kind} {metadata['name']}", by_policy=True)
    configuration = await configuration_of(cluster, name)
    if configuration is None:
        # Policies alone. One that exists has been served, for what they leave is refused.
        if it.json["metadata"].get("uid"):
            return by_policy
        generated = await generated_in(cluster, await terms_in(cluster, {}, "both", name))
        return None if _is_left(it, generated.condition) else by_policy
    condition = condition_of(configuration)
    return by_policy if condition and not _is_left(it, condition) else _WEBHOOK


def _is_left(it: Object, condition: str) -> bool:
    """Whether the condition leaves it to the webhook when policies have run; so too where that cannot be decided."""
    conditions: list[JSON] = [{"name": CONDITION, "expression": condition}]
    pod = replace(NEW_POD, namespace=it.namespace or "default")
    try:
        return matchconditions.holds(conditions, pod, _as_served(it.json))
    except matchconditions.ConditionFailed:
        return True


def _as_served(pod: JSON) -> JSON:
    """With what policies add to any Pod that they serve."""
    spec = pod.get("spec") or {}
    volumes = [*(spec.get("volumes") or ()), {"name": VOLUME, "downwardAPI": {}}]
    return {**pod, "spec": {**spec, "volumes": volumes, "nodeSelector": spec.get("nodeSelector") or {}}}
