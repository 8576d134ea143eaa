"""Objects of tenants through the resource service, and the watch of their Pods."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import grpc
import pytest
import yaml

from app.errors import ApiError
from app.kube.resources import CONFIG_MAPS, DAEMON_SETS, PODS, RESOURCE_QUOTAS, SECRETS
from app.tenancy.gateway.caches import view_pod
from app.tenancy.gateway.failures import Refused
from app.tenancy.gateway.resource_service import RESOURCES, prepare
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as pb
from app.workloads.model import (
    COMPANION,
    INJECTED,
    RESOURCE_OWNER,
    RULE,
    RULE_NAME,
    SOURCE_HASH,
    SPEC_HASH,
    WORKLOAD,
    WORKLOAD_ID,
)
from tests.support.gateway_calls import BOMB, POD, fails, manifest, pod, put, resources, type_of
from tests.support.tenancy import Door, Infra, Start

CODE = grpc.StatusCode
NS = "tenant-tenant1"
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": POD["spec"]}
DAEMON_SET = manifest("DaemonSet", "x", spec={"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE})
ALL = [
    (PODS, pod("x")),
    (DAEMON_SETS, DAEMON_SET),
    (SECRETS, manifest("Secret", "x", stringData={"password": "hunter2"})),
    (CONFIG_MAPS, manifest("ConfigMap", "x", data={"a": "1"})),
]


def get(kind: str, name: str) -> Any:
    return pb.GetRequest(type=type_of(kind), id=pb.ResourceId(name=name))


def delete(kind: str, name: str) -> Any:
    return pb.DeleteRequest(type=type_of(kind), id=pb.ResourceId(name=name))


@pytest.mark.parametrize(("resource", "obj"), ALL, ids=[entry[0].kind for entry in ALL])
@pytest.mark.parametrize("method", ["Create", "Update"])
async def test_the_life_of_an_object(door: Door, infra: Infra, resource: Any, obj: Any, method: str) -> None:
    channel, kind = door.tenant("tenant1"), resource.kind
    elsewhere = {**obj, "metadata": {**obj["metadata"], "namespace": "kube-system"}}
    await put(channel, elsewhere, method=method)
    stored = await infra.client.get(resource, "x", namespace=NS)
    assert stored["metadata"]["labels"][RESOURCE_OWNER] == "api"
    assert (await fails(put(channel, obj, method="Create"))).code() is CODE.ALREADY_EXISTS
    stub = resources(channel)
    shown = yaml.safe_load((await stub.Get(get(kind, "x"))).obj.obj_spec)
    assert (shown["kind"], shown["metadata"]["name"], shown["metadata"]["namespace"]) == (kind, "x", NS)
    assert "berth.dev" not in str(shown["metadata"])
    assert "managedFields" not in shown["metadata"]
    listed = (await stub.List(pb.ListRequest(type=type_of(kind)))).objects
    assert [yaml.safe_load(entry.obj_spec)["metadata"]["name"] for entry in listed] == ["x"]
    other = resources(door.tenant("tenant2"))
    assert (await fails(other.Get(get(kind, "x")))).code() is CODE.NOT_FOUND
    assert (await fails(other.Delete(delete(kind, "x")))).code() is CODE.NOT_FOUND
    await stub.Delete(delete(kind, "x"))
    if resource != PODS:  # a Pod without a kubelet stays until it is reaped
        assert (await fails(stub.Get(get(kind, "x")))).code() is CODE.NOT_FOUND
        assert (await fails(stub.Delete(delete(kind, "x")))).code() is CODE.NOT_FOUND


class Answering:
    """An API server that answers everything that is applied in these words; the rest is the cluster's."""

    def __init__(self, client: Any, text: str, reason: str) -> None:
        self._client, self._error = client, ApiError(f"PATCH /x: HTTP 500: {text}", status=500, reason=reason)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def apply(self, *_: Any, **__: Any) -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("text", "reason", "code"),
    [
        (
            "failed to create typed patch object (/x; /v1, Kind=Pod): .spec.workloadRef: field not …",
            "",
            "INVALID_ARGUMENT",
        ),
        (
            "failed to convert new object (/x; /v1, Kind=Pod) to proper version: quantities must …",
            "",
            "INVALID_ARGUMENT",
        ),
        ("etcdserver: request is too large", "", "INVALID_ARGUMENT"),
        (
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3700627 vs. 2097152)",
            "",
            "INVALID_ARGUMENT",
        ),
        ("etcdserver: request timed out", "", "UNAVAILABLE"),
        ("Internal error occurred: etcdserver: request is too large", "InternalError", "UNAVAILABLE"),
    ],
)
async def test_what_will_never_pass_is_the_callers_mistake(
    infra: Infra, start: Start, text: str, reason: str, code: str
) -> None:
    """An API server answers some of it with 500 (`tests/e2e/test_rejected.py`): a client would try for ever."""
    await infra.add_tenant("tenant1")
    door = await start(client=Answering(infra.client, text, reason))
    refused = await fails(put(door.tenant("tenant1"), pod("x")))
    assert (refused.code().name, refused.details()) == (code, text)


