"""The node agent: Pods with cores of their own become RmdWorkloads, whatever was missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from app.devtools.kubelet.cpus import CpuManager
from app.errors import ApiError
from app.kube.resources import EVENTS, PODS
from app.rmd.model import NODE_LABEL, RMD_WORKLOADS
from tests.support.rmd_cluster import RmdCluster
from tests.support.rmd_node import Node, container, node
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def on_node(cluster: RmdCluster) -> AsyncIterator[Node]:
    async with node(cluster) as found:
        yield found


async def test_a_container_with_cores_of_its_own(on_node: Node) -> None:
    async with on_node.agent():
        pod = await on_node.run("p", container("a"), container("b", cpu="1", ways="1"), a_policy="gold")
        await eventually(lambda: on_node.cores() == {"p-rmd-workload-a": ["1", "2"], "p-rmd-workload-b": ["3"]})
        (found,) = [one for one in on_node.cluster.stored(RMD_WORKLOADS) if one["metadata"]["name"].endswith("a")]
        assert found["spec"] == {
            "coreIds": ["1", "2"],
            "nodes": ["n1"],
            "policy": "gold",
            "rdt": {"cache": {"max": 2, "min": 2}},
        }
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"], "controller": True}
        assert found["metadata"]["ownerReferences"] == [owner]
        assert found["metadata"]["labels"] == {NODE_LABEL: "n1"}
        await eventually(lambda: [one[0] for one in on_node.events()].count("CacheReservation") == 2)


async def test_a_pod_that_kubelet_has_not_got_yet_waits(on_node: Node) -> None:
    async with on_node.agent():
        pod = await on_node.run("p", phase="Pending")
        await on_node.run("other")
        await eventually(lambda: list(on_node.cores()) == ["other-rmd-workload-c"])
        await on_node.admit(pod)
        await eventually(lambda: on_node.cores().get("p-rmd-workload-c") == ["3", "4"])


async def test_changed_annotations_change_the_spec(on_node: Node) -> None:
    async with on_node.agent():
        await on_node.run("p", c_mba_percentage="50")
        await eventually(lambda: "mba" in on_node.specs().get("p-rmd-workload-c", {}).get("rdt", {}))
        for annotations, wanted in (
            ({"c_mba_percentage": "70"}, {"cache": {"max": 2, "min": 2}, "mba": {"percentage": 70}}),
            ({"c_mba_percentage": None}, {"cache": {"max": 2, "min": 2}}),
        ):
            await on_node.cluster.patched(PODS, "p", {"metadata": {"annotations": annotations}})
            await eventually(lambda: on_node.specs()["p-rmd-workload-c"]["rdt"], wanted.__eq__)


async def test_what_happened_while_it_was_down(on_node: Node) -> None:
    gone, changed = await on_node.run("gone"), await on_node.run("changed")
    async with on_node.agent():
        await eventually(lambda: len(on_node.cores()) == 2)
    await on_node.end(gone)
    await on_node.end(changed)
    await on_node.run("new", container(cpu="1"))
    again = await on_node.run("changed", container(cpu="3"))
    async with on_node.agent():
        await eventually(
            lambda: on_node.cores() == {"changed-rmd-workload-c": ["2", "3", "4"], "new-rmd-workload-c": ["1"]}
        )
    (found,) = [one for one in on_node.cluster.stored(RMD_WORKLOADS) if one["metadata"]["name"].startswith("changed")]
    assert found["metadata"]["ownerReferences"][0]["uid"] == again["metadata"]["uid"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_has_ended_has_none(on_node: Node, phase: str) -> None:
    async with on_node.agent():
        pod = await on_node.run("p")
        await eventually(lambda: len(on_node.cores()) == 1)
        await on_node.says(pod, phase=phase)
        await eventually(lambda: on_node.cores() == {})


@pytest.mark.parametrize(
    ("policy", "exit_code", "stays"),
    [("Always", 0, True), ("OnFailure", 1, True), ("OnFailure", 0, False), ("Never", 1, False)],
)
async def test_a_container_that_has_ended_for_good_has_none(
    on_node: Node, policy: str, exit_code: int, *, stays: bool
) -> None:
    async with on_node.agent():
        pod = await on_node.run("p", container("a"), container("b"), restart=policy)
        await eventually(lambda: len(on_node.cores()) == 2)
        ended = {"name": "a", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
        await on_node.says(pod, containerStatuses=[ended | {"state": {"terminated": {"exitCode": exit_code}}}])
        await on_node.cluster.patched(PODS, "p", {"metadata": {"annotations": {"b_policy": "gold"}}})
        await eventually(lambda: on_node.specs()["p-rmd-workload-b"].get("policy") == "gold")
        await eventually(lambda: ("p-rmd-workload-a" in on_node.cores()) == stays)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (container(cpu="500m"), "want whole CPUs"),
        (container(ways="0"), "want 1 or more ways, got 0"),
    ],
)
async def test_why_a_container_has_none_is_said_once(on_node: Node, given: dict, words: str) -> None:
    async with on_node.agent(resync=0.1):
        await on_node.run("p", given)
        (found,) = await eventually(on_node.events, bool)
        assert found[0] == "NoCacheReservation"
        assert words in found[1]
        await on_node.cluster.patched(PODS, "p", {"metadata": {"labels": {"a": "b"}}})
        await on_node.run("q")
        await eventually(lambda: list(on_node.cores()) == ["q-rmd-workload-c"])
        assert [one["count"] for one in on_node.cluster.stored(EVENTS) if one["reason"] == "NoCacheReservation"] == [1]


async def test_without_the_static_policy_an_event_says_so(on_node: Node) -> None:
    on_node.kubelet.faults.blank = True
    async with on_node.agent():
        await on_node.run("p")
        ((reason, message),) = await eventually(on_node.events, bool)
        assert (reason, "has to be static" in message) == ("NoExclusiveCores", True)
        on_node.kubelet.faults.blank = False
        await eventually(lambda: len(on_node.cores()) == 1)


async def test_cores_that_several_containers_have_are_not_reserved(
    on_node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kubelet 1.20 lists the shared CPUs of containers without CPUs of their own."""
    on_node.kubelet.faults.shared = True
    async with on_node.agent():
        await on_node.run("a", container("c", cpu="500m", ways=""))
        await on_node.run("p")
        await eventually(lambda: on_node.cores() == {"p-rmd-workload-c": ["1", "2"]})
        monkeypatch.setattr(CpuManager, "admit", lambda _self, _pod: None)
        await on_node.run("q")
        await eventually(lambda: "SharedCores" in [one[0] for one in on_node.events()])
        assert "q-rmd-workload-c" not in on_node.cores()


