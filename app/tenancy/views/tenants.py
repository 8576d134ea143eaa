"""View `tenants`: each with its certificates, its cluster, its hosts, the last contact of its agent, and its rules."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import NamedTuple

from app.doctor import objects
from app.doctor.cluster import Cluster
from app.doctor.objects import Object
from app.status.reading import Reading
from app.tenancy.model import link_of
from app.tenancy.sections import certificate_days
from app.text import several
from app.ui.details import Detail, Line, detail, line
from app.ui.objects import Field, Listed, objects_view
from app.ui.subjects import Target
from app.ui.view import Asked
from app.why.model import Verdict
from app.wire import JSON
from app.workloads.model import TENANT_RULES, TENANTS, tenant_namespace


class Rules(NamedTuple):
    """The rules of a tenant as their statuses count them; `unread` says what may not be read."""

    lines: tuple[Line, ...]
    text: str
    unread: tuple[str, ...]


async def _detail(asked: Asked, it: Object, _verdict: Verdict | None) -> Detail:
    now = await asked.kept("clock", _now)
    rules = await asked.kept(("rules of tenant", it.name), partial(_rules, it.name))
    days = certificate_days((objects.spec(it.json).get("identity") or {}).get("certificates") or (), now)
    lines = (*(line(text) for text in rules.unread), *rules.lines)
    return detail(lines, certificate="" if days is None else several(days, "day"), rules=rules.text)


async def _now(cluster: Cluster) -> datetime:
    return cluster.now()


async def _rules(tenant: str, cluster: Cluster) -> Rules:
    reading = Reading(cluster)
    rules = await reading.tried(cluster.listed(TENANT_RULES, namespace=tenant_namespace(tenant)), [])
    if reading.unread:
        return Rules((), "?", tuple(reading.unread))
    matched, running = (sum(_count(rule, name) for rule in rules) for name in ("matched", "running"))
    text = f"{several(len(rules), 'rule')}: {matched} matched, {running} running" if rules else "no rules"
    return Rules(tuple(_lines(rules)), text, ())


def _lines(rules: list[JSON]) -> Iterator[Line]:
    """Those that say a problem come first."""
    for rule in sorted(rules, key=lambda rule: objects.status(rule).get("result") != "error"):
        metadata, said = rule["metadata"], objects.status(rule)
        failed = said.get("result") == "error"
        text = f"{_count(rule, 'matched')} matched, {_count(rule, 'running')} running"
        if failed:
            text = f"{text}: {said.get('message') or 'it says no reason'}"
        target = Target(kind=TENANT_RULES.kind, namespace=metadata["namespace"], name=metadata["name"])
        yield line(text, target, "broken" if failed else "")


def _count(rule: JSON, name: str) -> int:
    number = objects.status(rule).get(name)
    return number if isinstance(number, int) else 0


def _hosts(tenant: JSON) -> str:
    hosts = objects.spec(tenant).get("hosts")
    return "any" if hosts is None else str(len(hosts))


VIEW = objects_view(
    "tenants",
    "Tenants",
    "Tenants: how long their certificates hold, their cluster, their hosts, the last contact of their agent, and what "
    "their rules match.",
    Listed(
        TENANTS,
        (
            Field("certificate", "certificate ends in"),
            Field("cluster", "cluster", lambda obj: link_of(obj).cluster),
            Field("hosts", "hosts", _hosts),
            Field("lastContact", "last contact", lambda obj: str(objects.status(obj).get("lastContact") or "")),
            Field("rules", "rules"),
        ),
        _detail,
    ),
)
