"""Whether Berth is asked about a Pod when that is created, and what leaves it out: its namespace, or itself.

What may not be read leaves nothing out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from app.admission.pods import INJECT
from app.doctor import commands, objects, policies
from app.doctor.cluster import Cluster
from app.doctor.model import or_default
from app.doctor.namespaces import SYSTEM, unhide
from app.doctor.objects import Object
from app.doctor.registrations import for_pods, registering
from app.doctor.webhooks import Registered, selecting, selects
from app.kube.resources import MUTATING_POLICIES, NAMESPACES
from app.placement.model import tenant_of
from app.why.model import Asking, Unread, get, or_else, read
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Unasked:
    """Why Berth is not asked: `cause` is a clause, `fix` the command that changes it ("" where that is meant).

    `own` is True where the Pod itself says so, `meant` where its namespace says so on purpose, `whole` where all Pods
    of its namespace are left out.
    """

    cause: str
    fix: str = ""
    codes: tuple[str, ...] = ()
    own: bool = False
    meant: bool = False
    whole: bool = False


def unasked(pod: Object) -> Asking[Unasked | None]:
    """What leaves a Pod out; None where Berth is asked."""
    if (by_itself := opted_out(pod.json)) is not None:
        return by_itself
    if (in_namespace := (yield from left_out(pod.namespace))) is not None:
        return in_namespace
    body = yield from _namespace(pod.namespace)
    return (yield from or_else(read(partial(_unselected, pod=pod, namespace=body)), None))


def left_out(name: str) -> Asking[Unasked | None]:
    """What leaves all Pods of a namespace out."""
    home = yield from read(home_of)
    if name in (SYSTEM, home):
        return Unasked(f"Berth injects nothing into Pods of namespace {name}", meant=True)
    if (body := (yield from _namespace(name))) is None:
        return (yield from or_else(read(_unregistered), None))
    return (yield from or_else(read(partial(_unselected_namespace, namespace=body)), None))


def are_known() -> Asking[bool]:
    """Whether the registrations may be read: where not, nothing says that Berth is asked."""
    return (yield from or_else(read(injecting), None)) is not None


def _namespace(name: str) -> Asking[JSON | None]:
    """The Namespace, of one that is not there its name alone; None where it may not be read."""
    try:
        namespace = yield from get(NAMESPACES, name)
    except Unread:
        return None
    return {"metadata": {"name": name}} if namespace is None else namespace.json


async def home_of(cluster: Cluster) -> str:
    """The namespace of Berth."""
    return cluster.namespace


def opted_out(pod: JSON) -> Unasked | None:
    """That the Pod itself says so, by the label or the annotation."""
    for place in ("label", "annotation"):
        value = (pod["metadata"].get(f"{place}s") or {}).get(INJECT)
        if str(value).lower() == "false":
            return Unasked(f'the Pod has opted out: its {place} {INJECT} is "false"', own=True)
    return None


async def injecting(cluster: Cluster) -> list[Registered]:
    """Of all releases, for any of them may inject; those of the located one first. Last policies without a webhook."""
    webhooks = [webhook for webhook in await cluster.of_all_releases() if webhook.injects]
    webhooks.sort(key=lambda webhook: webhook.release not in ("", cluster.release))
    alone = await or_default(policies.alone_in(cluster), None)
    return webhooks if alone is None else [*webhooks, alone.registered]


def _is_policy(webhook: Registered) -> bool:
    """Its selectors and conditions follow from those of the release, so no command changes them alone."""
    return webhook.resource == MUTATING_POLICIES


def _place(field: str, webhook: Registered) -> str:
    return f"{field} of {f'{webhook.resource.kind} ' if _is_policy(webhook) else ''}{webhook.webhook.get('name')}"


def _of(webhook: Registered, cluster: Cluster) -> Cluster:
    """The cluster as commands of the webhook's release need it."""
    return replace(cluster, namespace=webhook.home or cluster.namespace, release=webhook.release or cluster.release)


async def _unregistered(cluster: Cluster) -> Unasked | None:
    if await injecting(cluster):
        return None
    webhooks = await cluster.registered()
    if fix := for_pods(cluster, webhooks):
        return Unasked("no MutatingWebhookConfiguration calls Berth for Pods", fix, ("BERTH0501",))
    fix = await registering(cluster, webhooks)
    return Unasked("no MutatingWebhookConfiguration calls Berth", fix, ("BERTH0501",))


async def _unselected_namespace(cluster: Cluster, namespace: JSON) -> Unasked | None:
    webhooks = await injecting(cluster)
    if not webhooks or selecting(webhooks, namespace):
        return await _unregistered(cluster)
    first, name = webhooks[0], namespace["metadata"]["name"]
    hidden, where = objects.labels(namespace).get(INJECT) == "false", _place("namespaceSelector", first)
    fix = unhide(_of(first, cluster), namespace, first, [namespace]) if hidden or not _is_policy(first) else ""
    if hidden:
        cause = f"Berth was not asked: Namespace {name} has the label {INJECT}=false ({where})"
        return Unasked(cause, fix, ("BERTH0508",), meant=True, whole=True)
    unmet = next(_unmet(first.webhook.get("namespaceSelector"), objects.namespace_labels(namespace)), "")
    cause = f"Berth was not asked: Namespace {name} does not match the {where}: {unmet}"
    if tenant_of(namespace):
        return Unasked(cause, fix, ("BERTH0506",), whole=True)
    return Unasked(cause, fix, meant=True, whole=True)


async def _unselected(cluster: Cluster, pod: Object, namespace: JSON | None) -> Unasked | None:
    """What its labels, and the conditions of webhooks, leave out; of all webhooks where its Namespace is not known."""
    own, webhooks = objects.labels(pod.json), await injecting(cluster)
    webhooks = webhooks if namespace is None else selecting(webhooks, namespace)
    selected = [webhook for webhook in webhooks if webhook.selects_object(own)]
    if webhooks and not selected:
        first = webhooks[0]
        unmet = next(_unmet(first.webhook.get("objectSelector"), own), "")
        where = _place("objectSelector", first)
        return Unasked(f"Berth was not asked: the Pod does not match the {where}: {unmet}", own=True)
    refusing = [name for webhook in selected if (name := webhook.refusing(pod.json))]
    if not selected or len(refusing) < len(selected):
        return None
    where = _place(f"condition {refusing[0]}", selected[0])
    if _is_policy(selected[0]):
        return Unasked(f"Berth was not asked: {where} leaves the Pod out", meant=True)
    fix = commands.fix(_of(selected[0], cluster), selected[0], "matchConditions", [])
    return Unasked(f"Berth was not asked: {where} leaves the Pod out", fix)


def _unmet(selector: JSON | None, labels: dict[str, str]) -> Iterator[str]:
    """The requirements of a selector that do not hold, in words."""
    for key, value in ((selector or {}).get("matchLabels") or {}).items():
        if labels.get(key) != value:
            yield f"{key}={value}"
    for expression in (selector or {}).get("matchExpressions") or ():
        if not selects({"matchExpressions": [expression]}, labels):
            values = f" [{', '.join(expression['values'])}]" if expression.get("values") else ""
            yield f"{expression.get('key')} {expression.get('operator')}{values}"
