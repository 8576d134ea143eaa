"""What the chart has for RMD: the DaemonSet that an RmdConfig installs, and who may reach what."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import NODES, PODS
from app.kube.transport import connect
from app.rmd.controller.installing import AGENT, DAEMON, daemon_set
from app.rmd.model import RMD_WORKLOADS
from app.rmd.stored import stored_config, stored_daemon
from tests.support.chart import Render, Server
from tests.support.chart_combinations import NOTHING, RMD
from tests.support.rbac import token_kubeconfig
from tests.support.waiting import PATIENCE, eventually

CONFIG: dict[str, Any] = {
    "metadata": {"name": "rmdconfig", "namespace": "default", "uid": "u"},
    "spec": {"rmdNodeSelector": {"rdt": "true"}},
}
NOT_DEFAULT = {"image": "registry.example/rmd:1", "args": ["--address", "0.0.0.0"], "port": 8443} | {
    "volumes": [{"name": "certs", "emptyDir": {}}],
    "volumeMounts": [{"name": "certs", "mountPath": "/etc/rmd/cert/server"}],
    "tolerations": [{"operator": "Exists"}],
}


def installed(
    render: Render, daemon: dict[str, Any], config: dict[str, Any] = CONFIG, *, name: str = DAEMON, **values: Any
) -> dict[str, Any]:
    """The DaemonSet that the controller makes of the chart's ConfigMap."""
    (found,) = (
        one
        for one in render(NOTHING | RMD | {"rmd": {"daemon": daemon}} | values, name="other").of("ConfigMap")
        if one["metadata"]["name"] == "other-berth-rmd-daemon-sets"
    )
    stored = stored_config(config)
    assert stored is not None
    made = daemon_set(name, found["data"], stored)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("daemon", "url"), [({}, "http://10.0.0.7:8081"), ({"port": 8443}, "https://10.0.0.7:8443"), (NOT_DEFAULT, "")]
)
def test_the_controller_makes_a_daemon_set_of_it_whose_pods_it_finds(
    render: Render, daemon: dict[str, Any], url: str
) -> None:
    made = installed(render, daemon)
    template = made["spec"]["template"]
    assert made["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert template["spec"]["nodeSelector"] == {"rdt": "true"}
    pod = {**template, "status": {"podIP": "10.0.0.7", "phase": "Running"}}
    pod["metadata"] = {**template["metadata"], "name": "rmd-x", "namespace": "default"}
    found = stored_daemon({**pod, "spec": {**template["spec"], "nodeName": "n1"}})
    assert found is not None
    assert found.url == (url or "https://10.0.0.7:8443")


def test_every_value_of_the_daemon_arrives(render: Render) -> None:
    made = installed(render, NOT_DEFAULT)
    spec = made["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert (container["image"], container["args"]) == ("registry.example/rmd:1", ["--address", "0.0.0.0"])
    assert {one["name"] for one in spec["volumes"]} == {one["name"] for one in container["volumeMounts"]}
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["automountServiceAccountToken"] is False
    other = installed(render, NOT_DEFAULT, CONFIG | {"spec": {"rmdImage": "mine:2"}})
    assert other["spec"]["template"]["spec"]["containers"][0]["image"] == "mine:2"


def test_the_controller_may_call_daemons_where_it_drives_them(render: Render) -> None:
    def ports(values: dict[str, Any]) -> set[int]:
        policy = render(NOTHING | values).one("NetworkPolicy", "berth-controller")["spec"]
        return {one["port"] for rule in policy["egress"] for one in rule["ports"]}

    assert ports(RMD) - ports({"controller": {"enabled": True}}) == {8081, 8443}


def test_what_is_in_another_namespace_follows_the_value(render: Render) -> None:
    rendered = render(NOTHING | RMD | {"rmd": {"namespace": "rdt"}})
    assert "--rmd-namespace=rdt" in rendered.container("controller")["args"]
    (role,) = (one for one in rendered.of("Role") if one["metadata"]["name"] == "berth-controller-rmd")
    assert role["metadata"]["namespace"] == "rdt"


def test_the_node_agent_is_a_daemon_set_of_the_rmd_config(render: Render) -> None:
    made = installed(render, {}, name=AGENT, **{"rmd-node": {"args": {"kubeletFolder": "/var/snap/kubelet"}}})
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("rmd-node-agent", "default")
    template = made["spec"]["template"]
    assert made["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    spec = template["spec"]
    (berth,) = spec["containers"]
    assert berth["args"][0] == "rmd-node"
    assert "--kubelet-folder=/var/snap/kubelet" in berth["args"]
    assert {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}} in berth["env"]
    mounts = {one["name"]: one["mountPath"] for one in berth["volumeMounts"]}
    for name in ("pod-resources", "device-plugins"):
        (volume,) = (one for one in spec["volumes"] if one["name"] == name)
        assert volume["hostPath"]["path"] == mounts[name] == f"/var/snap/kubelet/{name}"
    assert spec["securityContext"]["runAsUser"] == 0
    assert berth["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["nodeSelector"] == {"rdt": "true"}


def test_its_account_is_where_it_runs_and_is_held_to_its_node(render: Render) -> None:
    rendered = render(NOTHING | RMD | {"rmd": {"namespace": "rdt"}})
    account = rendered.one("ServiceAccount", "berth-rmd-node")
    assert account["metadata"]["namespace"] == "rdt"
    (binding,) = (one for one in rendered.of("ClusterRoleBinding") if one["metadata"]["name"] == "berth-rmd-node")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "berth-rmd-node", "namespace": "rdt"}]
    policy = rendered.one("ValidatingAdmissionPolicy", "berth-rmd-node")["spec"]
    (condition,) = policy["matchConditions"]
    assert condition["expression"] == "request.userInfo.username == 'system:serviceaccount:rdt:berth-rmd-node'"
    assert policy["failurePolicy"] == "Fail"
    assert rendered.one("ValidatingAdmissionPolicyBinding", "berth-rmd-node")["spec"]["validationActions"] == ["Deny"]
    assert not rendered.of("DaemonSet")


POD_OF_NODE: dict[str, Any] = {
    "serviceAccountName": "berth-rmd-node",
    "nodeName": "n1",
    "containers": [{"name": "c", "image": "i"}],
}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "agent", "uid": "u", "controller": True}


