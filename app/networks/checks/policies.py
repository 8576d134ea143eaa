"""The check `policies`: whether the admission policies of Berth that are installed are those that it makes today."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Collection
from typing import Any

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, all_well, error, warning
from app.doctor.policies import Kept, configuration_of, generated_in, kept_in, terms_in
from app.kube.resources import MUTATING_WEBHOOKS
from app.policies.keeping import KINDS, Difference, Ident, condition_of, difference, ident_of
from app.policies.model import PolicyMode
from app.policies.objects import CONDITION, POLICIES_OF
from app.text import several
from app.wire import JSON

_KINDS = ",".join(resource.plural for resource in reversed(KINDS))
"""As kubectl takes them; bindings first."""
_BY_HAND = ("kubectl-edit", "kubectl-patch", "kubectl-client-side-apply")


async def _policies(cluster: Cluster) -> AsyncIterator[Finding]:
    installed: dict[str, dict[Ident, JSON]] = defaultdict(dict)
    for kind in KINDS:
        for obj in await cluster.listed(kind, label_selector=POLICIES_OF):
            name = obj["metadata"]["labels"][POLICIES_OF]
            installed[name][ident_of({"kind": kind.kind, **obj})] = obj
    kept = await kept_in(cluster)
    mode = kept.config.mode if kept is not None and kept.config is not None else None
    if kept is not None and mode not in (None, "webhook"):
        installed.setdefault(kept.name, {})
    for finding in await _orphaned(cluster, installed):
        yield finding
    for name, there in installed.items():
        if kept is not None and mode is not None and (name != kept.name or mode == "webhook"):
            yield warning("BERTH1303", _first(there), name=name, kinds=_KINDS, count=len(there))
            continue
        async for finding in _compared(cluster, name, there, kept):
            yield finding


async def _orphaned(cluster: Cluster, installed: Collection[str]) -> list[Finding]:
    """Conditions that leave Pods to policies that are not there, and that no controller writes."""
    webhooks = await cluster.of_all_releases()
    # Policies that were applied by hand may have any name, and are then of any configuration.
    named_freely = set(installed) - {webhook.name for webhook in webhooks}
    return [
        error("BERTH1305", objects.named(MUTATING_WEBHOOKS, webhook.name), command=command)
        for webhook in webhooks
        if webhook.injects and webhook.name not in installed and not named_freely
        if (command := commands.drop_condition(webhook, CONDITION))
    ]


def _first(there: dict[Ident, JSON]) -> objects.Object:
    ident = next(iter(there))
    return objects.named(ident.resource, ident.name)


async def _compared(cluster: Cluster, name: str, there: dict[Ident, JSON], kept: Kept | None) -> AsyncIterator[Finding]:
    mode = _mode(name, there, kept)
    generated = await generated_in(cluster, await terms_in(cluster, {}, mode, name))
    case, change = "kept" if kept is not None else "", difference(generated.objects, there)
    words: dict[str, Any] = {"name": name, "mode": mode, "home": cluster.namespace, "release": cluster.release}
    for obj in change.missing:
        yield error("BERTH1301", _object(ident_of(obj)), case=case, **words)
    for obj in change.stale:
        by = _editor(there[ident_of(obj)])
        yield warning("BERTH1302", _object(ident_of(obj)), case=f"{case} edited" if by else case, by=by, **words)
    for ident in change.extra:
        yield warning("BERTH1302", _object(ident), case=f"{case} extra", by="", **words)
    configuration = await configuration_of(cluster, name)
    condition = condition_of(configuration)
    if configuration is not None and condition and condition != generated.condition:
        it = objects.named(MUTATING_WEBHOOKS, name)
        yield warning("BERTH1304", it, case=case, **words)
    if change == Difference():
        served, left = several(len(generated.networks), "attachment"), len(generated.left)
        yield all_well(f"policies {name}", f"are those of today: {served} served, {left} left")


def _object(ident: Ident) -> objects.Object:
    return objects.named(ident.resource, ident.name)


def _mode(name: str, there: dict[Ident, JSON], kept: Kept | None) -> PolicyMode:
    """That of the controller; of what was applied by hand, as what is there says it."""
    if kept is not None and kept.config is not None:
        return "both" if kept.config.mode == "both" else "policies"
    return "policies" if Ident("ValidatingAdmissionPolicyBinding", f"{name}-left") in there else "both"


def _editor(obj: JSON) -> str:
    """Who has edited the spec by hand, "" where no user has."""
    managers = [str(entry.get("manager")) for entry in obj["metadata"].get("managedFields") or ()]
    return next((manager for manager in managers if manager in _BY_HAND), "")


CHECK = Check("policies", (_policies,))
