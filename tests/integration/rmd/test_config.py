"""The RmdConfig: DaemonSets out of templates, RmdNodeStates for selected nodes, a status that says what is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml

from app.kube.conditions import condition
from app.kube.resources import CONFIG_MAPS, DAEMON_SETS, NODES
from app.rmd.model import RMD_CONFIGS, RMD_NODE_STATES
from tests.support.rmd_cluster import SYSTEM, RmdCluster
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio, pytest.mark.simulated]


def template(name: str, **containers: Any) -> str:
    spec = {
        "selector": {"matchLabels": {"name": f"{name}-pod"}},
        "template": {
            "metadata": {"labels": {"name": f"{name}-pod"}},
            "spec": {"containers": [{"name": "c", "image": f"{name}:1", **containers}, {"name": "d", "image": "d:1"}]},
        },
    }
    return yaml.safe_dump({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec})


async def put_templates(cluster: RmdCluster, **texts: str) -> None:
    data = {f"{name.replace('_', '-')}.yaml": text for name, text in texts.items()}
    body = {**CONFIG_MAPS.body({"name": "berth-rmd-daemon-sets"}), "data": data}
    await cluster.admin.create(CONFIG_MAPS, body, namespace=SYSTEM)


def daemon_sets(cluster: RmdCluster) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in cluster.stored(DAEMON_SETS)}


def node_states(cluster: RmdCluster) -> dict[str, str]:
    return {one["spec"]["node"]: one["spec"]["nodeUid"] for one in cluster.stored(RMD_NODE_STATES)}


async def says(cluster: RmdCluster, reason: str) -> Any:
    look = lambda: condition(cluster.status(RMD_CONFIGS, "rmdconfig"), "Ready")  # noqa: E731
    return await eventually(look, lambda found: found.get("reason") == reason)


async def test_one_in_another_namespace_says_so_and_does_nothing(cluster: RmdCluster) -> None:
    await put_templates(cluster, rmd_ds=template("rmd"))
    await cluster.add_node("n1", rdt="true")
    async with cluster.controller():
        body = RMD_CONFIGS.body({"name": "rmdconfig"}, spec={"rmdNodeSelector": {"rdt": "true"}})
        await cluster.admin.create(RMD_CONFIGS, body, namespace="team-a")
        look = lambda: condition(cluster.stored(RMD_CONFIGS, "team-a")[0].get("status") or {}, "Ready")  # noqa: E731
        shown = await eventually(look, lambda found: found.get("status") == "False")
        assert (shown["reason"], "want it in namespace default" in shown["message"]) == ("WrongNamespace", True)
        await cluster.configure(rdt="true")
        own = lambda: condition(cluster.stored(RMD_CONFIGS, "default")[0].get("status") or {}, "Ready")  # noqa: E731
        await eventually(own, lambda found: found.get("reason") == "Deployed")
        assert look()["reason"] == "WrongNamespace"
        await eventually(lambda: node_states(cluster).keys() == {"n1"})
        await cluster.admin.delete(RMD_CONFIGS, "rmdconfig", namespace="team-a")
        await asyncio.sleep(30)
        assert node_states(cluster).keys() == {"n1"}
        assert cluster.stored(DAEMON_SETS, "team-a") == []


async def test_a_node_whose_name_is_too_long_holds_up_no_other(cluster: RmdCluster) -> None:
    await put_templates(cluster, rmd_ds=template("rmd"))
    long = ".".join(["a" * 62] * 4)
    for name in (long, "z"):
        await cluster.add_node(name, rdt="true")
    async with cluster.controller():
        await cluster.configure(rdt="true")
        await says(cluster, "NotDeployed")
        message = condition(cluster.status(RMD_CONFIGS, "rmdconfig"), "Ready")["message"]
        assert message.startswith("RmdNodeState rmd-node-state-aaaa")
        assert node_states(cluster).keys() == {"z"}
        assert daemon_sets(cluster).keys() == {"rmd"}


async def test_daemons_and_states_for_the_selected_nodes(cluster: RmdCluster) -> None:
    await put_templates(cluster, rmd_ds=template("rmd"), rmd_node_agent_ds=template("rmd-node-agent"))
    await cluster.add_node("n1", rdt="true")
    await cluster.add_node("n2")
    async with cluster.controller():
        await cluster.configure(rdt="true")
        await says(cluster, "Deployed")
        assert cluster.status(RMD_CONFIGS, "rmdconfig")["nodes"] == ["n1"]
        made = daemon_sets(cluster)
        assert made.keys() == {"rmd"}
        assert made["rmd"]["spec"]["template"]["spec"]["nodeSelector"] == {"rdt": "true"}
        assert made["rmd"]["metadata"]["ownerReferences"][0]["name"] == "rmdconfig"
        uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in cluster.stored(NODES)}
        await eventually(lambda: node_states(cluster) == {"n1": uids["n1"]})
        await cluster.patched(NODES, "n2", {"metadata": {"labels": {"rdt": "true"}}}, namespace="")
        await cluster.patched(NODES, "n1", {"metadata": {"labels": {"rdt": None}}}, namespace="")
        await eventually(lambda: node_states(cluster) == {"n2": uids["n2"]})
        await eventually(lambda: cluster.status(RMD_CONFIGS, "rmdconfig")["nodes"] == ["n2"])


async def test_image_selector_and_agent_follow_the_spec(cluster: RmdCluster) -> None:
    await put_templates(cluster, rmd_ds=template("rmd"), rmd_node_agent_ds=template("rmd-node-agent"))
    async with cluster.controller():
        await cluster.configure(rdt="true")
        await says(cluster, "NoNodes")
        change = {"spec": {"rmdImage": "registry/rmd:2", "deployNodeAgent": True, "rmdNodeSelector": {"a": "b"}}}
        await cluster.patched(RMD_CONFIGS, "rmdconfig", change)
        await eventually(lambda: daemon_sets(cluster).keys() == {"rmd", "rmd-node-agent"})

        def seen() -> Any:
            return daemon_sets(cluster)["rmd"]["spec"]["template"]["spec"]

        spec = await eventually(seen, lambda found: found["containers"][0]["image"] == "registry/rmd:2")
        assert spec["containers"][1]["image"] == "d:1"
        await cluster.patched(RMD_CONFIGS, "rmdconfig", {"spec": {"deployNodeAgent": False, "rmdImage": ""}})
        await eventually(lambda: daemon_sets(cluster).keys() == {"rmd"})
        await eventually(lambda: seen()["containers"][0]["image"] == "rmd:1")
        assert daemon_sets(cluster)["rmd"]["spec"]["template"]["spec"]["nodeSelector"]["a"] == "b"


async def test_what_another_changes_is_put_back_and_nothing_is_written_without_need(cluster: RmdCluster) -> None:
    await put_templates(cluster, rmd_ds=template("rmd"))
    await cluster.add_node("n1", rdt="true")
    async with cluster.controller() as client:
        await cluster.configure(rdt="true")
        await says(cluster, "Deployed")
        change = {"spec": {"template": {"spec": {"nodeSelector": {"rdt": "false"}}}}}
        await cluster.patched(DAEMON_SETS, "rmd", change)
        spec = lambda: daemon_sets(cluster)["rmd"]["spec"]["template"]["spec"]  # noqa: E731
        await eventually(lambda: spec()["nodeSelector"] == {"rdt": "true"})
        await asyncio.sleep(5)
        before = dict(client.counts)
        await asyncio.sleep(60)
        assert dict(client.counts) == before


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "rmd-ds.yaml: want one DaemonSet: "),
        ("", "DaemonSet rmd: there is neither one nor a template rmd-ds.yaml"),
        (
            template("rmd").replace("kind: DaemonSet", "kind: Deployment"),
            "rmd-ds.yaml: want a DaemonSet, got Deployment",
        ),
        (template("rmd") + "---\n" + template("rmd"), "rmd-ds.yaml: want one DaemonSet: "),
        ("kind: DaemonSet\nmetadata: {name: rmd}\nspec: 5\n", "rmd-ds.yaml: want one DaemonSet: "),
        ("kind: DaemonSet\nmetadata: {name: rmd}\nspec: {template: {spec: x}}\n", "rmd-ds.yaml: want one DaemonSet: "),
        (
            "kind: DaemonSet\nmetadata: {name: rmd, annotations: 5}\nspec: {template: {spec: {}}}\n",
            "rmd-ds.yaml: want one",
        ),
        (template("rmd", image=["rmd:1"]), "DaemonSet rmd: "),
    ],
)
async def test_a_template_that_is_none_is_said(cluster: RmdCluster, text: str, problem: str) -> None:
    await put_templates(cluster, rmd_ds=text)
    await cluster.add_node("n1", rdt="true")
    async with cluster.controller():
        await cluster.configure(rdt="true")
        found = await says(cluster, "NotDeployed")
        assert found["message"].startswith(problem)
        await eventually(lambda: node_states(cluster).keys() == {"n1"})


async def test_a_daemon_set_that_others_made_is_left_alone(cluster: RmdCluster) -> None:
    await put_templates(cluster, rmd_ds=template("rmd"))
    mine = yaml.safe_load(template("rmd", image="mine:1"))
    await cluster.admin.create(DAEMON_SETS, mine, namespace="default")
    async with cluster.controller():
        await cluster.configure(rdt="true")
        found = await says(cluster, "NotDeployed")
        assert "DaemonSet rmd is managed by hand" in found["message"]
        assert daemon_sets(cluster)["rmd"]["spec"]["template"]["spec"]["containers"][0]["image"] == "mine:1"


async def test_a_config_with_another_name_is_refused(cluster: RmdCluster) -> None:
    with pytest.raises(Exception, match=r"metadata\.name in body should match"):
        await cluster.admin.create(RMD_CONFIGS, RMD_CONFIGS.body({"name": "other"}, spec={}), namespace="default")
