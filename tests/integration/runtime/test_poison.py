"""Objects of wrong shapes are stored, past all admission, and the roles start: they get ready, and serve good objects.

Some of the objects an API server would refuse by its schema; a definition of an older version, or of others, would not.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.appwrappers.controller.stored import stored_app_wrapper
from app.appwrappers.kueue.model import WORKLOADS as KUEUE_WORKLOADS
from app.appwrappers.kueue.workloads import name_of
from app.appwrappers.model import APP_WRAPPERS, QUEUE_NAME
from app.definitions import ALL, read_definitions
from app.devtools.kueue.definitions import kueue_definitions
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NETWORK_ATTACHMENTS, PODS, Resource
from app.kube.retry import get_or_none
from app.kube.transport import connect
from app.wire import JSON
from app.workloads.model import TENANT_RULES, TENANTS, WORKLOADS
from tests.support.poison import (
    EACH,
    OTHER_NAMESPACE,
    POD_SPEC,
    SYSTEM,
    TENANT_NAMESPACE,
    digits_objects,
    poison_objects,
)
from tests.support.processes import Berth
from tests.support.real_apiserver import real_api_servers
from tests.support.real_parts import CLAIMS, since
from tests.support.staging import Stage, staged
from tests.support.waiting import PATIENCE, eventually
from tests.support.workloads import rule, workload

ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
_REFUSALS = (400, 422, 500)
"""Of an API server; 500 is for fields that only it may set."""
CONTROLLERS = "workloads,tenants,appwrappers,appwrapper-workloads,rmd,claims,claim-templates,network-services"
DEFINITIONS = (*read_definitions((NETWORK_ATTACHMENTS,)), *kueue_definitions())


@pytest.mark.timeout(900)
async def test_roles_start_with_poison_stored_and_serve_a_good_neighbor(tmp_path: Path) -> None:
    stored: Counter[Resource] = Counter()
    async with staged(tmp_path) as stage:
        for definition in DEFINITIONS:
            await stage.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        for resource, obj in (*poison_objects(), *digits_objects()):
            obj["metadata"]["generation"] = 1
            stage.cluster.storage.create((resource.group, resource.plural), obj)
            stored[resource] += 1
        assert min(stored.values()) >= EACH
        roles = await _started(stage, tmp_path)
        for process in roles.values():
            await process.until_ready()
        await _tenant_served(stage.client)
        await stage.client.create(PODS, PODS.body({"name": "neighbor"}, spec=POD_SPEC), namespace="default")
        await _good_neighbors(stage.client, "neighbor")
        await _digits_reported(stage.client)
        for name, process in roles.items():
            assert (await process.get("/metrics"))[0] == 200, name
            assert process.returncode is None, (name, process.lines[-5:])
            assert not process.event("metrics not published"), name


async def _started(stage: Stage, folder: Path) -> dict[str, Any]:
    gateway = await stage.berth("gateway", "--port=0", *stage.tls("gateway", "client-ca"))
    await eventually(lambda: gateway.event("gateway listens"))
    port = gateway.event("gateway listens")["port"]
    tls = (f"--tls-cert-file={folder}/gateway/tls.crt", f"--tls-private-key-file={folder}/gateway/tls.key")
    agent = (f"--gateway=127.0.0.1:{port}", "--tenant=tenant1", *stage.tls("tenant1", "gateway-ca"))
    return {
        "gateway": gateway,
        "webhook": await stage.berth(
            *("webhook", "--port=0", "--insecure", "--confine-tenants", "--appwrappers", "--claims", *tls)
        ),
        "controller": await stage.berth("controller", "--no-leader-elect", f"--controllers={CONTROLLERS}"),
        "agent": await stage.berth("agent", "--no-leader-elect", *agent),
        "certificates": await stage.berth("certificates", "--namespace=universe", "--gateway"),
        "claims-node": await stage.berth("claims-node", "--node-name=n1"),
    }


async def _tenant_served(client: KubeClient) -> None:
    await eventually(lambda: _status(client, TENANTS, "tenant1"), lambda status: status.get("result") == "success")


async def _good_neighbors(client: KubeClient, name: str) -> None:
    """A rule that matches a tenant's Pod of this name, and two AppWrappers: what each is for comes to be."""
    good = rule(name, match=("metadata.resourceName", [name]))
    await client.create(TENANT_RULES, TENANT_RULES.body({"name": name}, spec=good["spec"]), namespace=TENANT_NAMESPACE)
    spec = {"components": [{"template": PODS.body({"name": f"{name}-wrapped"}, spec=POD_SPEC)}]}
    await client.create(APP_WRAPPERS, APP_WRAPPERS.body({"name": name}, spec=spec), namespace=SYSTEM)
    waiting = {"name": f"{name}-queued", "labels": {QUEUE_NAME: "q"}}
    made = await client.create(
        APP_WRAPPERS, APP_WRAPPERS.body(waiting, spec={**spec, "suspend": True}), namespace=SYSTEM
    )
    await eventually(
        lambda: _status(client, TENANT_RULES, name, TENANT_NAMESPACE), lambda status: status.get("created") == 1
    )
    await eventually(lambda: get_or_none(client, PODS, f"{name}-wrapped", namespace=SYSTEM))
    workload_of = name_of(stored_app_wrapper(made))
    await eventually(lambda: get_or_none(client, KUEUE_WORKLOADS, workload_of, namespace=SYSTEM))


