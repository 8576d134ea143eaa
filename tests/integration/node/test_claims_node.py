"""`berth claims-node` publishes the network data of its node, and may do nothing else: docs/claims.md says what."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.claims.model import FIELD_MANAGER, NETWORK_STATUS, PUBLISHED
from app.claims.network_status import Attached
from app.errors import ApiError
from app.kube.conditions import condition
from app.kube.resources import EVENTS, PODS, RESOURCE_CLAIMS, SECRETS
from tests.support.claims_agent import ClaimsAgent, claims_agent
from tests.support.control_plane import NAMESPACE
from tests.support.network_stage import OWN, NetworkedPods
from tests.support.networked_pods import DRIVER, NETWORK, claim, pod, pod_by_claim, pod_by_template
from tests.support.node_driver import driven
from tests.support.node_files import IMAGE
from tests.support.node_stage import REAL, SIDES, NodeStage, networks_of
from tests.support.real_node import NODE
from tests.support.waiting import eventually

JSON = dict[str, Any]
both = pytest.mark.parametrize("stage", SIDES, indirect=True)
real = pytest.mark.parametrize("stage", [REAL], indirect=True)
VALUES: JSON = {
    "webhook": {"enabled": False},
    "claims-node": {"enabled": True},
    "claims": {"drivers": [DRIVER], "formatPolicy": "Deny"},
}
ROADS: dict[str, Callable[[str], JSON]] = {"by-resource": pod, "by-template": pod_by_template}
OUTSIDE = "10.96.0.1"
"""As a cluster IP: in no subnet of an attachment."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent(stage: NodeStage, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ClaimsAgent]:
    """With a driver on the node. No controller of Berth runs."""
    folder: Path = tmp_path_factory.mktemp("agent")
    async with driven(stage, folder), claims_agent(stage, VALUES) as made:
        yield made


async def up(stage: NodeStage, body: JSON) -> Attached:
    """What the Pod has on its second network, as soon as it runs."""
    body["spec"]["containers"][0]["image"] = IMAGE
    await stage.create(body | {"spec": {"terminationGracePeriodSeconds": 1, **body["spec"]}})
    await stage.runs(body["metadata"]["name"])
    return await NetworkedPods(stage.plane).attached(body["metadata"]["name"])


