"""The rules of the chart are enough: every role does its work as its own account, and is refused nothing."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import (
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NODES,
    PODS,
    SECRETS,
    Resource,
)
from app.kube.retry import get_or_none
from app.networks.model import NETWORKS
from app.placement.model import HOST_LABEL, TENANT_LABEL
from app.registry import BY_NAME
from app.runtime.composing import compose
from app.runtime.serving import Serving
from app.serving.listener import listen
from app.workloads.model import ADMIN_RULES, TENANTS, UVS_PODS, UVS_SECRETS, WORKLOAD_RULES, WORKLOADS
from tests.integration.chart.staging import Stage, staged
from tests.support.chart import JSON, NAMESPACE, Render, Server
from tests.support.chart_accounts import recorded
from tests.support.command_line import berth
from tests.support.paths import ROOT
from tests.support.ports import lasting_port
from tests.support.waiting import eventually

EXAMPLES = ROOT / "examples" / "workload-api"


async def test_every_role_does_its_work_by_the_rules_of_the_chart(
    clusters: list[Server], render: Render, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = recorded(monkeypatch)
    infra, tenant = clusters
    async with staged(clusters, render, tmp_path) as stage:
        await stage.run(compose(BY_NAME["certificates"], stage.settings("certificates")))
        async with _webhook(stage):
            await stage.run(compose(BY_NAME["controller"], stage.settings("controller")))
            address = await _gateway(stage)
            await _tenant_and_agent(stage, address, tmp_path)
            await _companions(infra.client, tenant.client)
            await _resources(infra.client, tenant.client)
            if infra.cluster is not None:
                await _denied(infra.client)
        lease = await infra.client.get(LEASES, "berth-controller", namespace=NAMESPACE)
        assert lease["spec"]["holderIdentity"]
    assert refused == []


@contextlib.asynccontextmanager
async def _webhook(stage: Stage) -> AsyncIterator[None]:
    """The webhook, reached by its Service; the certificates role has told the API server whom to trust."""
    infra = stage.infra
    files = await stage.files_of(infra, "berth-webhook-tls")
    settings = stage.settings(
        "webhook", tls_cert_file=str(files / "tls.crt"), tls_private_key_file=str(files / "tls.key"), drain_seconds=0.0
    )
    listener = listen("--port", "127.0.0.1", 0)
    if infra.cluster is not None:
        infra.cluster.services["berth-system", "berth-webhook", 443] = listener.getsockname()[:2]
    serving, stop = Serving(settings, listener=listener), asyncio.Event()
    running = asyncio.create_task(serving.run(stop))
    await stage.ready(serving.waiting)

    async def trusted() -> bool:
        hooks = (await infra.client.get(MUTATING_WEBHOOKS, "berth"))["webhooks"]
        return all("caBundle" in hook["clientConfig"] for hook in hooks)

    await eventually(trusted)
    try:
        yield
    finally:
        stop.set()
        await running


async def _gateway(stage: Stage) -> str:
    files = await stage.files_of(stage.infra, "berth-gateway-tls")
    port = lasting_port()
    settings = stage.settings(
        "gateway",
        port=port,
        tls_cert_file=str(files / "tls.crt"),
        tls_private_key_file=str(files / "tls.key"),
        client_ca=str(files / "ca.crt"),
        drain_seconds=0.0,
    )
    await stage.run(compose(BY_NAME["gateway"], settings))
    return f"127.0.0.1:{port}"


async def _tenant_and_agent(stage: Stage, address: str, directory: Path) -> None:
    infra, bundle = stage.infra, directory / "bundle"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "dpu-a", "labels": {HOST_LABEL: "host-a"}}}
    await infra.client.create(NODES, node)
    authority = await stage.files_of(infra, "berth-gateway-ca")
    added = await asyncio.to_thread(
        berth,
        *("tenant", "add", "one", "--host", "host-a", "--out", str(bundle)),
        *("--ca-cert", str(authority / "tls.crt"), "--ca-key", str(authority / "tls.key")),
        *("--kubeconfig", str(infra.kubeconfig)),
    )
    assert added.returncode == 0, added.stderr

    async def ready() -> bool:
        status = (await infra.client.get(TENANTS, "one")).get("status") or {}
        labels = (await infra.client.get(NODES, "dpu-a"))["metadata"]["labels"]
        return status.get("result") == "success" and labels.get(TENANT_LABEL) == "one"

    await eventually(ready)
    settings = stage.settings(
        "agent",
        gateway=address,
        gateway_ca=str(bundle / "ca.crt"),
        tls_cert_file=str(bundle / "tls.crt"),
        tls_private_key_file=str(bundle / "tls.key"),
    )
    await stage.run(compose(BY_NAME["agent"], settings))


async def _companions(infra: KubeClient, tenant: KubeClient) -> None:
    """A workload of the tenant, its rule, the companion, its mirror, and the end of all."""
    pod = _example("tenant1-pod1.yaml")
    pod["spec"]["nodeName"] = "host-a"
    pod = await tenant.create(PODS, pod, namespace="default")
    rule = _example("tenant1-rule1.yaml")
    await tenant.create(WORKLOAD_RULES, rule, namespace="universe")
    name = f"tenant1-rule1-{pod['metadata']['uid']}"
    companion = await eventually(lambda: get_or_none(infra, PODS, name, namespace="tenant-one"))
    assert companion["metadata"]["namespace"] == "tenant-one"
    await eventually(lambda: get_or_none(tenant, UVS_PODS, name, namespace="universe"))
    for client, resource, where, key in (
        (tenant, WORKLOAD_RULES, ("tenant1-rule1", "universe"), "result"),
        (infra, WORKLOADS, (f"workload-{pod['metadata']['uid']}", "tenant-one"), "rules"),
    ):
        await eventually(lambda c=client, r=resource, w=where, k=key: _status(c, r, w, k))
    await _admins_companion(infra)
    changed = {"spec": {"template": {"spec": {"containers": [{"name": "other", "image": "nginx"}]}}}}
    await tenant.patch(WORKLOAD_RULES, "tenant1-rule1", changed, patch_type="merge", namespace="universe")
    await _gone(infra, PODS, name, "tenant-one", uid=companion["metadata"]["uid"])
    await tenant.patch(
        PODS, "tenant1-pod1", {"metadata": {"labels": {"a": "b"}}}, patch_type="merge", namespace="default"
    )
    await tenant.delete(WORKLOAD_RULES, "tenant1-rule1", namespace="universe")
    await _gone(infra, PODS, name, "tenant-one")
    await _gone(tenant, UVS_PODS, name, "universe")
    await tenant.delete(PODS, "tenant1-pod1", namespace="default", grace_period_seconds=0)
    await _gone(infra, WORKLOADS, f"workload-{pod['metadata']['uid']}", "tenant-one")


async def _resources(infra: KubeClient, tenant: KubeClient) -> None:
    """What the tenant makes through the gateway: a Pod and a Secret, changed and deleted."""
    uvs_secret = UVS_SECRETS.body(
        {"name": "key"},
        spec={"object": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"a": "b"}}},
    )
    await tenant.create(UVS_PODS, _example("tenant1-uvspod1.yaml"), namespace="universe")
    await tenant.create(UVS_SECRETS, uvs_secret, namespace="universe")
    for resource, name in ((PODS, "tenant1-uvspod1"), (SECRETS, "key")):
        await eventually(lambda r=resource, n=name: get_or_none(infra, r, n, namespace="tenant-one"))
    await eventually(lambda: _status(tenant, UVS_SECRETS, ("key", "universe"), "result"))
    change = {"spec": {"object": {"stringData": {"a": "c"}}}}
    await tenant.patch(UVS_SECRETS, "key", change, patch_type="merge", namespace="universe")

    async def changed() -> bool:
        return (await infra.get(SECRETS, "key", namespace="tenant-one"))["data"]["a"] == base64.b64encode(b"c").decode()

    await eventually(changed)
    await tenant.delete(UVS_PODS, "tenant1-uvspod1", namespace="universe")
    await tenant.delete(UVS_SECRETS, "key", namespace="universe")
    await _gone(infra, PODS, "tenant1-uvspod1", "tenant-one")
    await _gone(infra, SECRETS, "key", "tenant-one")


async def _admins_companion(infra: KubeClient) -> None:
    """For a rule of the admin: it and its companions are in `universe`."""
    rule = ADMIN_RULES.body({"name": "admin"})
    spec = _example("tenant1-rule1.yaml")["spec"] | {"tenantMatch": ["*"]}
    await infra.create(ADMIN_RULES, rule | {"spec": spec}, namespace="universe")
    (companion,) = await eventually(lambda: _pods(infra, "universe"))
    await eventually(lambda: _status(infra, ADMIN_RULES, ("admin", "universe"), "conditions"))
    await infra.delete(ADMIN_RULES, "admin", namespace="universe")
    await _gone(infra, PODS, companion["metadata"]["name"], "universe")


async def _pods(client: KubeClient, namespace: str) -> list[JSON]:
    return list((await client.list_page(PODS, namespace=namespace)).items)


async def _denied(infra: KubeClient) -> None:
    """A Pod that names an attachment which is nowhere is denied; its owner hears of it."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "app", "uid": "u", "controller": True}
    metadata = {"name": "app-1", "annotations": {NETWORKS: "missing"}, "ownerReferences": [owner]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    }
    with pytest.raises(ApiError, match="could not find network attachment definition"):
        await infra.create(PODS, pod, namespace="default")
    await eventually(lambda: _events(infra, "default"))


async def _events(client: KubeClient, namespace: str) -> list[JSON]:
    return list((await client.list_page(EVENTS, namespace=namespace)).items)


async def _status(client: KubeClient, resource: Resource, where: tuple[str, str], key: str) -> object:
    found = await get_or_none(client, resource, where[0], namespace=where[1])
    return (found or {}).get("status", {}).get(key)


async def _gone(client: KubeClient, resource: Resource, name: str, namespace: str, *, uid: str = "") -> None:
    async def gone() -> bool:
        found = await get_or_none(client, resource, name, namespace=namespace)
        if found is not None and found["metadata"].get("deletionTimestamp") and resource == PODS:
            # No kubelet ends it here.
            with contextlib.suppress(ApiError):
                await client.delete(resource, name, namespace=namespace, grace_period_seconds=0)
        return found is None or (uid != "" and found["metadata"]["uid"] != uid)

    await eventually(gone)


def _example(name: str) -> JSON:
    obj: JSON = yaml.safe_load((EXAMPLES / name).read_text())
    return obj
