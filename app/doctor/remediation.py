"""Commands that correct a webhook registration without a conflict in the owner's next `helm upgrade`. Pure.

Helm 4 uses server-side apply: its next upgrade fails with a conflict on a field that kubectl has written. Helm 3
overwrites such a field. For objects of the chart, a command therefore applies the release's own manifest under the name
of Helm's field manager. Wrong values of the release are changed by `helm upgrade`.
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


def fix(cluster: Cluster, one: Registered, field: str, value: object, *, values: tuple[str, ...] = ()) -> str:
    """The command that sets a field of a webhook to `value`.

    For a webhook of the chart, the command restores the chart's state, with these `values` changed.
    """
    if not one.by_chart:
        return patch_webhook(one, field, value)
    return again(cluster, one, *values)


def again(cluster: Cluster, one: Registered, *values: str) -> str:
    """The command that restores a configuration to the chart's state, with these `values` changed.

    Fields that other managers have written are overwritten.
    """
    if not edited(one.configuration):
        return helm_upgrade(cluster, *values)
    component = labels(one.configuration).get(COMPONENT) or "webhook"
    return retake(cluster, one.configuration, f"{COMPONENT}={component}", *values)


def retake(cluster: Cluster, example: JSON, selector: str, *values: str) -> str:
    """The command that restores the objects of the release that match the selector; `example` is one of them."""
    apply = f"kubectl apply --server-side --force-conflicts --field-manager={shlex.quote(_owner(example))}"
    manifest = f"helm get manifest {cluster.release} --namespace {cluster.namespace}"
    # The manifest lacks the annotations that Helm adds to its objects; the upgrade adds them again.
    return f"{manifest} | {apply} --selector {shlex.quote(selector)} --filename - && {helm_upgrade(cluster, *values)}"


def value_of(one: Registered, name: str, value: object) -> tuple[str, ...]:
    """The chart's value for a term of this webhook, nothing where it has none."""
    kind = _KINDS.get(str(one.webhook.get("name")))
    return (f"webhook.webhooks.{kind}.{name}={value}",) if kind else ()


def recreate(cluster: Cluster, one: Registered, *values: str, present: bool) -> str:
    """The command that has the release create again what a registration calls.

    Without a release that could own it, the command deletes the registration. `present` is whether there is a release
    to upgrade.
    """
    if present or one.by_chart:
        return helm(cluster, *values, present=present)
    return unregister(one.name)


def edited(configuration: JSON) -> bool:
    """Whether a manager other than Helm has written more than a caBundle; True without managedFields."""
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
    """The name of Helm's field manager: the manager of Helm's annotation, else the default."""
    for entry in configuration["metadata"].get("managedFields") or ():
        metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
        if _NOTE in (metadata.get("f:annotations") or {}):
            return str(entry.get("manager") or _HELM)
    return _HELM
