"""`berth tenant host`, `suspend`, `resume` and `show`, as they are typed, against an API server."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from app.kube.conditions import condition
from app.kube.resources import DEPLOYMENTS, NODES, PODS
from app.placement.model import TENANT_LABEL
from app.tenancy.model import CLUSTER
from app.text import stamp
from app.workloads.model import COMPANION, SYSTEM_NAMESPACE, TENANTS, WORKLOAD, WORKLOADS
from tests.support.completion import completed
from tests.support.tenants import tenant
from tests.support.waiting import eventually


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal as standard input: what is written to the descriptor is typed at it."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "wb", buffering=0) as keyboard, os.fdopen(theirs) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield keyboard.fileno()


async def companion(cluster, name: str, node: str, *, namespace: str = "tenant-tenant1", of: str = "tenant1") -> None:
    await cluster.client.create(
        PODS,
        {
            "metadata": {
                "name": name,
                "labels": {COMPANION: "tenant"},
                "annotations": {WORKLOAD: f"tenant-{of}/x"},
            },
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        },
        namespace=namespace,
    )


async def test_a_host_is_removed_after_a_question(cluster, controlled, terminal) -> None:
    """The nodes that lose their label and the companions on them are said first; the controller does so then."""
    await cluster.berth("add", "tenant1", "--host", "host-a", "--host", "host-b")
    for host in "abc":
        await cluster.node(f"dpu-{host}", f"host-{host}")
    await controlled()
    await eventually(lambda: _labeled(cluster, "dpu-a", "dpu-b"))
    await companion(cluster, "stays", "dpu-a")
    await companion(cluster, "goes", "dpu-b")
    await companion(cluster, "of-admin", "dpu-b", namespace=SYSTEM_NAMESPACE)
    await companion(cluster, "of-another", "dpu-b", namespace=SYSTEM_NAMESPACE, of="tenant2")

    os.write(terminal, b"n\n")
    refused = await cluster.berth("host", "remove", "tenant1", "host-b")
    assert refused.status == 1
    assert f"node dpu-b loses its label {TENANT_LABEL}=tenant1" in refused.out
    assert "dpu-a" not in refused.out
    assert "2 companions of tenant tenant1 run on these nodes: they run on until they end" in refused.out
    assert refused.out.endswith("nothing changed\n")
    assert (await cluster.spec())["hosts"] == ["host-a", "host-b"]

    os.write(terminal, b"y\n")
    result = await cluster.berth("host", "remove", "tenant1", "host-b")
    assert result.status == 0
    assert result.out.endswith("tenant tenant1 has hosts host-a\n")
    await eventually(lambda: _labeled(cluster, "dpu-a"))


async def _labeled(cluster, *wanted: str) -> bool:
    nodes = (await cluster.client.list_page(NODES)).items
    return [node["metadata"]["name"] for node in nodes if TENANT_LABEL in node["metadata"]["labels"]] == list(wanted)


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        (("host", "remove", "tenant1", "host-b"), 2, "nothing changed: there is no terminal to confirm on; use --yes"),
        (("host", "remove", "tenant1", "host-x"), 2, "host-x: not among the hosts of tenant tenant1 (host-a, host-b)"),
        (("host", "remove", "plain", "host-a"), 2, "tenant plain lists no hosts: remove the label by hand"),
        (("host", "add", "tenant1", "host x"), 2, "spec.hosts[2]: 'host x' is not a label value"),
        (("host", "add", "plain", "host-a"), 2, "'host-a' is a host of tenant tenant1"),
        (("host", "add", "none", "host-c"), 2, "there is no tenant none"),
        (("suspend", "tenant1"), 2, "nothing changed: there is no terminal to confirm on; use --yes"),
        (("suspend", "none"), 2, "there is no tenant none"),
        (("resume", "none"), 2, "there is no tenant none"),
        (("show", "none"), 2, "there is no tenant none"),
        (("show", "No Name"), 2, "NAME: 'No Name' is not a valid name"),
    ],
)
async def test_what_cannot_be_done_changes_nothing(cluster, command, status, message) -> None:
    made = [tenant("tenant1", hosts=["host-a", "host-b"]), tenant("plain")]
    before = [(await cluster.client.create(TENANTS, one))["spec"] for one in made]
    result = await cluster.berth(*command)
    assert (result.status, result.err.count("\n")) == (status, 1)
    assert message in result.err
    assert [await cluster.spec(one["metadata"]["name"]) for one in made] == before


async def test_the_labels_of_nodes_are_those_of_the_controller(cluster) -> None:
    """Its flags may name others than the usual ones."""
    words = ["berth", "controller", "--host-label", "example.com/host", "--tenant-node-label=example.com/tenant"]
    pod = {
        "metadata": {"labels": {"app": "berth"}},
        "spec": {"containers": [{"name": "c", "image": "berth", "command": words}]},
    }
    spec = {"selector": {"matchLabels": {"app": "berth"}}, "template": pod}
    await cluster.namespace("berth-system")
    await cluster.client.create(DEPLOYMENTS, {"metadata": {"name": "any"}, "spec": spec}, namespace="berth-system")
    await cluster.client.create(TENANTS, tenant("tenant1", hosts=["a", "b"]))
    for name, tenant_of_it in (("dpu-a", "tenant1"), ("dpu-b", "tenant1"), ("dpu-x", "tenant2")):
        labels = {"example.com/host": name[-1], "example.com/tenant": tenant_of_it}
        await cluster.client.create(NODES, {"metadata": {"name": name, "labels": labels}})
    shown = json.loads((await cluster.berth("show", "tenant1", "-o", "json")).out)
    assert [(one["node"], one["host"], one["tenant"]) for one in shown["dpus"]] == [
        ("dpu-a", "a", "tenant1"),
        ("dpu-b", "b", "tenant1"),
    ]
    refused = await cluster.berth("host", "remove", "tenant1", "b")
    assert refused.out == "node dpu-b loses its label example.com/tenant=tenant1\n"
    await cluster.client.create(TENANTS, tenant("plain"))
    by_hand = f"kubectl --kubeconfig {cluster.kubeconfig} label node NODE example.com/tenant-"
    assert by_hand in (await cluster.berth("host", "remove", "plain", "a")).err


async def test_a_host_that_another_tenant_claims_too_does_not_keep_others_from_being_changed(cluster) -> None:
    """The conflict may be of years ago, and of Tenants that kubectl has made."""
    for name, hosts in (("tenant1", ["host-a", "host-b"]), ("tenant2", ["host-a"])):
        await cluster.client.create(TENANTS, tenant(name, hosts=hosts))
    removed = await cluster.berth("host", "remove", "tenant1", "host-b", "--yes")
    added = await cluster.berth("host", "add", "tenant1", "host-c")
    assert (removed.status, removed.err, added.status, added.err) == (0, "", 0, "")
    assert (await cluster.spec())["hosts"] == ["host-a", "host-c"]


async def test_the_first_host_of_a_list_asks_for_labels_set_by_hand(cluster) -> None:
    """Without a list the labels of nodes are not Berth's; with one, nodes of other hosts lose theirs."""
    await cluster.client.create(TENANTS, tenant("tenant1"))
    await cluster.node("dpu-a", "host-a", **{TENANT_LABEL: "tenant1"})
    await cluster.node("dpu-b", "host-b", **{TENANT_LABEL: "tenant1"})
    refused = await cluster.berth("host", "add", "tenant1", "host-a")
    assert refused.status == 2
    assert refused.out == f"node dpu-b loses its label {TENANT_LABEL}=tenant1\n"
    result = await cluster.berth("host", "add", "tenant1", "host-a", "host-b")
    assert (result.status, result.out) == (0, "tenant tenant1 has hosts host-a, host-b\n")
    last = await cluster.berth("host", "remove", "tenant1", "host-a", "host-b", "--yes")
    assert "tenant tenant1 has no host then: none of its Pods can be placed" in last.out
    assert (await cluster.spec())["hosts"] == []


