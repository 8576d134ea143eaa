"""Checks that the webhooks are called for no namespace that must be left out, and says which ones opted out.

Also makes the namespaceSelector that a webhook should have, and finds the namespaces of tenants.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from app.admission.pods import INJECT
from app.doctor import commands, objects
from app.doctor.catalog import listed
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, error, info, or_default, warning
from app.doctor.webhooks import Registered, selecting, selects
from app.placement.model import TENANT_LABEL, tenant_of
from app.placement.settings import ConfinementSettings
from app.wire import JSON

SYSTEM = "kube-system"


async def exempt(cluster: Cluster) -> AsyncIterator[Finding]:
    """Webhooks called for the namespace in which Berth's own Pods are, where its Service is, or for the system's."""
    pods = [webhook for webhook in await cluster.registered() if webhook.injects]
    for webhook in pods:
        if missing := [name for name in _exempt(webhook) if webhook.selects_namespace({objects.NAME_LABEL: name})]:
            selector = _exempting(webhook, webhook.webhook.get("namespaceSelector") or _whole(webhook, pods))
            bad, case = (error, "closed") if webhook.fails_closed else (warning, "")
            fix = commands.fix(cluster, webhook, "namespaceSelector", selector)
            yield bad("BERTH0505", webhook, case=case, missing=" and ".join(missing), command=fix)


def _exempt(webhook: Registered) -> list[str]:
    return list(dict.fromkeys([SYSTEM, *([webhook.service[0]] if webhook.service else [])]))


def _exempting(webhook: Registered, selector: JSON) -> JSON:
    """The selector, made to leave out what must be left out; what it leaves out by name already stays so."""
    expressions = selector.get("matchExpressions") or []
    names = [name for expression in expressions if _leaves_out_by_name(expression) for name in expression["values"]]
    exemption = {
        "key": objects.NAME_LABEL,
        "operator": "NotIn",
        "values": list(dict.fromkeys([*names, *_exempt(webhook)])),
    }
    others = [expression for expression in expressions if not _leaves_out_by_name(expression)]
    return {**selector, "matchExpressions": [*others, exemption]}


def _whole(webhook: Registered, pods: Sequence[Registered]) -> JSON:
    """The selector for a webhook whose selector was emptied, without names of namespaces.

    It leaves out namespaces that opted out, and tenants' namespaces if another webhook is for these alone.
    """
    expressions = [{"key": INJECT, "operator": "NotIn", "values": ["false"]}]
    plain, tenants = {objects.NAME_LABEL: "default"}, {objects.NAME_LABEL: "default", TENANT_LABEL: "any"}
    if any(pod.selects_namespace(tenants) and not pod.selects_namespace(plain) for pod in pods if pod != webhook):
        expressions.append({"key": TENANT_LABEL, "operator": "DoesNotExist"})
    return {"matchExpressions": expressions}


def _leaves_out_by_name(expression: JSON) -> bool:
    return expression.get("key") == objects.NAME_LABEL and expression.get("operator") == "NotIn"


def unhide(cluster: Cluster, namespace: JSON, webhook: Registered, hidden: Sequence[JSON]) -> str:
    """The command that has the selector match the namespace.

    It also adds the other namespaces of `hidden`: of separate commands the last would overwrite the rest.
    """
    if objects.labels(namespace).get(INJECT) == "false":
        return commands.kubectl("label", "namespace", namespace["metadata"]["name"], f"{INJECT}-")
    selector = webhook.webhook.get("namespaceSelector") or {}
    for other in hidden:
        if objects.labels(other).get(INJECT) != "false":
            selector = _admitting(selector, other)
    wanted = _exempting(webhook, selector)
    names = [name for name in wanted["matchExpressions"][-1]["values"] if name not in _exempt(webhook)]
    # What was edited away by hand must not become the release's value.
    values = () if commands.edited(webhook.configuration) else (f"webhook.exemptNamespaces={{{','.join(names)}}}",)
    return commands.fix(cluster, webhook, "namespaceSelector", wanted, *values)


def _admitting(selector: JSON, namespace: JSON) -> JSON:
    """What of the selector lets the namespace through."""
    own = objects.namespace_labels(namespace)
    expressions = []
    for expression in selector.get("matchExpressions") or []:
        if _leaves_out_by_name(expression):
            names = [name for name in expression["values"] if name != own[objects.NAME_LABEL]]
            expressions += [{**expression, "values": names}] if names else []
        elif selects({"matchExpressions": [expression]}, own):
            expressions.append(expression)
    matching = {key: value for key, value in (selector.get("matchLabels") or {}).items() if own.get(key) == value}
    return {"matchExpressions": expressions} | ({"matchLabels": matching} if matching else {})


async def who_opted_out(cluster: Cluster) -> AsyncIterator[Finding]:
    """Namespaces with the label that opts out. A webhook for tenants' namespaces may be called there all the same.

    So is one whose selector does not read the label, such as that of `berth certs install`.
    """
    pods = [webhook for webhook in await cluster.registered() if webhook.injects]
    namespaces = await cluster.namespaces() if pods else []
    names: dict[str, list[str]] = {}
    for namespace in namespaces:
        if objects.labels(namespace).get(INJECT) == "false":
            names.setdefault(_opt_out(pods, namespace), []).append(namespace["metadata"]["name"])
    for case, some in sorted(names.items()):
        first = pods[0]
        values: dict[str, Any] = {"label": INJECT, "first": min(some)}
        if case == "ignored":
            values["webhook"] = str(first.webhook.get("name"))
            selector = _reading(first.webhook.get("namespaceSelector") or {})
            values["fix"] = commands.fix(cluster, first, "namespaceSelector", selector)
        yield info("BERTH0508", f"Namespace {listed(sorted(some), 5)}", case=case, **values)


def _opt_out(pods: Sequence[Registered], namespace: JSON) -> str:
    """The case of a Namespace with the label: it is left out (""), or a webhook is called there, and why."""
    calling = selecting(pods, namespace)
    if not calling:
        return ""
    return "called" if tenant_of(namespace) else "ignored"


def _reading(selector: JSON) -> JSON:
    """The selector, made to read the label that opts out."""
    opt_out = {"key": INJECT, "operator": "NotIn", "values": ["false"]}
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or []), opt_out]}


@dataclass(frozen=True, slots=True)
class TenantNamespace:
    """A Namespace and the tenant that it belongs to, by its label or its name."""

    tenant: str
    object: JSON

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def subject(self) -> str:
        return f"Namespace {self.name}"

    @property
    def labels(self) -> dict[str, str]:
        """With the one that API servers give to each."""
        return objects.namespace_labels(self.object)

    @property
    def wanted_labels(self) -> dict[str, str]:
        """Its labels, with that of its tenant."""
        return {**self.labels, TENANT_LABEL: self.tenant}

    @property
    def is_labeled(self) -> bool:
        return bool(self.labels.get(TENANT_LABEL))

    def label(self) -> str:
        """The command that labels it for its tenant."""
        return commands.kubectl("label", "namespace", self.name, f"{TENANT_LABEL}={self.tenant}")


ANY = TenantNamespace("any", {"metadata": {"name": "tenant-any", "labels": {TENANT_LABEL: "any"}}})
"""Stands for those that are not there yet."""


async def tenant_namespaces(cluster: Cluster) -> list[TenantNamespace]:
    return [
        TenantNamespace(tenant, namespace)
        for namespace in await cluster.namespaces()
        if (tenant := tenant_of(namespace))
    ]


async def confines_tenants(cluster: Cluster) -> bool:
    """Whether the webhook keeps tenants' Pods on the tenants' nodes.

    What is registered decides for one that does not run here.
    """
    if await cluster.running("webhook"):
        return (await cluster.settings(ConfinementSettings)).confine_tenants
    # Berth is asked about templates only where it confines tenants.
    return any(webhook.covers("", "podtemplates", "CREATE") for webhook in await or_default(cluster.registered(), []))
