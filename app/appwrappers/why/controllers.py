"""Who acts on AppWrappers, in whatever release, and which kinds these controllers create."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from app.appwrappers.settings import WRAPPED_KINDS, WrappedKindsSettings
from app.doctor import acting, commands, objects
from app.doctor.cluster import EVERYWHERE, Cluster
from app.doctor.installed import Installed, read_deployment, settings_in_force
from app.doctor.model import or_default
from app.doctor.objects import INSTANCE, PART_OF, Object, named, plural
from app.kube.discovery import Discovery
from app.kube.resources import CONFIG_MAPS, DEPLOYMENTS, Resource
from app.wire import JSON, load_yaml, mapping

WORKLOADS = "appwrapper-workloads"
"""The controller that makes Workloads of AppWrappers."""
INTEGRATION = "workload.codeflare.dev/appwrapper"
_KUEUE = ("kueue-system", "kueue-controller-manager")
KUEUE_CONFIG = named(CONFIG_MAPS, "kueue-manager-config", _KUEUE[0])

PEER = ("appwrapper-system", "appwrapper-controller-manager")
"""Namespace and name of the controller of AppWrapper v1.2."""


class Kind(NamedTuple):
    """The kind of a component, as its template has it."""

    api_version: str
    kind: str

    @property
    def name(self) -> str:
        """KIND.GROUP in lower case."""
        return f"{self.kind}.{self.api_version.rpartition('/')[0]}".rstrip(".").lower()


_GOVERNING = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "rbac.authorization.k8s.io",
    }
)
"""Groups whose objects give rights, or change what an API server does."""
_SECRET = frozenset({"secrets", "serviceaccounts"})
"""Core kinds that hold, or get, credentials."""


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


async def unwrapped(cluster: Cluster, kinds: Sequence[Kind]) -> dict[Kind, Resource | None]:
    """Those that no controller of AppWrappers may create, None for one that the API server does not serve.

    Raises ApiError.
    """
    wrapped, discovery = await wrapped_kinds(cluster), Discovery(cluster.client)
    kinds = [kind for kind in kinds if not is_wrapped(kind.name, wrapped)]
    served = {kind: await discovery.resource_of(kind.api_version, kind.kind) for kind in kinds}
    return {kind: resource for kind, resource in served.items() if not resource or plural(resource) not in wrapped}


def widens(resource: Resource) -> bool:
    """Whether who may create such objects has more rights than to run Pods of a namespace: no tenant asks for that."""
    return not resource.namespaced or resource.group in _GOVERNING or plural(resource) in _SECRET


async def stopped(cluster: Cluster) -> tuple[str, str]:
    """A controller of AppWrappers that is scaled to 0, and the command that starts it; "" for both if there is none."""
    for controller in await controllers(cluster):
        if controller.stopped:
            return controller.subject, commands.scale_up(cluster, controller)
    return "", ""


async def wrap(cluster: Cluster, resources: Sequence[Resource]) -> str:
    """The command with which the controller of this release may create these too; "" where the chart runs none."""
    release = [it for it in await controllers(cluster) if it.by_chart and it.namespace == cluster.namespace]
    own = [it for it in release if objects.labels(it.object).get(INSTANCE) == cluster.release]
    if not own:
        return ""
    wrapped = settings_in_force(own, WrappedKindsSettings, namespace=cluster.namespace).wrapped_kinds
    allowed = ",".join(dict.fromkeys((*wrapped, *map(plural, resources))))
    return commands.helm_upgrade(cluster, f"controller.args.wrappedKinds={{{allowed}}}")


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


def kinds_of(spec: JSON) -> list[Kind]:
    """That of each component."""
    kinds = []
    for component in spec.get("components") or ():
        template = mapping(mapping(component).get("template"))
        if template.get("kind"):
            kinds.append(Kind(str(template.get("apiVersion") or ""), str(template["kind"])))
    return list(dict.fromkeys(kinds))


def is_wrapped(kind: str, wrapped: tuple[str, ...]) -> bool:
    """By the plural as Kubernetes makes it of a kind."""
    name, _, group = kind.partition(".")
    plurals = {f"{name}s", f"{name}es", f"{name[:-1]}ies", name}
    return any(f"{plural}.{group}".rstrip(".") in wrapped for plural in plurals)
