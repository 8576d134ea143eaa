"""Why a claim has no devices, or some that its Pod cannot use: classes, free devices, taints, binding conditions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial

from app.claims.model import device_key
from app.claims.why.devices import (
    Device,
    holders,
    hosts_of,
    place_of,
    reach,
    reported_free,
    requested,
    results_of,
    shown_hosts,
    taint_rules,
    tainted,
    untolerated,
)
from app.doctor import commands, objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.objects import Object
from app.kube.conditions import condition
from app.kube.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, controller_of
from app.text import moment, several
from app.why.model import (
    Asking,
    State,
    Unread,
    Verdict,
    absence,
    broken,
    fine,
    get,
    listed,
    once,
    or_else,
    read,
    stuck,
    waits,
)
from app.why.standing import describe
from app.wire import JSON, encode_sorted

NOT_ALLOCATED, UNRESERVED = "BERTH5017", "BERTH5018"
HELD = 300.0
"""Seconds after which kube-controller-manager has taken back the devices that no Pod uses."""
BINDING = 600.0
"""Seconds after which kube-scheduler gives up devices whose binding conditions are not True, by default."""


def asks_of(claim: JSON) -> str:
    """What a claim asks for: `2 of DeviceClass vf`."""
    requests = (objects.spec(claim).get("devices") or {}).get("requests") or ()
    return ", ".join(" or ".join(_asked(exact) for exact in _alternatives(request)) for request in requests)


def _alternatives(request: JSON) -> list[JSON]:
    return [request["exactly"]] if request.get("exactly") else list(request.get("firstAvailable") or ())


def _asked(request: JSON) -> str:
    count = "all" if request.get("allocationMode") == "All" else request.get("count") or 1
    return f"{count} of DeviceClass {request.get('deviceClassName')}"


def judge_unallocated(it: Object) -> Asking[Verdict]:
    """Why no devices are allocated to it."""
    asks, more = asks_of(it.json), describe(it)
    pods = yield from or_else(_users(it), None)
    readable = True
    try:
        hopeless, causes, how = yield from _obstacles(it)
    except Unread:
        readable, hopeless, causes, how = False, False, [], ""
    fix, right = _again(it, pods[0] if pods else None, how) if hopeless else ("", "")
    if pods is not None and not pods:
        next_step = right or "is allocated when a Pod that names it is scheduled"
        causes = causes if hopeless else []
        return waits("not allocated", asks=asks, because=("no Pod uses it", *causes), fix=fix, next=next_step)
    pod = pods[0] if pods else None
    scheduled = objects.condition(pod.json, "PodScheduled") if pod else {}
    if scheduled.get("status") == "False" and scheduled.get("reason") != "SchedulingGated":
        causes.append(plain(scheduled.get("message") or scheduled.get("reason")))
    if pod is not None and objects.spec(pod.json).get("nodeName"):
        cause = f"Pod {pod.name} was bound to node {objects.spec(pod.json)['nodeName']} by no scheduler that allocates"
        return stuck("not allocated", asks=asks, because=(cause, *causes), codes=(NOT_ALLOCATED,), more=more)
    if hopeless:
        codes = (NOT_ALLOCATED,)
        return stuck("not allocated", asks=asks, because=tuple(causes), fix=fix, next=right, codes=codes, more=more)
    if not readable and causes:
        return stuck("not allocated", asks=asks, because=tuple(causes), more=more)
    next_step = "is allocated when a claim gives its devices up" if causes else "is allocated when its Pod is scheduled"
    return waits("not allocated", asks=asks, because=tuple(causes), next=next_step, more=more)


def _users(it: Object) -> Asking[list[Object]]:
    """The Pods that use it and are not over: the one that it was made for, or those that name it."""
    owner = controller_of(it.json["metadata"])
    if owner.get("kind") == "Pod":
        pod = yield from get(PODS, str(owner["name"]), it.namespace)
        return [pod] if pod is not None and pod.json["metadata"].get("uid") == owner.get("uid") else []
    by_claim = yield from read(partial(_by_claim, it.namespace), key=("Pods by claim", it.namespace))
    return [Object(PODS, pod) for pod in by_claim.get(it.name, ())]


async def _by_claim(namespace: str, cluster: Cluster) -> dict[str, list[JSON]]:
    """The Pods of a namespace that name claims, by these."""
    by_claim: dict[str, list[JSON]] = {}
    async for pod in cluster.paged(PODS, namespace=namespace):
        if objects.status(pod).get("phase") not in ("Succeeded", "Failed"):
            for claim in objects.spec(pod).get("resourceClaims") or ():
                by_claim.setdefault(claim.get("resourceClaimName") or "", []).append(pod)
    return by_claim


def _obstacles(it: Object) -> Asking[tuple[bool, list[str], str]]:
    """Why its requests find no devices: whether that does not pass by itself, the causes, and what would be right.

    Raises Unread where classes or devices may not be read.
    """
    causes, how, hopeless = list[str](), "", False
    for request in (objects.spec(it.json).get("devices") or {}).get("requests") or ():
        obstacles = list[tuple[bool, str, str]]()
        for alternative in _alternatives(request):
            # Claims of one template ask for the same.
            key = "obstacle", encode_sorted(alternative)
            obstacle = yield from once(key, partial(_obstacle, alternative))
            if obstacle is None:
                break
            obstacles.append(obstacle)
        else:
            causes += [text for _, text, _ in obstacles]
            hopeless = hopeless or (bool(obstacles) and all(lasts for lasts, _, _ in obstacles))
            how = how or next((right for _, _, right in obstacles if right), "")
    return hopeless, causes, how


def _again(it: Object, pod: Object | None, how: str) -> tuple[str, str]:
    """The command that makes it anew, for neither a claim nor its template can be changed; and which."""
    resource, name, maker = it.resource, it.name, controller_of(it.json["metadata"])
    if maker.get("kind") == "Pod" or not how:
        made = {
            entry.get("name"): entry
            for entry in objects.status(pod.json if pod else {}).get("resourceClaimStatuses") or ()
        }
        entries = objects.spec(pod.json if pod else {}).get("resourceClaims") or ()
        named = [entry for entry in entries if (made.get(entry.get("name")) or {}).get("resourceClaimName") == it.name]
        if not how or not named:
            return "", ""
        resource, name = RESOURCE_CLAIM_TEMPLATES, str(named[0].get("resourceClaimTemplateName"))
    command = commands.rewrite(objects.plural(resource), name, namespace=it.namespace)
    return command, f"{resource.kind} {name} {how}: the command deletes it, and creates it again with that"


def _obstacle(request: JSON) -> Asking[tuple[bool, str, str] | None]:
    """Why one request finds no devices; None where it does, as far as that can be seen."""
    name, count = str(request.get("deviceClassName") or ""), int(request.get("count") or 1)
    device_class = yield from get(DEVICE_CLASSES, name)
    if device_class is None:
        clause, near = yield from absence(DEVICE_CLASSES, name)
        return True, clause, f"with DeviceClass {near}" if near else ""
    slices = [part.json for part in (yield from listed(RESOURCE_SLICES))]
    devices = requested(device_class.json, {}, slices)
    if not devices:
        return True, f"no ResourceSlice has a device of DeviceClass {name}", ""
    fitting = requested(device_class.json, request, slices)
    if not fitting:
        return True, f"the selectors of the request match none of {several(len(devices), 'device')} of {name}", ""
    if reach(fitting) < count:
        most = f"at most {reach(fitting)} on one node" if reach(fitting) < len(fitting) else str(len(fitting))
        return True, f"asks for {count} of DeviceClass {name}, and there are {most}", f"with at most {reach(fitting)}"
    rules = yield from read(taint_rules)
    tolerations = request.get("tolerations") or ()
    taints = {
        place_of(device): untolerated(device, rules, tolerations, "NoSchedule", "NoExecute") for device in fitting
    }
    clean = [device for device in fitting if not taints[place_of(device)]]
    if reach(clean) < count:
        tainted = next(taint for taint in taints.values() if taint)
        return True, f"{_of(fitting, clean)} of {name} without a taint: {tainted}", ""
    # Access for administration takes no device away.
    held = {} if request.get("adminAccess") else (yield from read(holders))
    hosts = hosts_of(clean, held, (yield from read(reported_free)))
    anywhere = sum(host.free for host in hosts if not host.name)
    if anywhere + max((host.free for host in hosts if host.name), default=0) >= count:
        return None
    return False, f"DeviceClass {name}: {shown_hosts(hosts)}", ""


def _of(devices: list[Device], left: list[Device]) -> str:
    return f"{len(left)} of {several(len(devices), 'device')}"


def unreserved(it: Object, now: datetime, *, gone: str = "", since: datetime | None = None) -> Verdict:
    """Its devices are allocated, and it is reserved for no Pod, or for Pods that are gone, as `gone` says.

    `since` is when they were there at the latest.
    """
    allocation = objects.status(it.json).get("allocation") or {}
    allocated, count = moment(allocation.get("allocationTimestamp")), len(results_of(it.json))
    seen = max(filter(None, (since, allocated)), default=None)
    text = f"{several(count, 'device')} {'held for no Pod' if gone else 'allocated, and reserved for no Pod'}"
    cause = "kube-controller-manager takes back devices that no Pod uses"
    begin = None if gone else allocated
    if seen is not None and (now - seen).total_seconds() < HELD:
        return waits(text, since=begin, because=(gone, cause) if gone else (cause,))
    fix = commands.kubectl("delete", it.plural, it.name, namespace=it.namespace)
    because = (gone,) if gone else (f"{cause}, and has not taken these",)
    return stuck(text, since=begin, because=because, fix=fix, codes=(UNRESERVED,), more=describe(it))


def judge_binding(it: Object, now: datetime) -> Verdict | None:
    """Whether its devices are there for its Pod to be bound (KEP-5007); None where nothing is waited for."""
    entries = {device_key(entry): entry for entry in objects.status(it.json).get("devices") or ()}
    missing = list[str]()
    for result in results_of(it.json):
        holder = {"conditions": (entries.get(device_key(result)) or {}).get("conditions") or ()}
        for kind in result.get("bindingFailureConditions") or ():
            failed = condition(holder, kind)
            if failed.get("status") == "True":
                cause = f"{result['device']}: {kind}: {plain(failed.get('message') or failed.get('reason'))}"
                so = "its Pod is scheduled again, with other devices"
                return broken("its devices could not be prepared", because=(cause,), so=so, more=describe(it))
        missing += _missing(result, holder)
    if not missing:
        return None
    since = moment((objects.status(it.json).get("allocation") or {}).get("allocationTimestamp"))
    if since is not None and (now - since).total_seconds() > BINDING:
        so = "its Pod is not bound, and the scheduler should have chosen other devices by now"
        return stuck("waits for its devices", since=since, because=tuple(missing), so=so, more=describe(it))
    next_step = "its Pod is bound when these are True"
    return waits("waits for its devices", since=since, because=tuple(missing), next=next_step, more=describe(it))


def _missing(result: JSON, holder: JSON) -> Iterator[str]:
    for kind in result.get("bindingConditions") or ():
        state = condition(holder, kind)
        if state.get("status") != "True":
            text = state.get("message") or state.get("reason") or f"driver {result['driver']} has not reported it"
            yield f"{result['device']}: binding condition {kind} is not True: {plain(text)}"


def judge_taints(it: Object) -> Asking[Verdict | None]:
    """Devices of it that were tainted since: its Pod has to go."""
    try:
        by_driver = yield from read(tainted)
    except Unread:
        return None
    rules = yield from read(taint_rules)
    causes = []
    for result in results_of(it.json):
        place = result["driver"], result["pool"], result["device"]
        device = by_driver.get(place) or dict(zip(("driver", "pool", "name"), place, strict=True))
        if taint := untolerated(device, rules, result.get("tolerations") or (), "NoExecute"):
            causes.append(f"{result['device']} has taint {taint}, which the claim does not tolerate")
    if not causes:
        return None
    so = "its Pod is evicted, and gets other devices when it is created again"
    return Verdict(State.stuck, "has a device that may not be used", because=tuple(causes), so=so, more=describe(it))


def judge_planned(it: Object) -> Asking[Verdict]:
    """Of one that does not exist yet, whether there are devices for it at all."""
    hopeless, causes, how = yield from or_else(_obstacles(it), (False, [], ""))
    if hopeless:
        fix, right = _again(it, None, how)
        return stuck("would get no devices", asks=asks_of(it.json), because=tuple(causes), fix=fix, next=right)
    return fine("would be created", asks=asks_of(it.json), because=tuple(causes))