@pytest.mark.parametrize("method", ["Create", "Update"])
async def test_a_quota_of_the_namespace_is_told_as_such(door: Door, infra: Infra, method: str) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "1"}}}
    await infra.client.create(RESOURCE_QUOTAS, quota, namespace=NS)
    channel = door.tenant("tenant1")
    await put(channel, manifest("ConfigMap", "x", data={"a": "1"}), method=method)
    refused = await fails(put(channel, manifest("ConfigMap", "y", data={"a": "1"}), method=method))
    assert refused.code() is CODE.RESOURCE_EXHAUSTED
    text = "exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1"
    assert refused.details() == f'configmaps "y" is forbidden: {text}'
    longest = await fails(put(channel, manifest("ConfigMap", "y" * 253, data={"a": "1"}), method=method))
    assert longest.code() is CODE.RESOURCE_EXHAUSTED
    assert longest.details().endswith(text)
    await put(channel, manifest("ConfigMap", "x", data={"a": "2"}), method="Update")
    await resources(channel).Delete(delete("ConfigMap", "x"))
    await put(channel, manifest("ConfigMap", "y", data={"a": "1"}), method=method)


async def test_an_update_is_an_apply(door: Door, infra: Infra) -> None:
    """What is left out is removed; an equal manifest is not written."""
    channel = door.tenant("tenant1")
    await put(channel, manifest("ConfigMap", "x", data={"a": "1", "b": "2"}, metadata={"labels": {"k": "v"}}))
    first = await infra.client.get(CONFIG_MAPS, "x", namespace=NS)
    await put(channel, manifest("ConfigMap", "x", metadata={"labels": {"k": "v"}}, data={"b": "2", "a": "1"}))
    assert await infra.client.get(CONFIG_MAPS, "x", namespace=NS) == first
    await put(channel, manifest("ConfigMap", "x", data={"b": "3"}))
    second = await infra.client.get(CONFIG_MAPS, "x", namespace=NS)
    assert second["data"] == {"b": "3"}
    assert second["metadata"]["labels"] == {RESOURCE_OWNER: "api"}
    assert second["metadata"]["uid"] == first["metadata"]["uid"]


async def test_an_equal_manifest_is_not_applied_again(door: Door, infra: Infra) -> None:
    """Who changes the object in the infra cluster has his reasons; an apply would set it back."""
    channel = door.tenant("tenant1")
    await put(channel, manifest("ConfigMap", "x", data={"a": "1"}))
    await infra.client.patch(CONFIG_MAPS, "x", {"data": {"a": "by hand"}}, patch_type="merge", namespace=NS)
    await put(channel, manifest("ConfigMap", "x", data={"a": "1"}))
    assert (await infra.client.get(CONFIG_MAPS, "x", namespace=NS))["data"] == {"a": "by hand"}


async def test_create_then_update_removes_what_is_left_out(door: Door, infra: Infra) -> None:
    channel = door.tenant("tenant1")
    await put(channel, manifest("ConfigMap", "x", data={"a": "1", "b": "2"}), method="Create")
    await put(channel, manifest("ConfigMap", "x", data={"b": "2"}))
    assert (await infra.client.get(CONFIG_MAPS, "x", namespace=NS))["data"] == {"b": "2"}