async def test_cores_that_no_machine_has_cost_their_container_alone(on_node: Node) -> None:
    on_node.kubelet.faults.impossible = "bad"
    async with on_node.agent() as agent:
        await on_node.run("p", container("bad"), container("good"))
        await on_node.run("q")
        await eventually(lambda: on_node.cores() == {"p-rmd-workload-good": ["3", "4"], "q-rmd-workload-c": ["5", "6"]})
        await eventually(lambda: "ImpossibleCores" in [reason for reason, _ in on_node.events()])
        assert agent.waiting() == []
        on_node.kubelet.faults.impossible = "good"
        await eventually(lambda: on_node.cores().get("p-rmd-workload-bad") == ["1", "2"])
        assert on_node.cores()["p-rmd-workload-good"] == ["3", "4"]


@pytest.mark.parametrize("status", [400, 403, 409, 413, 422, 500])
async def test_a_write_that_is_refused_costs_its_container_alone(on_node: Node, status: int) -> None:
    """Whatever the answer is, and however often: those after it are created, changed and deleted."""
    refused: Counter[str] = Counter()

    async def refuse(verb: str, name: str) -> None:
        if verb != "get" and name == "p-rmd-workload-a":
            refused[verb] += 1
            raise ApiError(f"{verb}: HTTP {status}: no", status=status)

    async with await on_node.cluster.client() as client:
        client.before = refuse
        async with on_node.agent(client, resync=0.5):
            pod = await on_node.run("p", container("a"), container("b"))
            await eventually(lambda: on_node.cores() == {"p-rmd-workload-b": ["3", "4"]})
        if status not in (409, 500):
            assert "RmdWorkloadRefused" in [reason for reason, _ in on_node.events()]
        assert refused["create"] > 0
        client.before = None
        async with on_node.agent(client):
            await eventually(lambda: len(on_node.cores()) == 2)
        client.before = refuse
        async with on_node.agent(client):
            await on_node.cluster.patched(
                PODS, "p", {"metadata": {"annotations": {"a_policy": "x", "b_policy": "gold"}}}
            )
            await eventually(lambda: on_node.specs()["p-rmd-workload-b"].get("policy") == "gold")
            assert refused["patch"] > 0
            await on_node.says(pod, phase="Failed")
            await eventually(lambda: list(on_node.cores()) == ["p-rmd-workload-a"])
            assert refused["delete"] > 0


