"""The policies that a cluster should have: on the terms of its release, else on those of the chart's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from app.cel import matchconditions
from app.doctor.cluster import Cluster
from app.doctor.installed import flags_in_force
from app.doctor.objects import Object
from app.doctor.webhooks import NEW_POD
from app.kube.resources import CONFIG_MAPS, MUTATING_POLICIES, MUTATING_WEBHOOKS, NETWORK_ATTACHMENTS
from app.networks.podnetinfo import VOLUME
from app.networks.settings import CONFIG_MAP_NAME, NetworksSettings, parse_switches, text_of
from app.policies.keeping import condition_of, entry_of
from app.policies.model import PolicyMode, Terms
from app.policies.objects import CONDITION, POLICIES_OF, Generated, generate
from app.policies.settings import Config, ControllerSettings, parse_config
from app.policies.terms import WEBHOOK, terms_of
from app.registry import settings_of
from app.settings.source import settings_as
from app.wire import JSON

CONTROLLER = "policies"


@dataclass(frozen=True, slots=True)
class Kept:
    """What controller `policies` goes by: the names, and its configuration, None where that cannot be read."""

    name: str
    config: Config | None


async def kept_in(cluster: Cluster) -> Kept | None:
    """None where the controller does not run. Raises ApiError where its ConfigMap may not be read."""
    if CONTROLLER not in await cluster.controllers():
        return None
    settings = await cluster.settings(ControllerSettings, role="controller")
    config_map = await cluster.get(CONFIG_MAPS, settings.policies_config, namespace=cluster.namespace)
    try:
        config = None if config_map is None else parse_config(config_map)
    except ValueError:
        config = None
    return Kept(settings.policies_name, config)


async def terms_in(cluster: Cluster, given: Mapping[str, Any], mode: PolicyMode, name: str) -> Terms:
    """The terms in force, with `given` flags in place of those of the webhook.

    Raises ApiError where what they follow from may not be read.
    """
    kept = await kept_in(cluster)
    if kept is not None and kept.config is not None and not given:
        settings, charted = kept.config.webhook, kept.config.registration
    else:
        flags = flags_in_force(await cluster.running("webhook"), settings_of("webhook"))
        settings = settings_of("webhook").load({"manifests": None, **flags, **given}, environment=False)
        charted = None
    config_map = await cluster.get(CONFIG_MAPS, CONFIG_MAP_NAME, namespace=cluster.namespace)
    initial = settings_as(settings, NetworksSettings).initial_switches
    switches = parse_switches(text_of(config_map) if config_map else None, initial=initial)
    calling = [webhook.webhook for webhook in await cluster.registered() if webhook.injects]
    registered = next((webhook for webhook in calling if webhook.get("name") == WEBHOOK), next(iter(calling), None))
    return replace(terms_of(settings, switches, registered=registered or charted, mode=mode), name=name)


async def generated_in(cluster: Cluster, terms: Terms) -> Generated:
    """What is generated of the attachments that are there. Raises ApiError where they may not be listed."""
    return generate(await cluster.listed(NETWORK_ATTACHMENTS), terms)


async def configuration_of(cluster: Cluster, name: str) -> JSON | None:
    """The MutatingWebhookConfiguration that has the webhook for Pods, None where there is none of this name."""
    configuration = await cluster.get(MUTATING_WEBHOOKS, name)
    return configuration if entry_of(configuration) else None


class Served(NamedTuple):
    """What serves a Pod, by its name; without `by_policy` it is the webhook."""

    name: str
    by_policy: bool


_WEBHOOK = Served("the webhook", by_policy=False)


async def served_by(cluster: Cluster, it: Object) -> Served | None:
    """Who serves a Pod; None where there are no policies, or nothing serves it. Raises ApiError as `terms_in`."""
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