async def test_a_changed_pod_is_refused_with_the_api_servers_words(door: Door) -> None:
    channel = door.tenant("tenant1")
    await put(channel, pod("x"))
    changed = {**pod("x"), "spec": {"containers": [{"name": "other", "image": "nginx"}]}}
    error = await fails(put(channel, changed))
    assert error.code() is CODE.INVALID_ARGUMENT
    assert "pod updates may not change fields" in (error.details() or "")


async def test_the_strings_of_a_secret_are_folded(door: Door, infra: Infra) -> None:
    old = {"a": base64.b64encode(b"old").decode(), "b": base64.b64encode(b"kept").decode()}
    await put(door.tenant("tenant1"), manifest("Secret", "x", data=old, stringData={"a": "new ü"}))
    stored = await infra.client.get(SECRETS, "x", namespace=NS)
    assert stored["data"] == {**old, "a": base64.b64encode("new ü".encode()).decode()}
    assert "stringData" not in stored


@pytest.mark.parametrize(
    ("kind", "parts", "data"),
    [
        ("Secret", {"stringData": {"a": None, "b": "c"}}, {"a": "", "b": "Yw=="}),
        ("Secret", {"data": {"a": None}}, {"a": ""}),
        ("Secret", {"data": {"a": "Yw=="}, "stringData": {"a": None}}, {"a": ""}),
        ("ConfigMap", {"data": {"a": None}}, {"a": ""}),
    ],
)
async def test_a_null_is_an_empty_text_as_for_the_api_server(
    door: Door, infra: Infra, kind: str, parts: Any, data: Any
) -> None:
    metadata = {"labels": {"l": None}, "annotations": {"n": None}}
    channel = door.tenant("tenant1")
    await put(channel, manifest(kind, "x", metadata=metadata, **parts))
    stored = await infra.client.get(CONFIG_MAPS if kind == "ConfigMap" else SECRETS, "x", namespace=NS)
    assert stored["data"] == data
    assert (stored["metadata"]["labels"]["l"], stored["metadata"]["annotations"]["n"]) == ("", "")
    await put(channel, manifest(kind, "x", metadata=metadata, **parts))
    assert await infra.client.get(CONFIG_MAPS if kind == "ConfigMap" else SECRETS, "x", namespace=NS) == stored


_C = {"name": "c", "image": "i"}
_SELECTED = {"selector": {"matchLabels": {"a": None}}, "template": {"metadata": {"labels": {"a": None}}}}


@pytest.mark.parametrize(
    "obj",
    [
        manifest("Secret", "x", data=None, stringData=None, type=None),
        manifest("ConfigMap", "x", data=None, binaryData={"a": None}),
        pod("x", labels=None, annotations=None),
        {**pod("x"), "spec": {"containers": [{**_C, "resources": {"limits": {"cpu": None}}}], "nodeSelector": {"a": None}}},
        {**pod("x"), "spec": {"containers": [_C], "affinity": {"nodeAffinity": None}}},
        {**pod("x"), "spec": {"containers": [None], "volumes": [None], "tolerations": [None]}},
        {**pod("x"), "spec": None},
        {**pod("x"), "metadata": None},
        manifest("DaemonSet", "x", spec=None),
        manifest("DaemonSet", "x", spec={"selector": None, "template": None}),
        manifest("DaemonSet", "x", spec={**_SELECTED, "template": {**_SELECTED["template"], "spec": {"containers": [_C]}}}),
    ],
)  # fmt: skip
def test_no_null_breaks_anything(obj: Any) -> None:
    """It is taken, or refused with a reason."""
    with contextlib.suppress(Refused):
        prepare(obj, resource=RESOURCES[obj["apiVersion"], obj["kind"]], namespace=NS, owner="api")


