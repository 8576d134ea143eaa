"""What a release of the chart makes in one cluster of the sandbox: accounts with rights, Deployments, Services.

`berth status`, `doctor` and `why` see Berth in the sandbox by these objects, as they do in any cluster. No object has
a label of Helm: no release of Helm owns them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from importlib.metadata import version

from app.devtools.clusters.accounts import permit
from app.devtools.clusters.node.pod_process import is_berth
from app.devtools.clusters.node.services import Route
from app.devtools.clusters.parts import START_SECONDS, until_ready
from app.errors import BerthError
from app.kube.client import KubeClient
from app.kube.resources import DEPLOYMENTS, NAMESPACES, SERVICE_ACCOUNTS, SERVICES, Resource
from app.permissions import permissions_of, places
from app.registry import settings_of
from app.settings.source import flag_names, flags_of, typed
from app.wire import JSON
from app.wiring import RELEASE_NAMESPACE

NAME = "berth"
_LOOK_SECONDS = 0.02


def labels_of(role: str = "") -> dict[str, str]:
    """The labels of the chart, of a role or ("") of what belongs to none."""
    return {
        **_selector(role),
        "app.kubernetes.io/name": NAME,
        "app.kubernetes.io/instance": NAME,
        "app.kubernetes.io/part-of": NAME,
        "app.kubernetes.io/version": version(NAME),
    }


class Release:
    """The objects of Berth in one cluster, whose node enters in `services` on which address a Service listens."""

    def __init__(self, client: KubeClient, services: Mapping[Route, tuple[str, int]]) -> None:
        self._client, self._services = client, services
        self._deployed: list[str] = []

    async def prepare(self) -> None:
        """Make the namespace of the release."""
        await self._client.apply(NAMESPACES, RELEASE_NAMESPACE, NAMESPACES.body({"name": RELEASE_NAMESPACE}))

    async def deploy(self, role: str, settings: Mapping[str, object], *, replicas: int = 1) -> None:
        """Have so many Pods run the role with these settings, by field, and its ServiceAccount do what it needs."""
        await self._give_rights(role, settings)
        container = {
            "name": NAME,
            "image": f"{NAME}:{version(NAME)}",
            "args": [role, *arguments(role, settings)],
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}},
            "ports": [{"name": "health", "containerPort": settings_of(role).model_fields["health_check_port"].default}],
        }
        pod = {"serviceAccountName": name_of(role), "containers": [container]}
        template = {"metadata": {"labels": labels_of(role)}, "spec": pod}
        spec = {"replicas": replicas, "selector": {"matchLabels": _selector(role)}, "template": template}
        await self._apply_labeled(DEPLOYMENTS, role, spec=spec)
        self._deployed.append(role)

    async def expose(self, role: str, port: int) -> str:
        """A Service before the Pods of a role; returns `host:port`, which reaches it from this machine."""
        # Without a cluster IP it listens on this machine's loopback address, for which certificates are made.
        ports = [{"name": "berth", "port": port, "targetPort": port, "protocol": "TCP"}]
        await self._apply_labeled(
            SERVICES, role, spec={"clusterIP": "None", "selector": _selector(role), "ports": ports}
        )
        route = (RELEASE_NAMESPACE, name_of(role), port)
        await until_ready(lambda: [] if route in self._services else ["it does not listen"], f"Service {route[1]}")
        host, number = self._services[route]
        return f"{host}:{number}"

    async def until_ready(self, where: str) -> None:
        """Wait until all replicas are ready. Raises BerthError that says which are not after a minute."""
        for role in self._deployed:
            said = ""
            try:
                async with asyncio.timeout(START_SECONDS):
                    while said := await self._lacks(role):  # noqa: ASYNC110  as `until_ready`
                        await asyncio.sleep(_LOOK_SECONDS)
            except TimeoutError:
                raise BerthError(f"{where}: {said}") from None

    async def _lacks(self, role: str) -> str:
        """Which of its replicas are not ready; "" if all are."""
        found = await self._client.get(DEPLOYMENTS, name_of(role), namespace=RELEASE_NAMESPACE)
        ready, wanted = (found.get("status") or {}).get("readyReplicas") or 0, found["spec"]["replicas"]
        return f"Deployment {name_of(role)}: {ready} of {wanted} replicas are ready" if ready < wanted else ""

    async def _give_rights(self, role: str, settings: Mapping[str, object]) -> None:
        name = name_of(role)
        subject = {"kind": "ServiceAccount", "namespace": RELEASE_NAMESPACE, "name": name}
        await self._apply_labeled(SERVICE_ACCOUNTS, role)
        scopes = places(release=str(settings.get("namespace", RELEASE_NAMESPACE)), settings={})
        await permit(self._client, subject, permissions_of(role, **settings), name=name, places=scopes)

    async def _apply_labeled(self, resource: Resource, role: str, **fields: object) -> None:
        body = resource.body({"name": name_of(role), "labels": labels_of(role)}, **fields)
        await self._client.apply(resource, name_of(role), body, namespace=RELEASE_NAMESPACE)


def is_of_release(pod: JSON) -> bool:
    """Whether the Pod is one of a role."""
    metadata = pod["metadata"]
    same = _selector("").items() <= (metadata.get("labels") or {}).items()
    return bool(metadata["namespace"] == RELEASE_NAMESPACE and same and is_berth(pod))


def name_of(role: str) -> str:
    """The name of a role's ServiceAccount, Deployment and Service, as the chart calls them."""
    return f"{NAME}-{role}"


def arguments(role: str, settings: Mapping[str, object]) -> Iterator[str]:
    """The flags of a role that give it these settings, by field."""
    model = settings_of(role)
    for field, flag in flags_of(model).items():
        if field in settings:
            name, value = flag_names(field, flag)[0], settings[field]
            yield f"{name}={str(value).lower()}" if isinstance(value, bool) else f"{name}={typed(value)}"


def _selector(role: str) -> dict[str, str]:
    return {"app.kubernetes.io/instance": NAME, **({"app.kubernetes.io/component": role} if role else {})}
