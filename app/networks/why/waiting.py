"""The verdict on a Pod without a node over what it asks for: what nothing offers, and what no node has so much of."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from app.admission.pods import Pod, pod_from
from app.claims.checks.roads import offer_of
from app.claims.injection.claims import extended_resources
from app.claims.roads import Demand, Offer, demands_of, devices_of, serves
from app.claims.why.devices import holders, hosts_of, plugin_hosts, reported_free, shown_hosts
from app.doctor import commands, objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.objects import Object
from app.errors import Denied
from app.kube import quantity
from app.kube.resources import NETWORK_ATTACHMENTS, NODES
from app.networks.model import NODE_SELECTOR, Attachment, parse_node_selector
from app.networks.why.attachments import (
    ASK_ADMINISTRATOR,
    UNREAD,
    correction,
    is_missing,
    unoffered,
    unread_offer,
)
from app.networks.why.makers import Owner, maker_of
from app.networks.why.selected import Selected, selected_by
from app.why.model import Asking, Unread, Verdict, fine, or_else, read, stuck, waits
from app.why.standing import describe
from app.wire import JSON

_BY_HAND = "delete the Pod and create it again: it has no controller that does"


def judge_waiting(it: Object, selected: Selected | None) -> Asking[Verdict | None]:
    """Why no node will ever take it; None of one that has a node. `selected` is what would be injected, or was."""
    exists, status = bool(it.json["metadata"].get("uid")), objects.status(it.json)
    if exists and (objects.spec(it.json).get("nodeName") or status.get("phase") != "Pending"):
        return None
    try:
        pod = pod_from(it.json)
    except Denied:
        return None
    attachments = selected.distinct if selected is not None else []
    demands = _demands(pod, [] if exists else attachments)
    offer = (yield from or_else(read(offer_of), None)) if demands else None
    because, fixes = list[str](), list[str]()
    missing = [demand for demand in demands if offer is not None and is_missing(demand, offer)]
    if offer is not None:
        because += [unoffered(demand, offer) for demand in missing]
        because += [clause for demand in demands if (clause := _too_many(pod, demand, offer))]
        fixes += [
            correction(attachment, demand, offer)
            for attachment, asking in attachments
            for demand in demands_of(asking)
            if demand in missing
        ]
    for clause, command in (yield from _unfit(pod, attachments, exists=exists)):
        because.append(clause)
        fixes.append(command)
    if not because:
        asks = "" if attachments else _asks(pod)
        if offer is None:
            return _told(it, demands, asks) if exists else _unknown(demands)
        return (yield from _taken(pod, demands, offer, asks)) if exists else None
    fix, next_step = next(filter(None, fixes), ""), _next(missing, attachments)
    if exists:
        asking = next((at for at, asked in attachments if missing and missing[0] in demands_of(asked)), None)
        fix, next_step = _renewing((yield from maker_of(it.json)), it, fix, asking, next_step)
    return stuck(
        "" if exists else "would stay Pending",
        asks="" if attachments else _asks(pod),
        because=tuple(because),
        so="no node can take it",
        fix=fix,
        next=next_step,
        codes=("BERTH1207",),
    )


def _renewing(owner: Owner, it: Object, fix: str, asking: Object | None, next_step: str) -> tuple[str, str]:
    """What corrects the cause of a Pod that exists and what makes the Pod again, with what is done by hand."""
    if fix:
        return f"{fix}\n{owner.renew([it.name])}", owner.again
    if asking is None:
        return owner.edit(), owner.change(next_step or "ask for what one node has")
    edit = commands.edit(asking.resource, asking.name, namespace=asking.namespace)
    if owner.again:  # an editor that was left without a change exits with 0, too
        return edit, f"{next_step}; {_BY_HAND} after a change of the attachment"
    return f"{edit} && {owner.renew([it.name])}", next_step


def remedy_of(it: Object, resource: str, offer: Offer, owner: Owner, pods: list[str]) -> Asking[str]:
    """The command that ends the wait of Pods of an owner for a resource that nothing offers; `it` is one of them.

    A Pod without a controller is not deleted: nothing would create it again. Where it cannot be told what asks for the
    resource, the command shows the Pod.
    """
    try:
        selected = yield from selected_by(it)
    except Unread:
        return describe(it)
    if selected is not None and (selected.refused or selected.unread):
        return describe(it)
    demand, attachments = Demand(resource, by_class=False), selected.distinct if selected is not None else []
    asking = next((attachment for attachment, asked in attachments if demand in demands_of(asked)), None)
    if asking is None:
        return owner.edit()
    change = correction(asking, demand, offer)
    change = change or commands.edit(asking.resource, asking.name, namespace=asking.namespace)
    return f"{change}  # then {_BY_HAND}" if owner.again else f"{change} && {owner.renew(pods)}"


def _told(it: Object, demands: list[Demand], asks: str) -> Verdict | None:
    """That it waits for its devices, for a user who may not read what nodes offer."""
    unschedulable = objects.condition(it.json, "PodScheduled").get("reason") == "Unschedulable"
    if not unschedulable or not (demands or objects.spec(it.json).get("resourceClaims")):
        return None
    # What the scheduler says is the cause that the verdict on the Pod has anyway.
    return stuck("", asks=asks, so="no node takes it until one has what it asks for", codes=(UNREAD,))


def _unknown(demands: list[Demand]) -> Verdict | None:
    """That nothing is promised of a Pod that is not there yet."""
    names = ", ".join(demand.name for demand in demands)
    return fine("", because=(unread_offer(names),), next=ASK_ADMINISTRATOR) if names else None


def _taken(pod: Pod, demands: list[Demand], offer: Offer, asks: str) -> Asking[Verdict | None]:
    """Which devices are there and taken, and by whom; None where a node has enough of each."""
    causes = list[str]()
    for demand in demands:
        by_name = yield from or_else(read(plugin_hosts), None)
        if by_name is None:
            return None  # what is taken is not known
        hosts = by_name.get(demand.name, [])
        for device_class in offer.classes:
            if serves(device_class, demand.name) and (devices := devices_of(device_class, offer.slices)):
                held = yield from or_else(read(holders), None)
                if held is None:
                    return None
                on_plugins = {host.name for host in hosts}
                own = [device for device in devices if device["node"] not in on_plugins]
                hosts = [*hosts, *hosts_of(own, held, (yield from read(reported_free)))]
        if hosts and _amount(pod, demand.name) > max(host.free for host in hosts):
            causes.append(f"{demand.name}: {shown_hosts(hosts)}")
    if not causes:
        return None
    return waits("", asks=asks, because=tuple(causes), next="starts when one of these Pods or claims ends")


def _demands(pod: Pod, attachments: list[tuple[Object, Attachment]]) -> list[Demand]:
    """What its containers ask for, and would by these attachments; not what no container can ask for."""
    demands = [Demand(request.resource, False) for request in extended_resources(pod)]
    demands += [demand for _, attachment in attachments for demand in demands_of(attachment)]
    return [demand for demand in dict.fromkeys(demands) if demand.by_class or "/" in demand.name]


def _next(missing: list[Demand], attachments: list[tuple[Object, Attachment]]) -> str:
    """What ends it, where nothing shows what was meant."""
    if not missing:
        return ""
    asking = next((key.key for _, key in attachments if missing[0] in demands_of(key)), "it")
    return f"have {asking} ask for what nodes offer, or install the device plugin or DRA driver of {missing[0].name}"


def _asks(pod: Pod) -> str:
    return ", ".join(f"{request.resource}: {_amount(pod, request.resource):f}" for request in extended_resources(pod))


def _too_many(pod: Pod, demand: Demand, offer: Offer) -> str:
    """The clause that no node has as many as one Pod asks for; of what device plugins alone offer."""
    if demand.by_class or demand.road(offer).ways != ("device plugin",):
        return ""
    wanted = _amount(pod, demand.name)
    most, node = max((_parsed(amounts.get(demand.name)), node) for node, amounts in offer.nodes.items())
    return (
        f"asks for {demand.name}: {wanted:f}; no node has more than {node}, which has {most:f}" if wanted > most else ""
    )


def _amount(pod: Pod, resource: str) -> Decimal:
    """What its containers ask for together."""
    amounts = (container.resources for container in pod.spec.containers if container.resources is not None)
    return sum((_parsed(part.limits.get(resource) or part.requests.get(resource)) for part in amounts), Decimal())


def _parsed(amount: object) -> Decimal:
    try:
        return quantity.parse(amount or 0)
    except ValueError:
        return Decimal()


def _unfit(pod: Pod, attachments: list[tuple[Object, Attachment]], *, exists: bool) -> Asking[list[tuple[str, str]]]:
    """Attachments for nodes that are not there, each as a clause, with the command that opens it.

    Of a Pod that exists those whose labels it has.
    """
    asking = [
        (it, attachment, labels)
        for it, attachment in attachments
        if (labels := _labels(attachment)) and (not exists or labels.items() <= pod.spec.node_selector.items())
    ]
    nodes = (yield from or_else(read(_nodes), None)) if asking else None
    return list(_without_node(asking, nodes)) if nodes is not None else []


def _labels(attachment: Attachment) -> dict[str, str]:
    """Those of the nodes that an attachment is for; none where its annotation cannot be read."""
    try:
        return dict(parse_node_selector(attachment.node_selector))
    except ValueError:
        return {}


async def _nodes(cluster: Cluster) -> list[JSON]:
    return await cluster.listed(NODES)


def _without_node(
    asking: list[tuple[Object, Attachment, dict[str, str]]], nodes: list[JSON]
) -> Iterator[tuple[str, str]]:
    for it, attachment, labels in asking:
        if not any(labels.items() <= objects.labels(node).items() for node in nodes):
            text = f"no node has {attachment.node_selector}, as {attachment.key} wants it (annotation {NODE_SELECTOR})"
            fix = commands.edit(NETWORK_ATTACHMENTS, it.name, namespace=it.namespace)
            yield plain(text), fix if it.json["metadata"].get("uid") else ""
