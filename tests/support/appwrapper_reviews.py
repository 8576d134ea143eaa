"""API servers that call the webhook about AppWrappers, and users of them: the sandbox's, and a real one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from app.appwrappers.model import APP_WRAPPERS, QUEUE_NAME, USER
from app.appwrappers.permissions import KINDS
from app.definitions import read_definitions
from app.devtools.clusters.certificates import write_webhook_certificate
from app.devtools.clusters.parts import Parts, running_parts
from app.devtools.clusters.registering import register
from app.devtools.kueue.definitions import kueue_definitions
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Resource
from app.kube.transport import connect
from app.permissions import permissions_of
from tests.support.appwrappers import NAMESPACE, SYSTEM, app_wrapper, open_cluster, pod
from tests.support.chart import ASSETS, SERVERS
from tests.support.chart_combinations import CALLER_TOKEN
from tests.support.ports import lasting_port
from tests.support.rbac import acting_as, allow
from tests.support.real_apiserver import real_api_servers
from tests.support.waiting import PATIENCE, eventually

JSON = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
WRAP = {"apiGroups": [APP_WRAPPERS.group], "resources": ["appwrappers"], "verbs": ["create", "update", "patch", "get"]}
PODS_RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
ACCOUNT = f"system:serviceaccount:{SYSTEM}:berth-webhook"
_NUMBERS = itertools.count()


def queued(name: str, *templates: JSON, **spec: Any) -> JSON:
    body = app_wrapper(name, *templates)
    body["metadata"]["labels"] = {QUEUE_NAME: "user-queue"}
    body["spec"] |= spec
    return body


class Reviewed:
    """A cluster whose API server calls the webhook; `post` asks the webhook itself, as the API server where `proven`."""

    def __init__(self, admin: KubeClient, kubeconfig: Path, port: int) -> None:
        self.admin, self.kubeconfig, self._port = admin, kubeconfig, port

    async def create(self, body: JSON, *, client: KubeClient | None = None) -> JSON:
        return await (client or self.admin).create(APP_WRAPPERS, body, namespace=NAMESPACE)

    async def change(self, name: str, body: JSON, *, client: KubeClient | None = None) -> JSON:
        patch = (client or self.admin).patch
        return await patch(APP_WRAPPERS, name, body, patch_type="merge", namespace=NAMESPACE)

    async def refused(self, body: JSON, *, client: KubeClient | None = None) -> str:
        with pytest.raises(ApiError) as refusal:
            await self.create(body, client=client)
        return str(refusal.value)

    async def unchanged(self, name: str, body: JSON, *, client: KubeClient | None = None) -> str:
        with pytest.raises(ApiError) as refusal:
            await self.change(name, body, client=client)
        return str(refusal.value)

    async def grant(self, user: str, *rules: JSON, kind: str = "User") -> None:
        """Give a user or group these rights, and no others; returns when the API server goes by them."""
        mark = {"apiGroups": ["test"], "resources": [f"mark{next(_NUMBERS)}"], "verbs": ["get"]}
        role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": [*rules, mark]}
        await self.admin.apply(ROLES, user, role)
        ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": user}
        subjects: list[JSON] = [{"apiGroup": RBAC, "kind": kind, "name": user}]
        binding = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user}}
        await self.admin.apply(BINDINGS, user, binding | {"roleRef": ref, "subjects": subjects})
        asked = {"group": "test", "resource": mark["resources"][0], "verb": "get"}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        review |= {"spec": {"user": user, "groups": [user], "resourceAttributes": asked}}

        async def goes_by_them() -> bool:
            answer = await self.admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
            return bool(answer["status"]["allowed"])

        await eventually(goes_by_them)

    @contextlib.asynccontextmanager
    async def user(self, name: str, *rules: JSON, groups: tuple[str, ...] = ()) -> AsyncIterator[KubeClient]:
        await self.grant(name, WRAP, *rules)
        async with await connect(
            kubeconfig=str(acting_as(self.kubeconfig, name, *groups)), deadline=PATIENCE
        ) as client:
            yield client

    async def post(
        self,
        path: str,
        body: JSON,
        *,
        old: JSON | None = None,
        proven: bool = True,
        bearer: str = "",
        user: str = "system:admin",
    ) -> tuple[int, JSON]:
        """A review of the creation, or of the change of an `old` one, by curl as it were."""
        request = {
            "uid": "u",
            "kind": {"group": APP_WRAPPERS.group, "version": APP_WRAPPERS.version, "kind": APP_WRAPPERS.kind},
            "operation": "UPDATE" if old else "CREATE",
            "namespace": NAMESPACE,
            "userInfo": {"username": user, "groups": ["system:masters"] if user == "system:admin" else []},
            "object": body,
            "oldObject": old,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        url = f"https://127.0.0.1:{self._port}{path}" + (f"/{CALLER_TOKEN}" if proven else "")
        async with aiohttp.ClientSession() as session:
            answer = await session.post(url, json=review, ssl=False, headers=headers)
            return answer.status, (await answer.json())["response"]


Opening = Callable[..., contextlib.AbstractAsyncContextManager[Reviewed]]


@pytest_asyncio.fixture(params=SERVERS)
async def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    """The webhook asks as an administrator; `weak` lets it read alone, `charted` do what its role needs alone."""

    @contextlib.asynccontextmanager
    async def opened(
        *, weak: bool = False, charted: bool = False, kueue: bool = False, **settings: Any
    ) -> AsyncIterator[Reviewed]:
        async with _server(request.param, tmp_path) as (admin, kubeconfig), running_parts() as parts:
            for body in kueue_definitions() if kueue else ():
                await admin.create(CUSTOM_RESOURCE_DEFINITIONS, body)
            path = kubeconfig
            if weak:
                path = tmp_path / "weak.kubeconfig"
                path.write_text(kubeconfig.read_text().replace("  user:\n", "  user:\n    as: weak\n", 1))
                every = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
                await Reviewed(admin, kubeconfig, 0).grant("weak", every)
            if charted:
                path = acting_as(kubeconfig, ACCOUNT)
                needed = permissions_of("webhook", appwrappers=True)
                await allow(admin, ACCOUNT, needed, role="webhook", release=SYSTEM)
            port = await start_registered(parts, admin, tmp_path / "webhook", kubeconfig=path, **settings)
            place = Reviewed(admin, kubeconfig, port)
            if not weak:
                await eventually(lambda: _is_called(place))
            yield place

    return opened


async def start_registered(parts: Parts, admin: KubeClient, folder: Path, *, kubeconfig: Path, **settings: Any) -> int:
    """The port of a webhook that the API server of `admin` calls about AppWrappers; its files are in the folder."""
    bundle = write_webhook_certificate(folder)
    tokens = folder / "caller-token"
    tokens.write_text(f"{CALLER_TOKEN}\n")
    port = lasting_port()
    common = {
        "bind_address": "127.0.0.1",
        "port": port,
        "kubeconfig": str(kubeconfig),
        "namespace": SYSTEM,
        "insecure": True,
        "tls_cert_file": str(folder / "tls.crt"),
        "tls_private_key_file": str(folder / "tls.key"),
        "caller_token_file": str(tokens),
        "drain_seconds": 0.0,
        "appwrappers": True,
    }
    await parts.start("webhook", common | settings, where="the cluster")
    registered = {"appwrappers": True, "claims": True, "rmd_backend": "daemon"}
    await register(admin, address=f"127.0.0.1:{port}", bundle=bundle, settings=registered, token=CALLER_TOKEN)
    return port


@contextlib.asynccontextmanager
async def _server(kind: str, folder: Path) -> AsyncIterator[tuple[KubeClient, Path]]:
    if kind == "sandbox":
        async with open_cluster(folder) as cluster:
            yield cluster.admin, Path(cluster.kubeconfig)
        return
    starting = real_api_servers(Path(ASSETS), folder, ["real"])
    kubeconfig = (await asyncio.to_thread(starting.__enter__))["real"]
    try:
        async with await connect(kubeconfig=str(kubeconfig), deadline=PATIENCE) as admin:
            await admin.create(NAMESPACES, {"metadata": {"name": SYSTEM}})
            for definition in read_definitions(KINDS):
                await admin.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            await eventually(lambda: _is_served(admin))
            yield admin, kubeconfig
    finally:
        await asyncio.to_thread(starting.__exit__, None, None, None)


async def _is_served(admin: KubeClient) -> bool:
    with contextlib.suppress(ApiError):
        return (await admin.list_page(APP_WRAPPERS)).items == []
    return False


async def _is_called(place: Reviewed) -> bool:
    """Whether both webhooks are: a real API server learns of them a moment later."""
    with contextlib.suppress(ApiError):
        await place.create(app_wrapper("probe"))
        await place.admin.delete(APP_WRAPPERS, "probe", namespace=NAMESPACE)
        return False
    made = await place.create(app_wrapper("probe", pod("p"), suspend=True))
    await place.admin.delete(APP_WRAPPERS, "probe", namespace=NAMESPACE)
    return USER in (made["metadata"].get("labels") or {})
