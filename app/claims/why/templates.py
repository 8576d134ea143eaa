"""The verdicts on what claims are made from: ResourceClaimTemplates and DeviceClasses."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from app.claims.claim_templates import hash_of, stored_template, template_body
from app.claims.definitions import (
    CLASS_PREFIX,
    Definition,
    Definitions,
    all_definitions,
    of_class,
    parse_definitions,
    stored_class,
)
from app.claims.settings import TemplateSettings
from app.claims.why.devices import Device, holders, place_of, reported_for, reported_free, requested
from app.doctor import acting, commands, objects
from app.doctor.catalog import listed as several_of
from app.doctor.cluster import Cluster
from app.doctor.model import or_default
from app.doctor.objects import Object
from app.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
)
from app.kube.store import key_of
from app.text import several
from app.why.model import Asking, Unread, Verdict, absence, fine, get, listed, or_else, read, stuck, waits
from app.why.standing import describe

CONTROLLER = "claim-templates"
TEMPLATES_NOT_KEPT, FOREIGN = "BERTH5013", "BERTH5014"
_SHOWN = 3


async def definitions(cluster: Cluster) -> Definitions:
    """Those in force: of the ConfigMap, none of a malformed one, and of DeviceClasses. Raises ApiError."""
    role = "controller" if CONTROLLER in await cluster.controllers() else "webhook"
    name = (await cluster.settings(TemplateSettings, role=role)).claim_templates
    config_map = await cluster.get(CONFIG_MAPS, name, namespace=cluster.namespace)
    try:
        configured = parse_definitions(config_map or {})
    except ValueError:
        configured = {}
    return all_definitions(configured, map(stored_class, await cluster.listed(DEVICE_CLASSES)))


async def templates_unkept(cluster: Cluster) -> tuple[str, str] | None:
    """That the controller of templates does not run, with the command; None where it does, or may run elsewhere."""
    if not await or_default(cluster.installed(), []) or CONTROLLER in await cluster.controllers():
        return None
    return f"controller {CONTROLLER} does not run", await acting.choose(cluster, CONTROLLER)


def judge_template(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """Whether it is what its definition says, and asks for DeviceClasses that there are."""
    spec = (objects.spec(it.json).get("spec") or {}).get("devices") or {}
    for request in spec.get("requests") or ():
        for exact in [request["exactly"]] if request.get("exactly") else request.get("firstAvailable") or ():
            name = str(exact.get("deviceClassName") or "")
            if (yield from or_else(_exists(name), True)):
                continue
            clause, _ = yield from absence(DEVICE_CLASSES, name)
            so = "Pods with a claim of it stay Pending"
            return stuck("asks for what is not there", because=(clause,), so=so, more=describe(it))
    own = stored_template(it.json)
    try:
        definition = yield from _definition(it.name, own=own is not None)
    except Unread:
        return fine("is there, and not made by Berth" if own is None else "is made by Berth")
    if own is None:
        if definition is None:
            return fine("is there, and not made by Berth")
        fix = commands.kubectl("delete", it.plural, it.name, namespace=it.namespace)
        return stuck(foreign_text(it), fix=fix, codes=(FOREIGN,))
    unkept = yield from read(templates_unkept)
    current = definition is not None and hash_of(template_body(key_of(it.json), definition)) == own.made_from
    if current:
        return fine("is made of the definition of this name")
    text = "is made of an earlier definition" if definition else "its definition is gone"
    if unkept is None:
        return waits(text, next="is replaced, or goes, in a moment")
    return stuck(text, because=(unkept[0],), fix=unkept[1], codes=(TEMPLATES_NOT_KEPT,))


def _definition(name: str, *, own: bool) -> Asking[Definition | None]:
    """What a template of this name is made of. Raises Unread where that is not known."""
    definition = (yield from read(definitions)).get(name)
    if definition is None and own and name.startswith(CLASS_PREFIX):
        classes = [stored_class(obj.json) for obj in (yield from listed(DEVICE_CLASSES))]
        return next((of_class(device_class, name) for device_class in classes if device_class.template == name), None)
    return definition


def _exists(name: str) -> Asking[bool]:
    return (yield from get(DEVICE_CLASSES, name)) is not None


def foreign_text(it: Object) -> str:
    """Of a template with the name of a definition, that it is another one."""
    return f"was not made from the definition {it.name}, and has its name"


def judge_class(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """Who offers its devices, and how many of them are free."""
    slices = [part.json for part in (yield from listed(RESOURCE_SLICES))]
    devices = requested(it.json, {}, slices)
    resource = objects.spec(it.json).get("extendedResourceName")
    asks = f"extended resource {resource}" if resource else ""
    if not devices:
        drivers = sorted({part["spec"]["driver"] for part in slices})
        cause = (
            f"its selectors match no device of {several_of(drivers)}"
            if drivers
            else "no driver publishes ResourceSlices"
        )
        fix = commands.edit(DEVICE_CLASSES, it.name) if drivers else ""
        return stuck("offers no device", asks=asks, because=(cause,), fix=fix, more=describe(it))
    offers = _offers(devices)
    held = yield from or_else(read(holders), None)
    reported = yield from read(reported_free)
    free = sum(reported_for(devices, reported).values()) if reported_for(devices, reported) else None
    if free is None and held is not None:
        free = sum(place_of(device) not in held for device in devices)
    counted = several(len(devices), "device")
    if free is None:
        return fine(f"offers {counted}: {offers}", asks=asks)
    text = f"offers {counted}, {free} free: {offers}"
    if free:
        return fine(text, asks=asks)
    by = (
        Counter(held[place_of(device)] for device in devices if place_of(device) in (held or {})) if held else Counter()
    )
    causes = [f"ResourceClaim {claim} has {several(count, 'device')}" for claim, count in by.most_common(_SHOWN)]
    causes += [f"{len(by) - _SHOWN} more claims have the rest"] if len(by) > _SHOWN else []
    next_step = "a device is free when one of these claims ends"
    return waits(text, asks=asks, because=tuple(causes), next=next_step, more=describe(it))


def _offers(devices: list[Device]) -> str:
    """By driver and node, the most first."""
    where = Counter((device["driver"], device["node"] or "no single node") for device in devices)
    return several_of([f"{count} of {driver} on {node}" for (driver, node), count in where.most_common()], _SHOWN)


JUDGES = {RESOURCE_CLAIM_TEMPLATES: judge_template, DEVICE_CLASSES: judge_class}