async def test_suspend_says_what_follows_and_resume_ends_it(cluster, terminal) -> None:
    await cluster.berth("add", "tenant1")
    await companion(cluster, "one", "dpu-a")
    os.write(terminal, b"n\n")
    refused = await cluster.berth("suspend", "tenant1")
    assert (refused.status, "suspended" in await cluster.spec()) == (1, False)
    assert "the gateway ends the streams of tenant tenant1 and refuses every call of its agent" in refused.out
    assert "namespace tenant-tenant1 stays as it is and its Pods run on: 0 workloads, 1 companion" in refused.out
    assert (await cluster.berth("resume", "tenant1")).out == "tenant tenant1 is not suspended\n"
    result = await cluster.berth("suspend", "tenant1", "--yes")
    assert (result.status, (await cluster.spec())["suspended"]) == (0, True)
    assert result.out.endswith("tenant tenant1 suspended\n")
    assert (await cluster.berth("suspend", "tenant1")).out == "tenant tenant1 is suspended already\n"
    result = await cluster.berth("resume", "tenant1")
    assert (result.status, (await cluster.spec())["suspended"]) == (0, False)
    assert result.out.startswith("tenant tenant1 resumed")


async def test_show_has_what_belongs_to_a_tenant(cluster, controlled) -> None:
    """As text for people, and as one document."""
    await cluster.berth("add", "tenant1", "--host", "host-a", "--host", "host-b")
    await cluster.client.patch(
        TENANTS, "tenant1", {"metadata": {"annotations": {CLUSTER: "uid-of-it"}}}, patch_type="merge"
    )
    pin = (await cluster.spec())["identity"]["certificates"][0]
    soon = {"sha256": "0" * 64, "until": stamp(datetime.now(UTC) + timedelta(days=5, hours=1))}
    await cluster.change("tenant1", identity={"certificates": [pin, soon]})
    await cluster.node("dpu-a", "host-a")
    await cluster.node("dpu-x", "host-x", **{TENANT_LABEL: "tenant2"})
    await companion(cluster, "one", "dpu-a")
    await controlled()
    await eventually(lambda: _ready(cluster))

    shown = json.loads((await cluster.berth("show", "tenant1", "-o", "json")).out)
    assert shown["tenant"]["spec"] == await cluster.spec()
    assert "managedFields" not in shown["tenant"]["metadata"]
    assert (shown["state"], shown["cluster"]) == ("ready", "uid-of-it")
    assert shown["namespace"] == {"name": "tenant-tenant1", "exists": True, "managed": True}
    assert shown["dpus"] == [{"node": "dpu-a", "host": "host-a", "tenant": "tenant1", "ready": False}]
    assert [one["days"] for one in shown["certificates"]] == [364, 5]
    assert shown["counts"] == {"workloads": 0, "companions": 1, "otherPods": 0, "rules": 0}
    assert yaml.safe_load((await cluster.berth("show", "tenant1", "-o", "yaml")).out) == shown

    text = (await cluster.berth("show", "tenant1")).out
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in (
        "Name: tenant1",
        "State: ready",
        "Namespace: tenant-tenant1",
        "Cluster: uid-of-it",
        "Hosts: host-a,host-b",
        "DPUs: dpu-a (host host-a, not ready)",
        "Certificate names: tenant1.tenant.local",
        f"Certificates: {pin['sha256'][:12]} until {pin['until']} (364 days left)",
        f"000000000000 until {soon['until']} (5 days left)",
        "Companions: 1",
        "TYPE STATUS REASON SINCE MESSAGE",
    ):
        assert line in lines
    conditions = {line.split()[0]: line for line in lines[lines.index("Conditions:") + 2 :]}
    for one in (await cluster.tenant())["status"]["conditions"]:
        assert conditions[one["type"]].split()[:3] == [one["type"], one["status"], one["reason"]]
    assert conditions["HostsReady"].endswith("no node yet for host-b")


