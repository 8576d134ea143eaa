"""Makes the parts of the wing that the descriptor names."""

from __future__ import annotations

from app.admission.parts import Context, Parts
from app.kube.resources import CONFIG_MAPS, NETWORK_ATTACHMENTS
from app.networks import checking, model, webhook
from app.networks.settings import NetworksSettings
from app.networks.switches import CONFIG_MAP_NAME, ControlSwitches, text_of
from app.settings.source import settings_as


def review(context: Context) -> Parts:
    """The injection of networks, and the check of attachments."""
    settings, caches = settings_as(context.settings, NetworksSettings), context.caches
    keys, claims = settings.resource_name_keys, claims_on(context)
    # With the same function the wing of claims gets the same cache.
    project = model.projection(keys, claims=claims)
    attachments = caches.lookup(
        NETWORK_ATTACHMENTS, project, called="network attachment definition", field="metadata.annotations"
    )
    switches = ControlSwitches(
        caches.cache(CONFIG_MAPS, text_of, only=(context.namespace, CONFIG_MAP_NAME)),
        namespace=context.namespace,
        initial=settings.initial_switches,
        logs=context.logs,
    )
    injector = webhook.NetworksInjector(
        attachments, switches=switches, options=settings.networks_options, claimed=context.claimed, named=context.named
    )
    context.pod_injectors.append(injector)
    return Parts((injector,), (checking.AttachmentCheck(keys, claims=claims),), switches.problems)


def claims_on(context: Context) -> bool:
    """Whether the webhook has the wing of claims, and that is on. The wing imports this one, so it is not asked."""
    return bool(getattr(context.settings, "claims", False))