async def _workload_served(client: KubeClient, name: str) -> None:
    """As above, for a Workload that an agent has reported."""
    obj = workload(name, name=name)
    await client.create(WORKLOADS, WORKLOADS.body(obj["metadata"], spec=obj["spec"]), namespace=TENANT_NAMESPACE)
    await _good_neighbors(client, name)


async def _digits_reported(client: KubeClient) -> None:
    status = await eventually(
        lambda: _status(client, TENANT_RULES, "good", OTHER_NAMESPACE), lambda status: status.get("result") == "error"
    )
    assert "Workload workload-digits: key 'sum([to_number" in status["message"]
    assert "a whole number has more than 309 digits" in status["message"]


async def _status(client: KubeClient, resource: Resource, name: str, namespace: str | None = None) -> JSON:
    status: JSON = (await client.get(resource, name, namespace=namespace)).get("status") or {}
    return status


@contextlib.asynccontextmanager
async def _poisoned_api_server(folder: Path) -> AsyncIterator[KubeClient]:
    """A real one that has stored what it accepts of the objects, and of their statuses."""
    with real_api_servers(Path(ASSETS), folder, ["poisoned"]) as kubeconfigs:
        async with await connect(kubeconfig=str(kubeconfigs["poisoned"]), deadline=PATIENCE) as client:
            for definition in (*read_definitions(ALL), *DEFINITIONS):
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            for name in (SYSTEM, TENANT_NAMESPACE, OTHER_NAMESPACE):
                await client.create(NAMESPACES, {"metadata": {"name": name, "labels": {"berth.dev/tenant": "tenant1"}}})
            await eventually(lambda: _is_served(client, TENANT_RULES))
            stored: Counter[Resource] = Counter()
            for resource, obj in (*poison_objects(), *digits_objects()):
                stored[resource] += await _accepted(client, resource, obj)
            assert stored[TENANT_RULES] > EACH
            assert stored[APP_WRAPPERS] > EACH
            yield client


async def _is_served(client: KubeClient, resource: Resource) -> bool:
    try:
        await client.list_page(resource, limit=1)
    except ApiError:
        return False
    return True


async def _accepted(client: KubeClient, resource: Resource, obj: JSON) -> bool:
    namespace = obj["metadata"].get("namespace")
    try:
        await client.create(resource, obj, namespace=namespace)
    except ApiError as error:
        if error.status not in _REFUSALS:
            raise
        return False
    if status := obj.get("status"):
        with contextlib.suppress(ApiError):
            await client.patch(
                resource,
                obj["metadata"]["name"],
                {"status": status},
                namespace=namespace,
                subresource="status",
                patch_type="merge",
            )
    return True


@pytest.mark.conformance
@since(CLAIMS)
@pytest.mark.skipif(not ASSETS, reason="a real API server: KUBEBUILDER_ASSETS")
async def test_two_controllers_on_a_real_api_server_outlive_poison_and_a_stopped_leader(tmp_path: Path) -> None:
    """The leader is frozen as by SIGSTOP, the other takes over; the first goes on later and ends, or follows."""
    async with _poisoned_api_server(tmp_path) as client:
        kubeconfig = tmp_path / "poisoned" / "admin.kubeconfig"
        flags = (f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", "--health-check-port=0")
        replicas = [Berth("controller", *flags, f"--controllers={CONTROLLERS}") for _ in range(2)]
        try:
            for replica in replicas:
                await replica.until_ready()
            await _workload_served(client, "before")
            await _digits_reported(client)
            (leader,) = [replica for replica in replicas if replica.event("leading")]
            leader.process.send_signal(signal.SIGSTOP)
            await _workload_served(client, "meanwhile")
            leader.process.send_signal(signal.SIGCONT)
            await _workload_served(client, "after")
            (other,) = [replica for replica in replicas if replica is not leader]
            assert other.returncode is None, other.lines[-5:]
            assert (await other.get("/metrics"))[0] == 200
        finally:
            for replica in replicas:
                await replica.end(signal.SIGKILL)
