"""Who acts on AppWrappers, in whatever release, and which kinds these controllers create."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from app.appwrappers.settings import WRAPPED_KINDS, WrappedKindsSettings
from app.doctor import acting, commands, objects
from app.doctor.cluster import EVERYWHERE, Cluster
from app.doctor.installed import Installed, read_deployment, settings_in_force
from app.doctor.model import or_default
from app.doctor.objects import PART_OF, Object, named
from app.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS
from app.wire import JSON, load_yaml, mapping

WORKLOADS = "appwrapper-workloads"
"""The controller that makes Workloads of AppWrappers."""
INTEGRATION = "workload.codeflare.dev/appwrapper"
_KUEUE = ("kueue-system", "kueue-controller-manager")
KUEUE_CONFIG = named(CONFIG_MAPS, "kueue-manager-config", _KUEUE[0])

PEER = ("appwrapper-system", "appwrapper-controller-manager")
"""Namespace and name of the controller of AppWrapper v1.2."""


async def acts(cluster: Cluster) -> bool:
    """Whether a controller of AppWrappers runs: of any release of Berth, or the peer's. Raises ApiError."""
    if any(map(_runs, await controllers(cluster))):
        return True
    peer = await cluster.get(DEPLOYMENTS, PEER[1], namespace=PEER[0])
    if peer is not None and objects.spec(peer).get("replicas") != 0:
        return True
    # One that no chart has installed, in a namespace of its own.
    async for body in cluster.paged(DEPLOYMENTS, namespace=EVERYWHERE):
        if (deployment := read_deployment(body)) is not None and _runs(deployment):
            return True
    return False


def _runs(deployment: Installed) -> bool:
    return _chooses(deployment) and not deployment.stopped


def _chooses(deployment: Installed) -> bool:
    return deployment.role == "controller" and "appwrappers" in deployment.setting("controllers")


async def controllers(cluster: Cluster) -> list[Installed]:
    """Our controllers of AppWrappers, of all releases. Raises ApiError where Deployments may not be listed."""
    bodies = await cluster.listed(DEPLOYMENTS, namespace=EVERYWHERE, label_selector=f"{PART_OF}=berth")
    bodies = [*bodies, *await cluster.listed(DEPLOYMENTS, namespace=cluster.namespace)]
    deployments = (deployment for body in bodies if (deployment := read_deployment(body)) is not None)
    return [deployment for deployment in deployments if _chooses(deployment)]


async def wrapped_kinds(cluster: Cluster) -> tuple[str, ...]:
    """Those of all controllers of AppWrappers, the defaults where none is of Berth. Raises ApiError."""
    settings = [
        settings_in_force([deployment], WrappedKindsSettings, namespace=deployment.namespace)
        for deployment in await controllers(cluster)
    ]
    return tuple({kind: None for given in settings for kind in given.wrapped_kinds}) or WRAPPED_KINDS


async def wrap(cluster: Cluster, kinds: Sequence[str]) -> str:
    """The command with which the controller may create these KIND.GROUPs too."""
    defined = await or_default(cluster.listed(CUSTOM_RESOURCE_DEFINITIONS), [])
    plurals = {f"{names['kind'].lower()}.{group}": names["plural"] for names, group in map(_names, defined)}
    own = [f"{plurals.get(kind, kind.partition('.')[0] + 's')}.{kind.partition('.')[2]}".rstrip(".") for kind in kinds]
    allowed = ",".join(dict.fromkeys((*await wrapped_kinds(cluster), *own)))
    return await commands.helm(cluster, f"controller.args.wrappedKinds={{{allowed}}}")


def _names(definition: JSON) -> tuple[JSON, str]:
    spec = objects.spec(definition)
    return spec["names"], str(spec["group"])


async def make_workloads(cluster: Cluster) -> str:
    """The command that runs the controller of Workloads; "" where another makes them, or that may not be read."""
    configuration, ours = await kueue_configuration(cluster), await cluster.controllers()
    if configuration is None or integrates(configuration) or not ours or WORKLOADS in ours:
        return ""
    return await acting.choose(cluster, WORKLOADS)


async def kueue_configuration(cluster: Cluster) -> JSON | None:
    """Kueue's configuration; None where it does not run, or has none that can be read."""
    if await cluster.peer(*_KUEUE) is None:
        return None
    config = await or_default(cluster.get(CONFIG_MAPS, KUEUE_CONFIG.name, namespace=_KUEUE[0]), None)
    for text in ((config or {}).get("data") or {}).values():
        with contextlib.suppress(ValueError):
            document = load_yaml(str(text))
            if isinstance(document, dict):
                return document
    return None


def integrates(configuration: JSON) -> bool:
    """Whether Kueue itself makes the Workloads of AppWrappers."""
    return INTEGRATION in names_in(mapping(configuration.get("integrations")).get("frameworks"))


def names_in(value: object) -> list[object]:
    """A list of the configuration; empty where it is none."""
    return value if isinstance(value, list) else []


def objects_of(it: Object) -> str:
    """The command that shows the objects of an AppWrapper by their names; "" where it has none."""
    names = []
    for component in objects.spec(it.json).get("components") or ():
        template = mapping(mapping(component).get("template"))
        group, name = str(template.get("apiVersion") or "").rpartition("/")[0], mapping(template.get("metadata"))
        if template.get("kind") and name.get("name"):
            names.append(f"{template['kind']}.{group}".rstrip(".").lower() + f"/{name['name']}")
    return commands.kubectl("get", *names, namespace=it.namespace) if names else ""


def kinds_of(spec: JSON) -> list[str]:
    """KIND.GROUP of each component, in lower case."""
    kinds = []
    for component in spec.get("components") or ():
        template = mapping(mapping(component).get("template"))
        group = str(template.get("apiVersion") or "").rpartition("/")[0]
        if template.get("kind"):
            kinds.append(f"{template['kind']}.{group}".rstrip(".").lower())
    return list(dict.fromkeys(kinds))


def is_wrapped(kind: str, wrapped: tuple[str, ...]) -> bool:
    """By the plural as Kubernetes makes it of a kind."""
    name, _, group = kind.partition(".")
    plurals = {f"{name}s", f"{name}es", f"{name[:-1]}ies", name}
    return any(f"{plural}.{group}".rstrip(".") in wrapped for plural in plurals)