async def claim_of(stage: NodeStage, name: str) -> JSON:
    """The claim that was made for the Pod."""
    status = (await stage.pod(name))["status"]
    made = [one["resourceClaimName"] for one in status.get("resourceClaimStatuses") or ()]
    made += [(status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")]
    return await stage.client.get(RESOURCE_CLAIMS, made[0], namespace=NAMESPACE)


@both
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.usefixtures("agent")
async def test_the_claims_of_its_node_have_the_network_data_of_their_pods(stage: NodeStage, road: str) -> None:
    """By the rules of its account alone, and a policy that denies what has a wrong format."""
    entry = await NetworkedPods(stage.plane).published(road, await up(stage, ROADS[road](road)))
    assert condition(entry, PUBLISHED)["reason"] == "Published"
    fields = (await claim_of(stage, road))["metadata"]["managedFields"]
    (own,) = (one["fieldsV1"]["f:status"] for one in fields if one["manager"] == FIELD_MANAGER)
    (written,) = own["f:devices"].values()
    assert written.keys() - {"f:driver", "f:pool", "f:device"} == {".", "f:networkData", "f:conditions"}
    await stage.gone(road)


@both
async def test_a_sandbox_that_is_killed_has_its_new_addresses_published(stage: NodeStage, agent: ClaimsAgent) -> None:
    pods = NetworkedPods(stage.plane)
    before = await up(stage, pod_by_template("killed"))
    await pods.published("killed", before)
    await stage.kill_sandbox("killed")
    after = await pods.attached("killed", other_than=before)
    assert set(after.ips).isdisjoint(before.ips)
    await pods.published("killed", after)
    await stage.gone("killed")


@both
async def test_an_agent_that_is_killed_goes_on_where_objects_say(stage: NodeStage, agent: ClaimsAgent) -> None:
    """What has happened in between is published, and what differs in nothing is not written."""
    pods = NetworkedPods(stage.plane)
    first = {name: await up(stage, pod_by_template(name)) for name in ("stays", "moves")}
    for name, attached in first.items():
        await pods.published(name, attached)
    await agent.kill()
    await stage.kill_sandbox("moves")
    moved = await pods.attached("moves", other_than=first["moves"])
    fresh = await up(stage, pod_by_template("fresh"))
    assert await pods.entries("fresh") == []
    await agent.start()
    await pods.published("moves", moved)
    await pods.published("fresh", fresh)
    await pods.published("stays", first["stays"])
    assert await eventually(agent.writes) == {"applied": 2.0}
    for name in ("stays", "moves", "fresh"):
        await stage.gone(name)


@both
async def test_addresses_outside_of_the_subnets_are_not_published(stage: NodeStage, agent: ClaimsAgent) -> None:
    """Who may write annotations of the Pod says another address; the claim follows when Multus' own is back."""
    pods = NetworkedPods(stage.plane)
    attached = await up(stage, pod_by_template("outside"))
    await pods.published("outside", attached)
    told = networks_of(await stage.pod("outside"))
    said = [entry if entry.get("default") else entry | {"ips": [OUTSIDE]} for entry in told]
    await annotate(stage, "outside", said)
    (entry,) = await eventually(lambda: pods.entries("outside"), lambda found: not found[0]["networkData"].get("ips"))
    kept = {"interfaceName": attached.interface, "hardwareAddress": attached.mac}
    assert {key: value for key, value in entry["networkData"].items() if value} == kept
    assert f"not published: {OUTSIDE}, outside the subnets" in condition(entry, PUBLISHED)["message"]
    assert OUTSIDE in await told_of(stage, "outside", "AddressesOutsideNetwork")
    await annotate(stage, "outside", told)
    await pods.published("outside", attached)
    await stage.gone("outside")


@both
async def test_a_claim_of_two_pods_has_no_network_data(stage: NodeStage, agent: ClaimsAgent) -> None:
    """Whose interface it is cannot be known, until it is one Pod's again."""
    pods = NetworkedPods(stage.plane)
    attached = await up(stage, pod_by_claim("first"))
    await pods.published("first", attached)
    await up(stage, pod_by_claim("second"))
    await eventually(lambda: pods.entries("first"), lambda found: not any(one.get("networkData") for one in found))
    assert "the claim is reserved for 2 Pods" in await told_of(stage, "first", "NetworkDataUnmatched")
    await stage.gone("second")
    await pods.published("first", attached)
    await stage.gone("first")


async def told_of(stage: NodeStage, name: str, reason: str) -> str:
    """What the warning with this reason says of the Pod."""

    async def look() -> list[str]:
        page = await stage.client.list_page(EVENTS, namespace=NAMESPACE)
        about = {"kind": "Pod", "name": name}.items()
        warnings = [one for one in page.items if one["type"] == "Warning" and one["reason"] == reason]
        return [one["message"] for one in warnings if about <= one["involvedObject"].items()]

    return (await eventually(look))[0]


async def annotate(stage: NodeStage, name: str, status: list[JSON]) -> None:
    change = {"metadata": {"annotations": {NETWORK_STATUS: json.dumps(status)}}}
    await stage.client.patch(PODS, name, change, patch_type="merge", namespace=NAMESPACE)


async def allocated(stage: NodeStage, name: str, *, node: str = NODE, driver: str = DRIVER) -> JSON:
    """An entry for the one device of a claim that the scheduler gives on this node."""
    made = await stage.client.create(RESOURCE_CLAIMS, claim(name), namespace=NAMESPACE)
    device = {"driver": driver, "pool": node, "device": "vf-0"}
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    allocation = {
        "devices": {"results": [{"request": "vf", **device}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }
    body = made | {"status": {"allocation": allocation}}
    await stage.client.replace(RESOURCE_CLAIMS, name, body, namespace=NAMESPACE, subresource="status")
    return device


async def refusal(agent: ClaimsAgent, name: str, entry: JSON, *ips: str) -> str:
    """Why the API server does not take network data of the claim from the agent; "" where it does."""
    data = {"interfaceName": "net1", "ips": list(ips or ("172.36.0.9/24",))}
    body = RESOURCE_CLAIMS.body({"name": name}, status={"devices": [entry | {"networkData": data}]})
    place = {"namespace": NAMESPACE, "field_manager": FIELD_MANAGER, "subresource": "status"}
    try:
        await agent.client.apply(RESOURCE_CLAIMS, name, body, **place)
    except ApiError as error:
        return str(error)
    return ""


@both
async def test_its_token_writes_for_the_drivers_and_the_claims_of_its_node_alone(
    stage: NodeStage, agent: ClaimsAgent
) -> None:
    assert await refusal(agent, "mine", await allocated(stage, "mine")) == ""
    for name, where in {"elsewhere": {"node": "node-b"}, "others": {"driver": "gpu.example.com"}}.items():
        said = await refusal(agent, name, await allocated(stage, name, **where))
        assert 'changing status.devices requires resource="resourceclaims/driver"' in said, name
        assert not (await stage.client.get(RESOURCE_CLAIMS, name, namespace=NAMESPACE))["status"].get("devices")


@both
async def test_its_token_reads_and_writes_nothing_else(stage: NodeStage, agent: ClaimsAgent) -> None:
    await up(stage, pod("plain", network=NETWORK))
    found = await claim_of(stage, "plain")
    change = {"metadata": {"annotations": {NETWORK_STATUS: "[]"}}}
    place = {"patch_type": "merge", "namespace": NAMESPACE}
    attempts: dict[str, Callable[[], Any]] = {
        "Secrets beside it": lambda: agent.client.list_page(SECRETS, namespace=OWN),
        "the network status of a Pod": lambda: agent.client.patch(PODS, "plain", change, **place),
        "that by the status": lambda: agent.client.patch(PODS, "plain", change, subresource="status", **place),
        "a claim": lambda: agent.client.patch(RESOURCE_CLAIMS, found["metadata"]["name"], change, **place),
        "a status as a whole": lambda: agent.client.replace(
            RESOURCE_CLAIMS, found["metadata"]["name"], found, namespace=NAMESPACE, subresource="status"
        ),
    }
    for what, attempt in attempts.items():
        with pytest.raises(ApiError) as refused:
            await attempt()
        assert refused.value.status == 403, what
    # Of the status it has the devices alone: allocations are the scheduler's.
    freed = {"status": {"allocation": None}}
    with pytest.raises(ApiError, match="resourceclaims/binding"):
        await agent.client.patch(RESOURCE_CLAIMS, found["metadata"]["name"], freed, subresource="status", **place)
    await stage.gone("plain")


@real
async def test_the_policy_of_the_release_refuses_addresses_that_no_interface_has(
    stage: NodeStage, agent: ClaimsAgent
) -> None:
    """The stand-in has no such policies."""
    entry = await allocated(stage, "checked")
    said = await eventually(lambda: refusal(agent, "checked", entry, "0.0.0.0/8"))
    assert "berth-claims-format" in said
    assert await refusal(agent, "checked", entry) == ""
