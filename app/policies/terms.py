"""On what terms policies are generated: those of the webhook that is installed, else those of the chart's defaults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.networks.settings import NetworksSettings, Switches
from app.policies.cel import listed
from app.policies.model import PolicyMode, Registration, Terms
from app.registry import asked_of_pods, condition_terms, webhooks_of
from app.settings.source import RoleSettings, settings_as
from app.wire import JSON
from app.wiring import RELEASE_NAMESPACE, Requirement, Term

WEBHOOK = "pods.berth.dev"
"""The name of the webhook that policies stand in for."""
_ARGUMENTS = "webhook.args."


def terms_of(
    settings: RoleSettings, switches: Switches, *, registered: JSON | None = None, mode: PolicyMode = "policies"
) -> Terms:
    """The terms of a webhook with these settings that is `registered` so; None for as the chart registers it."""
    networks = settings_as(settings, NetworksSettings)
    values = settings.model_dump()
    asked = [ask for ask in asked_of_pods() if _counts(ask, values)]
    return Terms(
        registration=Registration.of(registered or charted(values, switches)),
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


def charted(values: Mapping[str, Any], switches: Switches, *, namespace: str = RELEASE_NAMESPACE) -> JSON:
    """The webhook for Pods as the chart registers it for a release in `namespace` whose webhook has these settings."""
    webhook = next(webhook for webhook in webhooks_of("pods") if webhook.name == "pods")
    exempt, labels = ["kube-system", namespace], [injection.label for injection in switches.injections]

    def selector(requirements: Iterable[Requirement]) -> JSON:
        chosen = [requirement for requirement in requirements if _is_on(requirement.when, values)]
        return {"matchExpressions": [_expression(requirement, exempt) for requirement in chosen]} if chosen else {}

    conditions = [
        {"name": condition.name, "expression": _any_of(condition_terms(condition), labels, values)}
        for condition in webhook.conditions
        if _is_on(condition.when, values)
    ]
    return {
        "name": WEBHOOK,
        "failurePolicy": "Fail",
        "namespaceSelector": selector(webhook.namespaces),
        "objectSelector": selector(webhook.objects),
        "matchConditions": conditions,
    }


def _expression(requirement: Requirement, exempt: Sequence[str]) -> JSON:
    values = exempt if requirement.source else requirement.values
    return {"key": requirement.key, "operator": requirement.operator} | ({"values": list(values)} if values else {})


def _any_of(terms: Iterable[Term], labels: Sequence[str], values: Mapping[str, Any]) -> str:
    """As the chart: a term that wants texts, and has none, is left out."""
    texts = [
        term.expression.replace("{values}", listed(labels))
        for term in terms
        if (labels or not term.values) and _is_on(term.when, values)
    ]
    return " || ".join(texts)


def _counts(ask: str | Term, values: Mapping[str, Any]) -> bool:
    return isinstance(ask, str) or _is_on(ask.when, values)


def _is_on(when: str, values: Mapping[str, Any]) -> bool:
    """Whether sources of the chart are on; of its values those of the webhook's flags are known, the others are."""
    for source in filter(None, when.split(",")):
        name = source.removeprefix("!")
        if name.startswith(_ARGUMENTS):
            value = values.get(re.sub("([A-Z])", r"_\1", name.removeprefix(_ARGUMENTS)).lower())
            if (value in (False, None, "", "off")) != source.startswith("!"):
                return False
    return True
