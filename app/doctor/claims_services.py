"""Services on secondary networks and definitions of claims, for the check `claims`: who keeps them, and mistakes."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.claims.definitions import CLASS_DEFINITION, Definitions, all_definitions, parse_definitions, stored_class
from app.claims.services.model import NETWORK
from app.claims.services.stored import stored_service
from app.claims.settings import TemplateSettings
from app.claims.templates.planning import stored_template
from app.doctor import acting, commands, objects
from app.doctor.claims_publishers import is_installed
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, error, listed, of_each, plain, warning
from app.kube.resources import CONFIG_MAPS, DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, SERVICES
from app.text import several
from app.wire import JSON

_MOST = 50
_SERVICES, _TEMPLATES = "network-services", "claim-templates"


async def services(cluster: Cluster) -> AsyncIterator[Finding]:
    """Services that ask for endpoints on a network get them."""
    asking = (obj async for obj in cluster.paged(SERVICES) if stored_service(obj) is not None)
    if _SERVICES not in await cluster.controllers():
        names = [f"{obj['metadata']['namespace']}/{obj['metadata']['name']}" async for obj in asking]
        if names and await is_installed(cluster):
            text = f"{several(len(names), 'Service')} ({listed(names)}) with annotation {NETWORK}, and controller "
            text += f"{_SERVICES} does not run"
            command = await acting.choose(cluster, _SERVICES)
            yield error("BERTH5010", "", text, command=command)
        return

    def judge(obj: JSON) -> Finding | None:
        found = stored_service(obj)
        if found is None or found.problem is None:
            return None
        follows = "it gets no EndpointSlices" if found.problem.refused else "its EndpointSlices stay as they are"
        edit = commands.edit(SERVICES, found.key[1], namespace=found.key[0])
        return error("BERTH5011", objects.subject(SERVICES.kind, obj), plain(found.problem.message), follows, edit)

    async for finding in of_each(asking, judge, most=_MOST, noun="Service on a secondary network"):
        yield finding


async def definitions(cluster: Cluster) -> AsyncIterator[Finding]:
    """Definitions can be read, are kept by a controller, and have their names for themselves."""
    runs = _TEMPLATES in await cluster.controllers()
    role = "controller" if runs else "webhook"
    name, home = (await cluster.settings(TemplateSettings, role=role)).claim_templates, cluster.namespace
    config_map = await cluster.get(CONFIG_MAPS, name, namespace=home)
    configured: Definitions = {}
    try:
        configured = parse_definitions(config_map or {})
    except ValueError as wrong:
        edit = commands.edit(CONFIG_MAPS, name, namespace=home)
        yield error("BERTH5012", f"ConfigMap {home}/{name}", plain(wrong), command=edit)
    classes = [stored_class(one) for one in await cluster.listed(DEVICE_CLASSES)]
    known = all_definitions(configured, classes)
    if not runs:
        if known and await is_installed(cluster):
            source = f"ConfigMap {home}/{name}" if configured else f"annotation {CLASS_DEFINITION} of DeviceClasses"
            text = f"{several(len(known), 'definition')} of claims ({source}), and controller {_TEMPLATES} does not run"
            command = await acting.choose(cluster, _TEMPLATES)
            yield warning("BERTH5013", "", text, command=command)
        return
    if known:
        async for finding in _foreign(cluster, known):
            yield finding


async def _foreign(cluster: Cluster, known: Definitions) -> AsyncIterator[Finding]:
    async def of_definitions() -> AsyncIterator[JSON]:
        async for obj in cluster.paged(RESOURCE_CLAIM_TEMPLATES):
            if obj["metadata"]["name"] in known:
                yield obj

    def judge(obj: JSON) -> Finding | None:
        if stored_template(obj) is not None:
            return None
        metadata, kind = obj["metadata"], objects.plural(RESOURCE_CLAIM_TEMPLATES)
        text = f"was not made from the definition {metadata['name']}, and has its name"
        command = commands.kubectl("delete", kind, metadata["name"], namespace=metadata["namespace"])
        return warning("BERTH5014", objects.subject(RESOURCE_CLAIM_TEMPLATES.kind, obj), text, command=command)

    async for finding in of_each(of_definitions(), judge, most=_MOST, noun="ResourceClaimTemplate"):
        yield finding
