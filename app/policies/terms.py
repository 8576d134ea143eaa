"""On what terms policies are generated: those of the webhook that is installed, else those of the chart's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.networks.settings import NetworksSettings, Switches
from app.policies.model import PolicyMode, Registration, Terms
from app.registration import further_webhooks, is_charted
from app.registry import asked_of_pods
from app.settings.source import RoleSettings, settings_as
from app.wire import JSON
from app.wiring import RELEASE_NAMESPACE, ReviewKind, Term

WEBHOOK = "pods.berth.dev"
"""The name of the webhook that policies stand in for."""
CHECKING = "attachments.berth.dev"
"""The name of the one that they stand in for as to attachments."""
Checked = JSON | Literal[False] | None
"""How attachments are reviewed: as an entry of a ValidatingWebhookConfiguration; False for not at all, and None for as
the chart registers it."""


def terms_of(
    settings: RoleSettings,
    switches: Switches,
    *,
    registered: JSON | None = None,
    checked: Checked = None,
    mode: PolicyMode = "policies",
) -> Terms:
    """The terms of a webhook with these settings that is `registered` so; None for as the chart registers it."""
    networks = settings_as(settings, NetworksSettings)
    values = settings.model_dump()
    asked = [ask for ask in asked_of_pods() if _counts(ask, values)]
    return Terms(
        registration=Registration.of(registered or charted(values, switches)),
        attachments=None if checked is False else Registration.of(checked or charted(values, switches, name=CHECKING)),
        resource_name_keys=networks.resource_name_keys,
        existing_resources=networks.existing_mode,
        node_selector_conflict=networks.node_selector_conflict,
        claims=bool(values.get("claims")),
        annotates=bool(values.get("injected_annotation")),
        switches=switches,
        annotations=tuple(ask for ask in asked if isinstance(ask, str) and ask not in (NETWORKS, DEFAULT_NETWORK)),
        asks=tuple(ask.expression for ask in asked if isinstance(ask, Term) and not ask.values),
        mode=mode,
    )


def charted(
    values: Mapping[str, Any], switches: Switches, *, namespace: str = RELEASE_NAMESPACE, name: str = WEBHOOK
) -> JSON:
    """A webhook as the chart registers it for a release in `namespace` whose webhook has these settings."""
    sources = {"berth.injectionLabels": [injection.label for injection in switches.injections]}
    exempt, called = ("kube-system", namespace), {"failurePolicy": "Fail"}
    kind: ReviewKind = "pods" if name == WEBHOOK else "attachments"
    webhooks = further_webhooks(kind, called, exempt=exempt, sources=sources, settings=values)
    return next(webhook for webhook in webhooks if webhook["name"] == name)


def _counts(ask: str | Term, values: Mapping[str, Any]) -> bool:
    return isinstance(ask, str) or is_charted(ask.when, values)
