"""How a registration is put right by whoever owns it, so that the owner's next upgrade does not stumble over it. Pure.

Helm applies on the server's side: a field that kubectl has written is refused to the next upgrade (Helm 4), and what
kubectl would write is lost by it (Helm 3). What the chart owns is therefore taken back from the release's own manifest,
with the release's own values, and what is wrong in these is changed by an upgrade.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from app.doctor.commands import helm, helm_upgrade, patch_webhook, unregister
from app.doctor.installed import COMPONENT
from app.doctor.objects import labels

if TYPE_CHECKING:
    from app.doctor.cluster import Cluster
    from app.doctor.webhooks import Registered
    from app.wire import JSON

_KINDS = {
    "pods.berth.dev": "pods",
    "tenant-pods.berth.dev": "tenantPods",
    "attachments.berth.dev": "attachments",
    "rules.berth.dev": "rules",
    "tenant-isolation.berth.dev": "tenantIsolation",
    "tenant-isolation-by-name.berth.dev": "tenantIsolation",
}
"""The names that the chart's values have for its webhooks."""
_HELM = "helm"
_NOTE = "f:meta.helm.sh/release-name"


def mend(cluster: Cluster, one: Registered, field: str, value: object, *, values: tuple[str, ...] = ()) -> str:
    """Sets a field of a webhook to `value`; where the chart owns it, as the chart has it with these `values`."""
    if not one.by_chart:
        return patch_webhook(one, field, value)
    return again(cluster, one, *values)


def again(cluster: Cluster, one: Registered, *values: str) -> str:
    """Has a configuration of the chart be as the chart has it, whoever wrote into it, with these `values` changed."""
    if not edited(one.configuration):
        return helm_upgrade(cluster, *values)
    component = labels(one.configuration).get(COMPONENT) or "webhook"
    return retake(cluster, one.configuration, f"{COMPONENT}={component}", *values)


def retake(cluster: Cluster, example: JSON, selector: str, *values: str) -> str:
    """Has the objects of the release that the selector matches be as the release has them, `example` among them."""
    apply = f"kubectl apply --server-side --force-conflicts --field-manager={shlex.quote(_owner(example))}"
    manifest = f"helm get manifest {cluster.release} --namespace {cluster.namespace}"
    # Helm's own notes on its objects are in no manifest, and come back with the upgrade.
    return f"{manifest} | {apply} --selector {shlex.quote(selector)} --filename - && {helm_upgrade(cluster, *values)}"


def value_of(one: Registered, name: str, value: object) -> tuple[str, ...]:
    """The chart's value for a term of this webhook, nothing where it has none."""
    kind = _KINDS.get(str(one.webhook.get("name")))
    return (f"webhook.webhooks.{kind}.{name}={value}",) if kind else ()


def recreate(cluster: Cluster, one: Registered, *values: str, present: bool) -> str:
    """Has what a registration calls be made again by the release that owns it; what none owns is nobody's to answer.

    `present` is whether there is a release to upgrade.
    """
    if present or one.by_chart:
        return helm(cluster, *values, present=present)
    return unregister(one.name)


def edited(configuration: JSON) -> bool:
    """Whether somebody but Helm has written more into its webhooks than a caBundle; where that is not told, yes."""
    entries = configuration["metadata"].get("managedFields")
    if not entries:
        return True
    owner = _owner(configuration)
    others = [entry for entry in entries if entry.get("manager") != owner]
    return any(_writes((entry.get("fieldsV1") or {}).get("f:webhooks")) for entry in others)


def _writes(fields: Any) -> bool:
    if not isinstance(fields, dict):
        return False
    return any(_writes(below) if below else name not in ("f:caBundle", ".", "f:name") for name, below in fields.items())


def _owner(configuration: JSON) -> str:
    """The name under which Helm writes: that of its program."""
    for entry in configuration["metadata"].get("managedFields") or ():
        metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
        if _NOTE in (metadata.get("f:annotations") or {}):
            return str(entry.get("manager") or _HELM)
    return _HELM