async def _ready(cluster) -> bool:
    """Both controllers have written the status: what it says of the agent is not of the one that says the rest."""
    labeled, status = TENANT_LABEL in await cluster.labels("dpu-a"), (await cluster.tenant()).get("status") or {}
    return labeled and status.get("result") == "success" and bool(condition(status, "Connected"))


async def test_show_of_a_tenant_that_nothing_has_looked_at(cluster) -> None:
    """No namespace, no conditions, no list of hosts, no certificate: each is said."""
    await cluster.client.create(TENANTS, tenant("tenant1"))
    await cluster.namespace("tenant-tenant1")
    text = (await cluster.berth("show", "tenant1")).out
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in (
        "State: pending",
        "Namespace: tenant-tenant1 (is not ours)",
        "Cluster: <none yet>",
        "Hosts: <any>",
        "DPUs: <none>",
        "Certificates: <any of these names>",
        "<none yet>",
    ):
        assert line in lines
    assert f"{WORKLOADS.kind}s: 0" in lines


async def test_a_condition_without_end_is_cut(cluster) -> None:
    await cluster.client.create(TENANTS, tenant("tenant1"))
    long = {"type": "Odd", "status": "True", "reason": "Odd", "message": "x" * 10_000, "lastTransitionTime": stamp()}
    status = {"status": {"conditions": [long]}}
    await cluster.client.patch(TENANTS, "tenant1", status, patch_type="merge", subresource="status")
    (line,) = (one for one in (await cluster.berth("show", "tenant1")).out.splitlines() if "xxx" in one)
    assert line.endswith("x…")
    assert len(line) < 1200


async def test_names_of_the_cluster_are_completed(cluster) -> None:
    """Tenants, and the hosts of one that are not typed yet; the new tenant of `add` is not completed."""
    await cluster.client.create(TENANTS, tenant("tenant1", hosts=["host-a", "host-b"]))
    await cluster.client.create(TENANTS, tenant("other"))
    here = ("--kubeconfig", str(cluster.kubeconfig))
    assert await offered("show", *here, "") == ["other", "tenant1"]
    assert await offered("remove", *here, "ten") == ["tenant1"]
    assert await offered("host", "remove", *here, "tenant1", "host-a", "") == ["host-b"]
    assert await offered("add", *here, "") == []


async def test_a_cluster_that_cannot_be_asked_completes_nothing(cluster, tmp_path) -> None:
    """Neither one that refuses connections nor a file that is none, and nothing is printed but the empty list."""
    gone = tmp_path / "gone.kubeconfig"
    gone.write_text(cluster.kubeconfig.read_text().replace(str(cluster.served.url), "https://127.0.0.1:1"))
    for kubeconfig in (gone, tmp_path / "none", tmp_path):
        assert await offered("show", "--kubeconfig", str(kubeconfig), "") == []


async def offered(*words: str) -> list[str]:
    """For the last word."""
    return await asyncio.to_thread(completed, " ".join(("berth", "tenant", *words)))
