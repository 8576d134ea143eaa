"""What the gateway is told of the tenant's Pods."""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio
import pytest
import structlog
from google.protobuf.json_format import MessageToDict

from app.kube.resources import CONFIG_MAPS, PODS
from app.kube.store import Store
from app.tenancy.agent.connection import Link
from app.tenancy.agent.settings import AgentOptions
from app.tenancy.agent.views import project_pod
from app.tenancy.agent.workloads import Namespaces, Pending, WorkloadSender, parse_namespaces
from app.tenancy.messages import LARGEST_MESSAGE
from app.tenancy.model import GATEWAY_NAME
from tests.integration.tenancy.agent.conftest import Refusing, Runner, Tenant
from tests.integration.tenancy.agent.fakegateway import Certificates, FakeGateway
from tests.support.kits import offline_kit
from tests.support.running import running
from tests.support.waiting import eventually


def names(fake: FakeGateway) -> set[str]:
    return {workload.metadata.resource_name for workload in fake.workloads.values()}


def labels(fake: FakeGateway) -> list[dict[str, str]]:
    return [MessageToDict(workload.state.extra)["labels"] for workload in fake.workloads.values()]


def kinds(fake: FakeGateway) -> list[str]:
    return [event.WhichOneof("event") for event in fake.events]


async def test_a_pod_is_told_whole(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    made = await tenant.pod("p1", node="host-a", labels={"app": "x"}, annotations={"note": "y"})
    await agents.start()
    await eventually(lambda: names(fake) == {"p1"})
    (workload,) = fake.workloads.values()
    assert MessageToDict(workload, preserving_proto_field_name=True) == {
        "metadata": {
            "id": made["metadata"]["uid"],
            "orchestrator": "ORCHESTRATOR_TYPE_KUBERNETES",
            "resource_type": "v1/Pod",
            "resource_namespace": "default",
            "resource_name": "p1",
        },
        "state": {"node_name": "host-a", "extra": {"labels": {"app": "x"}, "annotations": {"note": "y"}}},
    }


async def test_missing_labels_and_annotations_are_empty_maps(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.pod("p1")
    await agents.start()
    await eventually(lambda: names(fake) == {"p1"})
    (workload,) = fake.workloads.values()
    assert MessageToDict(workload.state.extra) == {"labels": {}, "annotations": {}}


async def test_changes_follow_the_full_state(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.pod("p1")
    await agents.start()
    await eventually(lambda: names(fake) == {"p1"})
    await eventually(lambda: kinds(fake) == ["update", "synced"])
    await tenant.label("p1", foo="bar")
    await eventually(lambda: labels(fake) == [{"foo": "bar"}])
    await tenant.pod_status("p1", conditions=[{"type": "Ready", "status": "True"}])
    await eventually(lambda: [w.state.ready for w in fake.workloads.values()] == [True])
    await tenant.remove(PODS, "p1", namespace="default")
    await eventually(lambda: not fake.workloads)


async def test_a_kubelets_mirror_pod_is_a_workload(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.pod("static-host-a", node="host-a", annotations={"kubernetes.io/config.mirror": "hash"})
    await agents.start()
    await eventually(lambda: names(fake) == {"static-host-a"})


async def test_finished_pods_count_as_gone(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.pod("p1")
    await tenant.pod("p2")
    await agents.start()
    await eventually(lambda: names(fake) == {"p1", "p2"})
    await tenant.pod_status("p1", phase="Succeeded")
    await eventually(lambda: names(fake) == {"p2"})


async def test_finished_pods_stay_where_that_is_wanted(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.pod("p1")
    await tenant.pod_status("p1", phase="Failed")
    await agents.start(keep_finished=True)
    await eventually(lambda: names(fake) == {"p1"})


async def test_a_deleting_pod_is_gone_from_the_start_of_its_deletion(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    await tenant.pod("p1", finalizers=["example.com/held"])
    await agents.start(keep_finished=True)
    await eventually(lambda: names(fake) == {"p1"})
    await tenant.remove(PODS, "p1", namespace="default")
    await eventually(lambda: not fake.workloads)


async def test_a_namesake_replaces_a_pod(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    """Both happen within one linger: the old id is deleted, the new one told."""
    await tenant.pod("p1")
    await agents.start(linger=0.3)
    await eventually(lambda: names(fake) == {"p1"})
    await tenant.remove(PODS, "p1", namespace="default")
    again = await tenant.pod("p1")
    await eventually(lambda: set(fake.workloads) == {again["metadata"]["uid"]})


async def test_an_edit_storm_on_a_slow_gateway_coalesces(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.pod("p1")
    _, seen = await agents.start(linger=0.5)
    await eventually(lambda: kinds(fake) == ["update", "synced"])
    for number in range(40):
        await tenant.label("p1", n=str(number))
    await eventually(lambda: labels(fake) == [{"n": "39"}])
    assert seen.counts["sent", "update"] <= 10, "each edit was sent by itself"


def test_pending_keeps_one_entry_a_pod_and_is_bounded() -> None:
    pending = Pending(lambda: 3)
    for _ in range(100):
        pending.add("a", ("default", "a"))
    assert len(pending) == 1
    for name in "bcd":
        pending.add(name, ("default", name))
    assert pending.full
    assert len(pending) == 0


async def test_deleted_while_the_agent_was_down(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.pod("p1")
    await tenant.pod("p2")
    async with agents.while_running():
        await eventually(lambda: names(fake) == {"p1", "p2"})
    await tenant.remove(PODS, "p1", namespace="default")
    await agents.start()
    await eventually(lambda: names(fake) == {"p2"})


async def test_everything_is_told_again_at_resync(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    made = await tenant.pod("p1")
    await agents.start(resync_seconds=0.2)
    await eventually(lambda: names(fake) == {"p1"})
    del fake.workloads[made["metadata"]["uid"]]
    await eventually(lambda: names(fake) == {"p1"})
    await eventually(lambda: kinds(fake).count("synced") >= 2)


async def test_nothing_is_sent_before_the_pods_are_known(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    """To send the whole of an empty cache would have the gateway delete every workload."""
    made = await tenant.pod("p1")
    async with agents.while_running():
        await eventually(lambda: names(fake) == {"p1"})
    events = len(fake.events)
    client = Refusing(tenant.client, PODS)
    agent, _ = await agents.start(ready=False, client=client)
    await eventually(lambda: {line.partition(":")[0] for line in agent.waiting()} == {"pods", "gateway workloads"})
    await asyncio.sleep(0.3)
    assert len(fake.events) == events
    assert set(fake.workloads) == {made["metadata"]["uid"]}
    client.resources.clear()
    await eventually(lambda: not agent.waiting())


async def test_only_the_configured_namespaces(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    """Followed at run time, both ways."""
    await tenant.pod("p1")
    await tenant.pod("p2", namespace="kube-system")
    await tenant.config("namespaces: [default]")
    await agents.start()
    await eventually(lambda: names(fake) == {"p1"})
    await tenant.pod("p3", namespace="kube-system")
    await tenant.pod("p4")
    await eventually(lambda: names(fake) == {"p1", "p4"})
    await tenant.config("namespaces: [kube-system]")
    await eventually(lambda: names(fake) == {"p2", "p3"})
    await tenant.config("namespaces: []")
    await eventually(lambda: names(fake) == {"p1", "p2", "p3", "p4"})
    await tenant.config("namespaces: [default]")
    await eventually(lambda: names(fake) == {"p1", "p4"})
    await tenant.remove(CONFIG_MAPS, "workload-plugin-config")
    await eventually(lambda: names(fake) == {"p1", "p2", "p3", "p4"})


async def test_a_broken_config_keeps_the_last_good_one(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.config("namespaces: [default]")
    await tenant.pod("p1", namespace="kube-system")
    agent, _ = await agents.start()
    await tenant.config("namespaces: {")
    await eventually(agent.waiting)
    assert agent.waiting()[0].startswith("namespaces of workloads: no YAML")
    await tenant.pod("p2")
    await eventually(lambda: names(fake) == {"p2"})
    await tenant.config("namespaces: [kube-system]")
    await eventually(lambda: names(fake) == {"p1"})
    assert not agent.waiting()


async def test_a_config_that_was_never_good_sends_nothing(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    """Neither all namespaces (too much) nor none (everything would be deleted)."""
    await tenant.config("namespaces: 7")
    await tenant.pod("p1")
    agent, _ = await agents.start(ready=False)
    await eventually(lambda: any("want a list" in line for line in agent.waiting()))
    await eventually(lambda: fake.calls["WatchRules"])
    assert not fake.events
    await tenant.config("namespaces: []")
    await eventually(lambda: names(fake) == {"p1"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        ("namespaces:", set()),
        ("namespaces: []", set()),
        ("namespaces: [a, b]", {"a", "b"}),
        ("x: 1", set()),
    ],
)
def test_configs(text: str, expected: set[str]) -> None:
    assert parse_namespaces(text) == expected


@pytest.mark.parametrize(
    "text", ["[]", "namespaces: a", "namespaces: [1]", "namespaces: [A_b]", "{", "namespaces: {a: b}"]
)
def test_broken_configs(text: str) -> None:
    with pytest.raises(ValueError):
        parse_namespaces(text)


async def test_a_pod_too_large_is_skipped_and_the_others_go_on(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    with structlog.testing.capture_logs() as logs:
        await tenant.pod("big", annotations={"a": "x" * 5000})
        await tenant.pod("small")
        _, seen = await agents.start(max_message=2000, resync_seconds=0.1)
        await eventually(lambda: names(fake) == {"small"})
        await eventually(lambda: kinds(fake).count("synced") > 3)
    assert fake.calls["WorkloadStream"] == 1, "the stream broke"
    assert seen.counts["skipped", "too_large"] == 1
    assert [entry["name"] for entry in logs if entry["event"].startswith("Pod skipped")] == ["big"]


@pytest.mark.parametrize(
    ("said", "sent"), [("2000", {"small"}), ("nonsense", {"big", "small"}), ("", {"big", "small"})]
)
async def test_the_gateway_says_how_much_it_reads(
    tenant: Tenant, fake: FakeGateway, agents: Runner, said: str, sent: set[str]
) -> None:
    """A larger message would end the stream each time, and no Pod after it would be sent."""
    fake.headers = ((LARGEST_MESSAGE, said),)
    await tenant.pod("big", annotations={"a": "x" * 5000})
    await tenant.pod("small")
    await agents.start(resync_seconds=0.1)
    await eventually(lambda: names(fake) == sent)
    assert fake.calls["WorkloadStream"] == 1


async def test_a_pod_that_cannot_be_read_leaves_the_others(caplog: pytest.LogCaptureFixture) -> None:
    store = Store(lambda obj: project_pod(obj, keep_finished=False))
    replacement = store.replacement()
    replacement.add({"metadata": {"namespace": "a", "name": "p", "uid": "u"}})
    with pytest.raises(Exception, match="ValueError"):
        replacement.add({"metadata": {"namespace": "a", "name": "q"}})
    replacement.commit()
    assert store.keys() == [("a", "p")]


async def test_a_namesake_seen_at_once_is_a_deletion_and_a_new_workload(
    fake: FakeGateway, certificates: Certificates, agent_options: AgentOptions
) -> None:
    """As a list after a lost watch shows it: one change, from one UID to another."""
    store = Store(lambda obj: project_pod(obj, keep_finished=False))
    namespaces = Namespaces(offline_kit(), agent_options.settings)
    namespaces.store.mark_synced()
    sender = WorkloadSender(store, namespaces, options=agent_options)
    store.upsert({"metadata": {"namespace": "a", "name": "p", "uid": "first"}})
    store.mark_synced()
    files = ((certificates.folder / name).read_bytes() for name in ("ca.crt", "tls.key", "tls.crt"))
    options = [("grpc.ssl_target_name_override", GATEWAY_NAME)]
    address, credentials = f"127.0.0.1:{fake.port}", grpc.ssl_channel_credentials(*files)
    async with (
        grpc.aio.secure_channel(address, credentials, options=options) as channel,
        running(sender.session(Link(channel, (), lambda: None))),
    ):
        await eventually(lambda: kinds(fake) == ["update", "synced"])
        store.upsert({"metadata": {"namespace": "a", "name": "p", "uid": "second"}})
        await eventually(lambda: kinds(fake)[2:] == ["delete", "update"])
    assert (fake.events[2].delete.id, fake.events[3].update.metadata.id) == ("first", "second")