async def test_no_content_of_a_secret_is_logged_or_echoed(door: Door, capsys: pytest.CaptureFixture[str]) -> None:
    channel = door.tenant("tenant1")
    await put(channel, manifest("Secret", "x", stringData={"password": "hunter2"}))
    await put(channel, manifest("Secret", "x", stringData={"password": "hunter2-again"}))
    bad = [
        json.dumps(manifest("Secret", "y", data={"password": "hunter2 is no base64"})).encode(),
        b"apiVersion: v1\nkind: Secret\nmetadata: {name: z}\nstringData: {a: 'hunter2}\n",
        b"apiVersion: v1\nkind: Secret\nstringData: &a !!binary hunter2\n",
        b"password: *hunter2\n",
    ]
    for text in bad:
        error = await fails(put(channel, text, kind="Secret"))
        assert error.code() is CODE.INVALID_ARGUMENT
        assert "hunter2" not in (error.details() or "")
    captured = capsys.readouterr()
    assert "hunter2" not in captured.out + captured.err


@pytest.mark.parametrize(
    "marks", [{}, {"labels": {COMPANION: "tenant"}}, {"labels": {COMPANION: "tenant", RESOURCE_OWNER: "api"}}]
)
async def test_what_we_did_not_make_is_never_touched(door: Door, infra: Infra, marks: Any) -> None:
    foreign = {**pod("x"), "metadata": {"name": "x", **marks}}
    await infra.client.create(PODS, foreign, namespace=NS)
    before = await infra.client.get(PODS, "x", namespace=NS)
    channel = door.tenant("tenant1")
    error = await fails(put(channel, pod("x")))
    assert error.code() is CODE.FAILED_PRECONDITION
    assert "not made by this tenant's resources" in (error.details() or "")
    assert (await fails(put(channel, pod("x"), method="Create"))).code() is CODE.ALREADY_EXISTS
    assert (await fails(resources(channel).Delete(delete("Pod", "x")))).code() is CODE.NOT_FOUND
    assert (await fails(resources(channel).Get(get("Pod", "x")))).code() is CODE.NOT_FOUND
    assert list((await resources(channel).List(pb.ListRequest(type=type_of("Pod")))).objects) == []
    assert await infra.client.get(PODS, "x", namespace=NS) == before