async def test_one_name_in_two_namespaces(on_node: Node) -> None:
    async with on_node.agent():
        await on_node.run("p", namespace="team-a")
        await on_node.run("p", namespace="team-b")
        await eventually(lambda: on_node.cores("team-a") == {"p-rmd-workload-c": ["1", "2"]})
        await eventually(lambda: on_node.cores("team-b") == {"p-rmd-workload-c": ["3", "4"]})


async def test_what_belongs_to_others_is_left_alone(on_node: Node) -> None:
    await on_node.cluster.reserve("p-rmd-workload-c", "n1")
    await on_node.cluster.reserve("by-hand", "n1")
    label = {"metadata": {"labels": {NODE_LABEL: "n1"}}}
    await on_node.cluster.patched(RMD_WORKLOADS, "by-hand", label)
    before = on_node.specs()
    async with on_node.agent():
        await on_node.run("p")
        ((reason, message),) = await eventually(on_node.events, bool)
        assert (reason, "p-rmd-workload-c" in message) == ("NameTaken", True)
        assert on_node.specs() == before
        await on_node.cluster.remove(RMD_WORKLOADS, "p-rmd-workload-c", "default")
        await eventually(lambda: on_node.cores().get("p-rmd-workload-c") == ["1", "2"])


async def test_those_of_the_operators_agent_are_taken_over(on_node: Node) -> None:
    pod = await on_node.run("p")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"], "controller": True}
    metadata = {"name": "p-rmd-workload-c", "ownerReferences": [owner]}
    spec = {"coreIds": ["1", "2"], "nodes": ["n1"], "rdt": {"cache": {"max": 2, "min": 2}}}
    made = await on_node.cluster.admin.create(
        RMD_WORKLOADS, RMD_WORKLOADS.body(metadata, spec=spec), namespace="default"
    )
    async with on_node.agent():
        await eventually(lambda: on_node.cores() == {"p-rmd-workload-c": ["1", "2"]})
        (found,) = on_node.cluster.stored(RMD_WORKLOADS)
        assert found["metadata"]["uid"] == made["metadata"]["uid"]


async def test_one_with_ranges_stays_as_it_is_until_something_else_changes(on_node: Node) -> None:
    """Berth wrote ranges before: an upgrade writes no RmdWorkload of a Pod that runs."""
    async with on_node.agent():
        await on_node.run("p")
        await eventually(lambda: on_node.cores() == {"p-rmd-workload-c": ["1", "2"]})
    await on_node.cluster.change("p-rmd-workload-c", coreIds=["1-2"])
    (before,) = on_node.cluster.stored(RMD_WORKLOADS)
    async with on_node.agent():
        await on_node.run("q")
        await eventually(lambda: len(on_node.cores()) == 2)
        assert before in on_node.cluster.stored(RMD_WORKLOADS)
        await on_node.cluster.change("p-rmd-workload-c", coreIds=["1-3"])
        await eventually(lambda: on_node.cores()["p-rmd-workload-c"] == ["1", "2"])
        await on_node.cluster.change("p-rmd-workload-c", coreIds=["x"])
        await eventually(lambda: on_node.cores()["p-rmd-workload-c"] == ["1", "2"])


async def test_pods_of_other_nodes_are_not_read(on_node: Node) -> None:
    other = Node(on_node.cluster, on_node.kubelet, on_node.folder, "n2")
    async with on_node.agent():
        await other.run("there")
        await on_node.run("here")
        await eventually(lambda: list(on_node.cores()) == ["here-rmd-workload-c"])


async def test_a_kubelet_that_is_silent_or_away_changes_nothing(on_node: Node) -> None:
    async with on_node.agent(timeout=0.3) as agent:
        await on_node.run("p")
        await eventually(lambda: len(on_node.cores()) == 1)
        on_node.kubelet.faults.silent = True
        await on_node.run("q")
        await eventually(lambda: any("DEADLINE_EXCEEDED" in line for line in agent.waiting()))
        on_node.kubelet.faults.silent, on_node.kubelet.faults.garbled = False, True
        await eventually(lambda: any("is no list of Pods" in line for line in agent.waiting()))
        on_node.kubelet.faults.garbled = False
        await eventually(lambda: len(on_node.cores()) == 2)
        await on_node.kubelet.stop()
        await on_node.run("r")
        await eventually(lambda: any("UNAVAILABLE" in line for line in agent.waiting()))
        assert len(on_node.cores()) == 2
        await on_node.kubelet.start()
        await eventually(lambda: len(on_node.cores()) == 3)
        await eventually(lambda: agent.waiting() == [])
