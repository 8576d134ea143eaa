"""Who acts on AppWrappers, in whatever release, and which kinds these controllers create."""

from __future__ import annotations

from app.appwrappers.settings import WRAPPED_KINDS, WrappedKindsSettings
from app.doctor import objects
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed, read_deployment, settings_in_force
from app.doctor.objects import PART_OF
from app.kube.resources import DEPLOYMENTS
from app.wire import JSON, mapping

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
    async for body in cluster.paged(DEPLOYMENTS):
        if (deployment := read_deployment(body)) is not None and _runs(deployment):
            return True
    return False


def _runs(deployment: Installed) -> bool:
    return _chooses(deployment) and not deployment.stopped


def _chooses(deployment: Installed) -> bool:
    return deployment.role == "controller" and "appwrappers" in deployment.setting("controllers")


async def controllers(cluster: Cluster) -> list[Installed]:
    """Our controllers of AppWrappers, of all releases. Raises ApiError where Deployments may not be listed."""
    bodies = await cluster.listed(DEPLOYMENTS, label_selector=f"{PART_OF}=berth")
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