async def _agent(server: Server, pod: str) -> KubeClient:
    """Acts by a token of the agent's account, bound to a Pod."""
    file = await token_kubeconfig(server.client, server.kubeconfig, "default", "berth-rmd-node", pod=pod)
    return await connect(kubeconfig=str(file), deadline=PATIENCE)


async def _written(client: KubeClient, name: str, spec: dict[str, Any], *owners: dict[str, Any]) -> str:
    """ "" where the API server takes it, else why not."""
    body = RMD_WORKLOADS.body({"name": name, "ownerReferences": list(owners)}, spec=spec)
    try:
        await client.create(RMD_WORKLOADS, body, namespace="default")
    except ApiError as error:
        return str(error)
    return ""


async def test_a_node_agent_writes_of_its_own_node_alone(server: Server) -> None:
    """A real API server has the policy; the sandbox lacks the kind, and the release goes without it."""
    await server.install(NOTHING | RMD)
    await server.served(RMD_WORKLOADS)
    await server.client.create(NODES, NODES.body({"name": "n1"}))
    await server.client.create(PODS, PODS.body({"name": "agent"}, spec=POD_OF_NODE), namespace="default")
    others = {"coreIds": ["1"], "nodes": ["n2"], "rdt": {"cache": {"max": 1, "min": 1}}}
    foreign = await server.client.create(
        RMD_WORKLOADS, RMD_WORKLOADS.body({"name": "n2"}, spec=others), namespace="default"
    )
    async with await _agent(server, "agent") as agent:
        if server.cluster is None:
            await eventually(lambda: _written(agent, "other", others, OWNER), lambda said: "of its node alone" in said)
        own = others | {"nodes": ["n1"]}
        assert await _written(agent, "mine", own, OWNER) == ""
        if server.cluster is not None:
            return
        assert "want an ownerReference" in await _written(agent, "free", own)
        assert "and no spec.node" in await _written(agent, "chosen", own | {"nodeSelector": {"a": "b"}}, OWNER)
        assert "of its node alone" in await _written(agent, "all", own | {"nodes": ["n1", "n2"]}, OWNER)
        for change in ({"spec": {"coreIds": ["2"]}}, {"spec": {"nodes": ["n1"]}}):
            with pytest.raises(ApiError, match="of its node alone"):
                await agent.patch(RMD_WORKLOADS, "n2", change, patch_type="merge", namespace="default")
        with pytest.raises(ApiError, match="of its node alone"):
            await agent.patch(
                RMD_WORKLOADS, "mine", {"spec": {"nodes": ["n2"]}}, patch_type="merge", namespace="default"
            )
        with pytest.raises(ApiError, match="of its node alone"):
            await agent.delete(RMD_WORKLOADS, "n2", namespace="default", uid=foreign["metadata"]["uid"])
        # A selector wins over spec.nodes: the object is of other nodes too.
        chosen = RMD_WORKLOADS.body({"name": "chosen"}, spec=own | {"nodeSelector": {"a": "b"}})
        made = await server.client.create(RMD_WORKLOADS, chosen, namespace="default")
        with pytest.raises(ApiError, match="of its node alone"):
            await agent.delete(RMD_WORKLOADS, "chosen", namespace="default", uid=made["metadata"]["uid"])
        change = {"spec": {"nodeSelector": None}, "metadata": {"ownerReferences": [OWNER]}}
        with pytest.raises(ApiError, match="of its node alone"):
            await agent.patch(RMD_WORKLOADS, "chosen", change, patch_type="merge", namespace="default")
        await agent.patch(RMD_WORKLOADS, "mine", {"spec": {"coreIds": ["2"]}}, patch_type="merge", namespace="default")
        await agent.delete(RMD_WORKLOADS, "mine", namespace="default")
    async with await _agent(server, "") as unbound:
        assert "has to be that of its Pod" in await _written(unbound, "unbound", own, OWNER)
