"""The policies that a cluster should have: on the terms of its release, else on those of the chart's defaults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from app.cel import matchconditions
from app.doctor.cluster import Cluster
from app.doctor.installed import flags_in_force
from app.doctor.objects import Object
from app.doctor.webhooks import NEW_POD, Registered
from app.kube.resources import (
    CONFIG_MAPS,
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    NETWORK_ATTACHMENTS,
    VALIDATING_POLICIES,
)
from app.networks.model import NETWORKS
from app.networks.podnetinfo import VOLUME
from app.networks.settings import CONFIG_MAP_NAME, NetworksSettings, parse_switches, text_of
from app.policies.keeping import condition_of, entry_of
from app.policies.model import Network, PolicyMode, Terms
from app.policies.objects import CONDITION, LEAVING, POLICIES_OF, Generated, generate
from app.policies.settings import Config, ControllerSettings, parse_config
from app.policies.terms import CHECKING, WEBHOOK, Checked, terms_of
from app.registry import settings_of
from app.settings.source import settings_as
from app.wire import JSON

CONTROLLER = "policies"


@dataclass(frozen=True, slots=True)
class Kept:
    """What controller `policies` goes by: the names, and its configuration, None where that cannot be read."""

    name: str
    config_map: str
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
    return Kept(settings.policies_name, settings.policies_config, config)


async def terms_in(cluster: Cluster, given: Mapping[str, Any], mode: PolicyMode, name: str) -> Terms:
    """The terms in force, with `given` flags in place of those of the webhook.

    Raises ApiError where what they follow from may not be read.
    """
    kept = await kept_in(cluster)
    if kept is not None and kept.config is not None and not given:
        settings, charted, checked = kept.config.webhook, kept.config.registration, kept.config.attachments
    else:
        flags = flags_in_force(await cluster.running("webhook"), settings_of("webhook"))
        settings = settings_of("webhook").load({"manifests": None, **flags, **given}, environment=False)
        charted, checked = None, await _checked(cluster)
    config_map = await cluster.get(CONFIG_MAPS, CONFIG_MAP_NAME, namespace=cluster.namespace)
    initial = settings_as(settings, NetworksSettings).initial_switches
    switches = parse_switches(text_of(config_map) if config_map else None, initial=initial)
    calling = [webhook.webhook for webhook in await cluster.registered() if webhook.injects]
    registered = next((webhook for webhook in calling if webhook.get("name") == WEBHOOK), next(iter(calling), None))
    terms = terms_of(settings, switches, registered=registered or charted, checked=checked, mode=mode)
    return replace(terms, name=name)


async def _checked(cluster: Cluster) -> Checked:
    """How the release has attachments reviewed: as the chart does it where none of its webhooks validates."""
    validating = [webhook.webhook for webhook in await cluster.registered() if not webhook.mutating]
    entry: JSON | None = next((webhook for webhook in validating if webhook.get("name") == CHECKING), None)
    return entry or (False if validating else None)


async def generated_in(cluster: Cluster, terms: Terms) -> Generated:
    """What is generated of the attachments that are there. Raises ApiError where they may not be listed."""
    return generate(await cluster.listed(NETWORK_ATTACHMENTS), terms)


async def configuration_of(cluster: Cluster, name: str) -> JSON | None:
    """The MutatingWebhookConfiguration that has the webhook for Pods, None where there is none of this name."""
    configuration = await cluster.get(MUTATING_WEBHOOKS, name)
    return configuration if entry_of(configuration) else None


class Served(NamedTuple):
    """What serves a Pod, by its name; without `by_policy` it is the webhook.

    `refused` says why policies without a webhook refuse the Pod; "" where they do not.
    """

    name: str
    by_policy: bool
    refused: str = ""


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
    if configuration is None and it.json["metadata"].get("uid"):
        # Policies alone. One that exists has been served, for what they leave is refused.
        return by_policy
    if configuration is not None and not condition_of(configuration):
        return _WEBHOOK
    generated = await cluster.once(("policies beside a webhook", name), lambda: _generated(cluster, name))
    condition = generated.condition if configuration is None else condition_of(configuration)
    if not _is_left(it, condition, generated.networks):
        return by_policy
    return _WEBHOOK if configuration is not None else await _refusing(cluster, name, by_policy)


async def _generated(cluster: Cluster, name: str) -> Generated:
    return await generated_in(cluster, await terms_in(cluster, {}, "both", name))


async def _refusing(cluster: Cluster, name: str, leaving: Served) -> Served | None:
    """The policy that refuses what the other one leaves; None where it warns only, or is not there."""
    policy = await cluster.get(VALIDATING_POLICIES, f"{name}-{LEAVING}")
    if policy is None or policy["spec"].get("failurePolicy") == "Ignore":
        return None
    refusing = f"{VALIDATING_POLICIES.kind} {policy['metadata']['name']}"
    cause = f"{leaving.name} leaves the Pod to the webhook of Berth, which is not installed: {refusing} refuses it"
    return Served(refusing, by_policy=True, refused=cause)


@dataclass(frozen=True, slots=True)
class Alone:
    """Policies that inject without a webhook of Berth, with the flags of the webhook that they are made by.

    `registered` has what the policy matches in the form of a webhook. `source` says whose the flags are.
    """

    registered: Registered
    flags: Mapping[str, Any]
    source: str

    @property
    def name(self) -> str:
        return f"{MUTATING_POLICIES.kind} {self.registered.name}"

    @property
    def about(self) -> str:
        return f"policies of the API server inject, without a webhook of Berth: {self.name}; flags are {self.source}"


async def alone_in(cluster: Cluster) -> Alone | None:
    """None where a webhook is called beside the policies, or there are none. Raises ApiError as `terms_in`."""
    for policy in await cluster.listed(MUTATING_POLICIES, label_selector=POLICIES_OF):
        name = policy["metadata"]["labels"][POLICIES_OF]
        if await configuration_of(cluster, name) is not None:
            continue
        terms = await terms_in(cluster, {}, "policies", name)
        entry = _as_webhook(policy, terms.registration.conditions)
        registered = Registered(MUTATING_POLICIES, policy, 0, entry)
        kept = await kept_in(cluster)
        if kept is None or kept.config is None or kept.name != name:
            return Alone(registered, {}, "defaults")
        webhook = kept.config.webhook
        flags = {field: getattr(webhook, field) for field in webhook.model_fields_set if field != "manifests"}
        return Alone(registered, flags, f"those of ConfigMap {cluster.namespace}/{kept.config_map}")
    return None


def _as_webhook(policy: JSON, conditions: Sequence[Mapping[str, str]]) -> JSON:
    """What a policy matches, but for the Pods that it leaves: `conditions` are those of its terms."""
    constraints = policy["spec"].get("matchConstraints") or {}
    return {
        "name": policy["metadata"]["name"],
        "namespaceSelector": constraints.get("namespaceSelector"),
        "objectSelector": constraints.get("objectSelector"),
        "matchConditions": [dict(condition) for condition in conditions if condition.get("name") != CONDITION],
    }


def _is_left(it: Object, condition: str, networks: Sequence[Network]) -> bool:
    """Whether the condition leaves it to the webhook when policies have run; so too where that cannot be decided."""
    conditions: list[JSON] = [{"name": CONDITION, "expression": condition}]
    pod = replace(NEW_POD, namespace=it.namespace or "default")
    try:
        return matchconditions.holds(conditions, pod, as_served(it.json, pod.namespace, networks))
    except matchconditions.ConditionFailed:
        return True


def as_served(pod: JSON, namespace: str, networks: Sequence[Network]) -> JSON:
    """With what policies for these networks add to a Pod of the namespace, which may have some of it."""
    value = str((pod["metadata"].get("annotations") or {}).get(NETWORKS) or "")
    asked = Counter(f"{namespace}/{element.strip().split('@')[0]}" for element in value.split(","))
    selected = [network for network in networks if network.key in asked]
    amounts = Counter[str]()
    for network in selected:
        amounts[network.resource] += asked[network.key]
    del amounts[""]
    spec = pod.get("spec") or {}
    volumes = [*(spec.get("volumes") or ()), *([{"name": VOLUME, "downwardAPI": {}}] if amounts else [])]
    labels = dict(label for network in selected for label in network.labels)
    chosen = {**(spec.get("nodeSelector") or {}), **labels}
    containers = [
        _asking({resource: str(amount) for resource, amount in amounts.items()}, container) if not index else container
        for index, container in enumerate(spec.get("containers") or ())
    ]
    return {**pod, "spec": {**spec, "volumes": volumes, "nodeSelector": chosen, "containers": containers}}


def _asking(amounts: dict[str, str], container: JSON) -> JSON:
    resources = container.get("resources") or {}
    sides = {side: {**(resources.get(side) or {}), **amounts} for side in ("requests", "limits")}
    return {**container, "resources": {**resources, **sides}}
