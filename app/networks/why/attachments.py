"""The verdict on a NetworkAttachmentDefinition: whether it can be used, what offers its device, and who waits."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from functools import partial

from app.claims.checks.roads import offer_of
from app.claims.roads import Demand, Offer, demands_of, devices_of, multus_finds
from app.doctor import commands, objects
from app.doctor.catalog import listed as several_of
from app.doctor.catalog import plain
from app.doctor.cluster import LIVING, Cluster
from app.doctor.model import Finding, Severity, error, or_default, warning
from app.doctor.objects import Object
from app.errors import ApiError, Denied
from app.kube.resources import NETWORK_ATTACHMENTS, PODS, RESOURCE_SLICES
from app.networks.interfaces import chosen_by
from app.networks.model import (
    RESOURCE_NAME,
    attachment_problems,
    attachment_warnings,
    project_with_claims,
    unrequestable,
)
from app.networks.settings import NetworksSettings
from app.text import closest
from app.why.model import Asking, Verdict, broken, fine, judged, listed, or_else, read, stuck, waits
from app.why.standing import describe
from app.wire import JSON

_NAMED = 3
UNREAD = "BERTH1208"
"""The code of Pods that wait for a device, where it cannot be read what nodes offer."""
ASK_ADMINISTRATOR = "an administrator can list the nodes and see whether one offers it"
_Waiting = Mapping[tuple[str, str], list[str]]
"""Pods that are not well by the attachments that they select, these by namespace and name."""


def attachment_finding(it: Object, keys: Sequence[str], devices: Sequence[JSON]) -> Finding | None:
    """What keeps an attachment from being used; `devices` are those of all ResourceSlices."""
    if problems := attachment_problems(it.json, keys):
        case = "denied" if any(problem.startswith("metadata.annotations") for problem in problems) else ""
        return error("BERTH1101", it, case=case, problems="; ".join(problems))
    if all(any(multus_finds(device, name) for device in devices) for name in unrequestable_names(it.json, keys)):
        return None
    problems = list(attachment_warnings(it.json, keys, claims=True))
    return warning("BERTH1101", it, case="unasked", problems="; ".join(problems))


def unrequestable_names(attachment: JSON, keys: Sequence[str]) -> list[str]:
    """The names of its resources that no container can ask for."""
    return [name for name in project_with_claims(attachment, keys).resources if unrequestable(name)]


async def networks_settings(cluster: Cluster) -> NetworksSettings:
    """As the webhook has them."""
    return await cluster.settings(NetworksSettings)


def judge_attachment(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """Whether Pods that select it get what they need."""
    settings = yield from read(networks_settings)
    keys = settings.resource_name_keys
    devices = (yield from or_else(_devices(), None)) if unrequestable_names(it.json, keys) else []
    if devices is not None and (finding := attachment_finding(it, keys, devices)) is not None:
        return (yield from _unusable(it, finding))
    demands = [demand for demand in demands_of(project_with_claims(it.json, keys)) if demand.name]
    asks = ", ".join(f"DeviceClass {demand.name}" if demand.by_class else demand.name for demand in demands)
    offer = (yield from or_else(read(offer_of), None)) if demands else None
    if demands and offer is None:
        return (yield from _as_its_pods(it, asks))
    missing = [demand for demand in demands if offer is not None and is_missing(demand, offer)]
    if offer is None or not missing:
        return fine("can be used" if it.json["metadata"].get("uid") else "would be created", asks=asks)
    pods = yield from _waiting_for(it)
    because = tuple(unoffered(demand, offer) for demand in missing)
    fix, exists = correction(it, missing[0], offer), bool(it.json["metadata"].get("uid"))
    next_step = "" if fix else f"ask for what nodes offer, or install the driver of {missing[0].name}"
    fix = fix or (commands.edit(it.resource, it.name, namespace=it.namespace) if exists else "")
    if not pods:
        # It may be there before its driver.
        next_step = "its Pods run when a driver offers it"
        return waits("nothing offers what it asks for", asks=asks, because=because, fix=fix, next=next_step)
    so = f"{_hang(pods)} Pending"
    return stuck("nothing offers what it asks for", asks=asks, because=because, so=so, fix=fix, next=next_step)


def _as_its_pods(it: Object, asks: str) -> Asking[Verdict]:
    """What a user learns who may not read what nodes and drivers offer: whether Pods of the user wait for it."""
    text = "has no mistake in it" if it.json["metadata"].get("uid") else "would be created"
    unknown, more = unread_offer(asks), describe(it)
    for pod in (yield from _waiting_for(it))[:_NAMED]:
        namespace, _, name = pod.removeprefix(f"{PODS.kind} ").partition("/")
        verdict = yield from judged(PODS, name, namespace)
        if verdict is not None and UNREAD in verdict.codes:
            return stuck("Pods wait for its device", asks=asks, because=(unknown,), more=more).after(verdict, of=pod)
    return fine(text, asks=asks, because=(unknown,), next=ASK_ADMINISTRATOR)


def unread_offer(names: str) -> str:
    """The clause that it is not known whether these are offered."""
    return plain(f"what nodes offer could not be read: {names} may be missing")


def _devices() -> Asking[list[JSON]]:
    slices = yield from listed(RESOURCE_SLICES)
    return [device for part in slices for device in objects.spec(part.json).get("devices") or ()]


def _unusable(it: Object, finding: Finding) -> Asking[Verdict]:
    because, so, codes = [finding.message], finding.consequence, (finding.code,)
    if finding.severity < Severity.error:
        return stuck("gives no device", because=tuple(because), so=so, fix=finding.command, codes=codes)
    if not it.json["metadata"].get("uid"):
        return broken("would be refused", because=tuple(because), so=so, codes=codes)
    if unchecked := (yield from read(lambda cluster: _unchecked(cluster, it))):
        because.append(unchecked)
    if pods := (yield from _waiting_for(it)):
        so = f"Multus cannot attach it: {_hang(pods)} in ContainerCreating"
    return broken("is broken", because=tuple(because), so=so, fix=finding.command, codes=codes)


async def _unchecked(cluster: Cluster, it: Object) -> str:
    """Why it was not refused when it was written, as far as registrations can be read and show it."""
    webhooks = await or_default(cluster.of_all_releases(), None)
    checking = [
        webhook
        for webhook in webhooks or ()
        if not webhook.mutating and webhook.covers(it.resource.group, it.resource.plural, "CREATE")
    ]
    if webhooks is not None and not checking:
        return "no ValidatingWebhookConfiguration has Berth check attachments"
    since = min((when for webhook in checking if (when := objects.created(webhook.configuration))), default=None)
    made = objects.created(it.json)
    if since is None or made is None or made >= since:
        return ""
    return f"it is older than the registration of that check ({since:%Y-%m-%d %H:%M} UTC)"


def _hang(pods: list[str]) -> str:
    return f"{several_of(pods, _NAMED)} {'stays' if len(pods) == 1 else 'stay'}"


def is_missing(demand: Demand, offer: Offer) -> bool:
    """Whether no node and no driver has what is asked for."""
    return demand.road(offer).missing


def unoffered(demand: Demand, offer: Offer) -> str:
    """The clause that nothing offers what is asked for, with what is offered; the one that was meant comes first."""
    names = offered_by(demand, offer)
    near = closest(demand.name, names)
    others = f"; there is {near}" if near else ""
    if demand.by_class:
        return plain(f"nothing offers a device: {demand.road(offer).text.partition(': ')[2]}{others}")
    if not near:
        others = f" (nodes offer {several_of(names)})" if names else " (nodes offer no device)"
    hints = demand.road(offer).text.removeprefix("nothing offers it")
    return plain(f"nothing offers {demand.name}{others}{hints}")


def offered_by(demand: Demand, offer: Offer) -> list[str]:
    """The names of what could be asked for in place of it: DeviceClasses, or the devices of nodes."""
    if demand.by_class:
        return sorted(obj["metadata"]["name"] for obj in offer.classes)
    return offered_names(offer)


def offered_names(offer: Offer) -> list[str]:
    """The devices of nodes as containers ask for them: of device plugins, and of DRA by the names that classes give."""
    names = {name for amounts in offer.nodes.values() for name in amounts if "/" in name}
    mapped = [(name, obj) for obj in offer.classes if (name := objects.spec(obj).get("extendedResourceName"))]
    return sorted(names | {name for name, obj in mapped if devices_of(obj, offer.slices)})


def correction(it: Object, demand: Demand, offer: Offer) -> str:
    """The command that has an attachment ask for what was probably meant; "" where nothing is near."""
    near = closest(demand.name, offered_by(demand, offer))
    annotations = it.json["metadata"].get("annotations") or {}
    key = next((key for key, value in annotations.items() if str(value).strip() == demand.name), RESOURCE_NAME)
    if not near or key not in annotations or not it.json["metadata"].get("uid"):
        return ""
    return commands.kubectl("annotate", it.plural, it.name, f"{key}={near}", "--overwrite", namespace=it.namespace)


def _waiting_for(it: Object) -> Asking[list[str]]:
    """Pods that select it and are not well, as far as Pods may be listed."""
    key: Hashable = ("Pods on networks", it.namespace)
    pods: _Waiting = yield from or_else(read(partial(_waiting, namespace=it.namespace), key=key), {})
    return pods.get((it.namespace, it.name), [])


async def _waiting(cluster: Cluster, namespace: str) -> _Waiting:
    """Of all namespaces, of this one alone where no others may be read. A page of Pods in memory at a time."""
    try:
        return await _selecting(cluster, None)
    except ApiError as refusal:
        if refusal.status != 403:
            raise
        return await _selecting(cluster, namespace)


async def _selecting(cluster: Cluster, namespace: str | None) -> _Waiting:
    waiting: dict[tuple[str, str], list[str]] = {}
    home = (await networks_settings(cluster)).default_network_namespace
    async for pod in cluster.paged(PODS, namespace=namespace, field_selector=LIVING):
        if objects.waits_for(pod) is None:
            continue
        metadata = pod["metadata"]
        try:
            chosen = chosen_by(metadata.get("annotations") or {}, metadata["namespace"])
        except Denied:
            continue
        for selection in {*chosen.selections, *([chosen.default] if chosen.default else [])}:
            key = (selection.namespace or home, selection.name)
            waiting.setdefault(key, []).append(objects.subject(PODS.kind, pod))
    return waiting


JUDGES = {NETWORK_ATTACHMENTS: judge_attachment}