class Racing:
    """A client before whose apply somebody else makes the object; the rest is the real one."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def apply(self, resource: Any, name: str, body: Any, **more: Any) -> Any:
        await self._client.create(resource, {"metadata": {"name": name}, "data": {"theirs": "1"}}, namespace=NS)
        return await self._client.apply(resource, name, body, **more)


@pytest.mark.parametrize(("method", "code"), [("Create", CODE.ALREADY_EXISTS), ("Update", CODE.FAILED_PRECONDITION)])
async def test_what_somebody_else_makes_meanwhile_is_not_merged_into(
    infra: Infra, start: Start, method: str, code: grpc.StatusCode
) -> None:
    """Between looking and applying, and where no field is in conflict."""
    await infra.add_tenant("tenant1")
    door = await start(client=Racing(infra.client))
    error = await fails(put(door.tenant("tenant1"), manifest("ConfigMap", "x", data={"ours": "1"}), method=method))
    assert error.code() is code
    found = await infra.client.get(CONFIG_MAPS, "x", namespace=NS)
    assert found["data"] == {"theirs": "1"}
    assert RESOURCE_OWNER not in (found["metadata"].get("labels") or {})


async def test_an_object_is_changed_by_its_keeper_alone_and_listed_by_keeper(door: Door) -> None:
    channel = door.tenant("tenant1")
    await put(channel, manifest("ConfigMap", "x", data={"a": "1"}), owner="agent")
    await put(channel, manifest("ConfigMap", "y", data={"a": "1"}))
    error = await fails(put(channel, manifest("ConfigMap", "x", data={"a": "2"})))
    assert error.code() is CODE.FAILED_PRECONDITION
    assert "agent" in (error.details() or "")
    listed = (await resources(channel).List(pb.ListRequest(type=type_of("ConfigMap"), owner="agent"))).objects
    assert [yaml.safe_load(entry.obj_spec)["metadata"]["name"] for entry in listed] == ["x"]


@pytest.mark.parametrize(
    ("obj", "part"),
    [
        ({**pod("x"), "spec": {**POD["spec"], "hostNetwork": True}}, "obj.obj_spec.spec.hostNetwork"),
        ({**pod("x"), "spec": {**POD["spec"], "serviceAccountName": "admin"}}, "serviceAccountName"),
        (pod("x", labels={COMPANION: "tenant"}), COMPANION),
        (pod("x", annotations={SOURCE_HASH: "x"}), SOURCE_HASH),
        (manifest("Secret", "x", type="kubernetes.io/service-account-token"), "type"),
        (pod(""), "name"),
        (pod("../x"), "name"),
        ({"apiVersion": "v1", "kind": "Pod"}, "metadata"),
    ],
)
async def test_what_a_tenant_may_not_have(door: Door, infra: Infra, obj: Any, part: str) -> None:
    for method in ("Create", "Update"):
        error = await fails(put(door.tenant("tenant1"), obj, method=method))
        assert error.code() is CODE.INVALID_ARGUMENT
        assert part in (error.details() or "")
    assert await infra.names(PODS, NS) | await infra.names(SECRETS, NS) == set()


async def test_the_type_must_be_served_and_agree(door: Door) -> None:
    channel = door.tenant("tenant1")
    assert (await fails(put(channel, pod("x"), kind="Service"))).code() is CODE.INVALID_ARGUMENT
    assert (await fails(put(channel, pod("x"), kind="ConfigMap"))).code() is CODE.INVALID_ARGUMENT
    assert (await fails(resources(channel).List(pb.ListRequest()))).code() is CODE.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\x00\xff",
        b"just text",
        b"- a\n- b\n",
        b"{" * 50_000,
        b"[" * 200_000,
        b'{"a":' * 3000 + b"1" + b"}" * 3000,
        b"a: " + b"[" * 3000 + b"]" * 3000,
        BOMB,
        b"a: &a [*a]\n",
        b"apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Pod\n",
        b"!!python/object/apply:os.system ['true']",
        b"? {a: b}\n: c\n",
        b"a: " + b"9" * 5000,
        b'{"a": 1e999}',
        b"x: y\n" * 80_000,
        b'{"a":"' + b"x" * 1_100_000 + b'"}',
    ],
    ids=lambda text: repr(text[:12]),
)
async def test_garbage_manifests_are_refused(door: Door, text: bytes) -> None:
    for kind in ("Pod", "ConfigMap"):
        error = await fails(put(door.tenant("tenant1"), text, kind=kind))
        assert error.code() is CODE.INVALID_ARGUMENT
        assert len(error.details() or "") < 4000


@pytest.mark.parametrize(("kind", "most"), [("Pod", 64), ("DaemonSet", 16), ("ConfigMap", 1024), ("Secret", 1024)])
async def test_a_manifest_that_is_too_large_is_refused(door: Door, kind: str, most: int) -> None:
    """Of Pods there may be thousands, and each is stored and cached."""
    for size, wanted in ((most * 1024 + 1, True), (most * 1024, False)):
        text = b'{"a":"' + b"x" * (size - 8) + b'"}'
        error = await fails(put(door.tenant("tenant1"), text, kind=kind))
        assert error.code() is CODE.INVALID_ARGUMENT
        assert (f"a manifest of a {kind} has at most {most * 1024}" in (error.details() or "")) is wanted


async def test_yaml_is_read_as_well(door: Door, infra: Infra) -> None:
    text = b"# by hand\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: '1e3', b: 2026-01-01}\n"
    await put(door.tenant("tenant1"), text, kind="ConfigMap")
    assert (await infra.client.get(CONFIG_MAPS, "x", namespace=NS))["data"] == {"a": "1e3", "b": "2026-01-01"}


def test_pods_outside_of_tenants_namespaces_are_not_kept() -> None:
    metadata = {"name": "x", "namespace": "universe", "labels": {COMPANION: "admin"}}
    assert view_pod({"metadata": metadata}) is None
    assert view_pod({"metadata": {**metadata, "namespace": NS}}) is not None


async def companion(infra: Infra, name: str, namespace: str = NS) -> None:
    metadata = {
        "name": name,
        "labels": {COMPANION: "tenant", WORKLOAD_ID: "id1", "app": "mine"},
        "annotations": {
            RULE_NAME: "rule1",
            WORKLOAD: f"{namespace}/id1",
            RULE: f"{namespace}/rule1",
            SPEC_HASH: "abc",
            INJECTED: '["tenant-node-name"]',
            "tenant-node-name": "host-a",
        },
    }
    await infra.client.create(PODS, {**POD, "metadata": metadata}, namespace=namespace)


async def test_a_watch_shows_a_tenant_its_pods_and_no_others(door: Door, infra: Infra) -> None:
    channel = door.tenant("tenant1")
    watch = resources(channel).Watch(pb.WatchRequest())
    assert (await watch.read()).synced
    await companion(infra, "others", "tenant-tenant2")
    await companion(infra, "of-the-admin", "universe")
    await infra.client.create(PODS, pod("plain"), namespace=NS)
    await companion(infra, "rule1-id1")
    seen = (await watch.read()).pod
    assert (seen.name, seen.origin, seen.rule, seen.workload_id) == ("rule1-id1", pb.ORIGIN_RULE, "rule1", "id1")
    stored = await infra.client.get(PODS, "rule1-id1", namespace=NS)
    assert seen.uid == stored["metadata"]["uid"]
    shown = json.loads(seen.manifest)
    assert shown == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "rule1-id1",
            "labels": {"app": "mine"},
            "annotations": {RULE_NAME: "rule1", "tenant-node-name": "host-a"},
        },
        "spec": stored["spec"],
    }
    assert seen.manifest == json.dumps(shown, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    await put(channel, pod("own"))
    own = (await watch.read()).pod
    assert (own.name, own.origin, own.manifest) == ("own", pb.ORIGIN_RESOURCE, b"")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await infra.client.patch(
        PODS, "rule1-id1", {"status": status}, patch_type="merge", namespace=NS, subresource="status"
    )
    running = (await watch.read()).pod
    assert (running.name, running.phase, running.ready, running.status) == ("rule1-id1", "Running", True, b"")
    await infra.client.delete(PODS, "rule1-id1", namespace=NS, grace_period_seconds=0)
    assert (await watch.read()).deleted == "rule1-id1"
    again = resources(channel).Watch(pb.WatchRequest())
    assert (await again.read()).pod.name == "own"
    assert (await again.read()).synced
    watch.cancel()
    again.cancel()


async def test_a_watch_shows_why_a_pod_does_not_run_and_nothing_of_other_tenants(door: Door, infra: Infra) -> None:
    await companion(infra, "rule1-id1")
    watch = resources(door.tenant("tenant1")).Watch(pb.WatchRequest())
    await watch.read()
    assert (await watch.read()).synced

    async def shown(status: dict[str, Any]) -> Any:
        await infra.client.patch(
            PODS, "rule1-id1", {"status": status}, patch_type="merge", namespace=NS, subresource="status"
        )
        return json.loads((await watch.read()).pod.status)

    message = "0/4 nodes are available: 1 node(s) had untolerated taint {tenant: tenant2}, 2 Insufficient cpu, 1 node(s) were unschedulable."
    unfit = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    status = await shown({"phase": "Pending", "conditions": [unfit]})
    assert status == {"conditions": [{**unfit, "message": "2 Insufficient cpu, 1 node(s) were unschedulable"}]}
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s"}
    ended = {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
    container = {
        "name": "c",
        "image": "c",
        "imageID": "sha256:1",
        "ready": False,
        "restartCount": 3,
        "state": {"waiting": waiting},
        "lastState": {"terminated": {**ended, "containerID": "containerd://1"}},
    }
    unready = {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "m"}
    status = await shown({"phase": "Running", "conditions": [unready], "containerStatuses": [container]})
    assert status == {
        "conditions": [unready],
        "containerStatuses": [
            {"name": "c", "restartCount": 3, "state": {"waiting": waiting}, "lastState": {"terminated": ended}}
        ],
    }
    watch.cancel()
