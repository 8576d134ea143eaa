"""Services on secondary networks and definitions of claims, for the check `claims`: who keeps them, and mistakes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from app.claims.definitions import CLASS_DEFINITION, Definitions, all_definitions, parse_definitions, stored_class
from app.claims.services.model import NETWORK
from app.claims.services.stored import stored_service
from app.claims.settings import TemplateSettings
from app.claims.templates.planning import stored_template
from app.doctor import acting, objects
from app.doctor.claims_publishers import is_installed
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, error, of_each, warning
from app.kube.resources import CONFIG_MAPS, DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, SERVICES
from app.wire import JSON

_MOST = 50
_SERVICES, _TEMPLATES = "network-services", "claim-templates"


async def services(cluster: Cluster) -> AsyncIterator[Finding]:
    """Services that ask for endpoints on a network get them."""
    asking = (obj async for obj in cluster.paged(SERVICES) if stored_service(obj) is not None)
    if _SERVICES not in await cluster.controllers():
        names = [f"{obj['metadata']['namespace']}/{obj['metadata']['name']}" async for obj in asking]
        if names and await is_installed(cluster):
            values: dict[str, Any] = {"count": len(names), "names": names, "key": NETWORK, "controller": _SERVICES}
            yield error("BERTH5010", "", command=await acting.choose(cluster, _SERVICES), **values)
        return

    def judge(obj: JSON) -> Finding | None:
        found = stored_service(obj)
        if found is None or found.problem is None:
            return None
        case = "refused" if found.problem.refused else ""
        return error("BERTH5011", objects.Object(SERVICES, obj), case=case, problem=found.problem.message)

    async for finding in of_each(asking, judge, most=_MOST, noun="Service on a secondary network"):
        yield finding


async def definitions(cluster: Cluster) -> AsyncIterator[Finding]:
    """Definitions can be read, are kept by a controller, and have their names for themselves."""
    runs = _TEMPLATES in await cluster.controllers()
    role = "controller" if runs else "webhook"
    name, home = (await cluster.settings(TemplateSettings, role=role)).claim_templates, cluster.namespace
    it, config_map = objects.named(CONFIG_MAPS, name, home), await cluster.get(CONFIG_MAPS, name, namespace=home)
    configured: Definitions = {}
    try:
        configured = parse_definitions(config_map or {})
    except ValueError as wrong:
        yield error("BERTH5012", it, wrong=wrong)
    classes = [stored_class(one) for one in await cluster.listed(DEVICE_CLASSES)]
    known = all_definitions(configured, classes)
    if known and not runs and await is_installed(cluster):
        source = it.subject if configured else f"annotation {CLASS_DEFINITION} of DeviceClasses"
        values: dict[str, Any] = {"count": len(known), "source": source, "controller": _TEMPLATES}
        yield warning("BERTH5013", "", command=await acting.choose(cluster, _TEMPLATES), **values)
    if known and runs:
        found = (obj async for obj in cluster.paged(RESOURCE_CLAIM_TEMPLATES) if obj["metadata"]["name"] in known)
        async for finding in of_each(found, _foreign, most=_MOST, noun="ResourceClaimTemplate"):
            yield finding


def _foreign(obj: JSON) -> Finding | None:
    """Of a template with the name of a definition, that it is not made from it."""
    return None if stored_template(obj) else warning("BERTH5014", objects.Object(RESOURCE_CLAIM_TEMPLATES, obj))
