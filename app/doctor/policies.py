"""The policies that a cluster should have: on the terms of its release, else on those of the chart's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.doctor.cluster import Cluster
from app.doctor.installed import flags_in_force
from app.kube.resources import CONFIG_MAPS, MUTATING_WEBHOOKS, NETWORK_ATTACHMENTS
from app.networks.settings import CONFIG_MAP_NAME, NetworksSettings, parse_switches, text_of
from app.policies.keeping import entry_of
from app.policies.model import PolicyMode, Terms
from app.policies.objects import Generated, generate
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
