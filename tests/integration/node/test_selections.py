"""Networks annotations: Berth admits those alone with which Multus and its plugins make a Pod's sandbox."""

from __future__ import annotations

import json
from typing import Any

import pytest
import pytest_asyncio

from app.errors import ApiError
from app.kube.resources import EVENTS
from tests.support.control_plane import NAMESPACE
from tests.support.node_stage import BR, SIDES, NodeStage, networks_of, pod
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("stage", SIDES, indirect=True)
EXEMPT = "kube-system"
"""The namespace whose Pods Berth is not asked about."""


def element(**members: Any) -> str:
    return json.dumps([{"name": BR, **members}])


RUN = {
    "br": ["net1"],
    " br , br ": ["net1", "net2"],
    "/br": ["net1"],
    "br@": ["net1"],
    "br@ ": ["net1"],
    "br@n1,br@n2": ["n1", "n2"],
    "br@net7,br": ["net7", "net2"],
    "br@eth0.5": ["eth0.5"],
    element(): ["net1"],
    element(interface="mine", mac="02:00:00:00:00:01"): ["mine"],
    element(mac="020000000002"): ["net1"],
    element(mac="02-00-00-00-00-03"): ["net1"],
    element(ips=["10.79.0.77/24"]): ["net1"],
    element(ips=["10.79.0.78"]): ["net1"],
    element(unknown={"a": 1}): ["net1"],
    ",".join(["br"] * 12): [f"net{number}" for number in range(1, 13)],
}
"""The interfaces beside that of the cluster's network."""
HANG = [
    "br,",
    "br@n1,br@n1",
    "br@net2,br",
    "br,br@net1",
    "br@eth0",
    "br@lo",
    "br@all",
    "br@default",
    "br@.",
    "br@net:1",
    "br@n%d",
    "a/b/br",
    "br@a@b",
    "Br",
    "[]x",
    element(mac="02:00:00:00:00"),
    element(mac="01:00:00:00:00:01"),
    element(mac="00:00:00:00:00:00"),
    element(ips=["10.79.0.9/255.255.255.0"]),
    element(ips=["fe80::9%eth0"]),
    element(ips="10.79.0.9/24"),
    element(bandwidth="fast"),
    element(bandwidth={"ingressRate": "2048"}),
    element(portMappings={"hostPort": 80}),
    element(portMappings=[{"hostPort": "80"}]),
    element(**{"cni-args": "x"}),
    element(**{"default-route": "10.79.0.1"}),
    element(**{"default-route": [""]}),
    element(**{"default-route": ["10.79.0.1", "10.79.0.2"]}),
]
_BY_MULTUS = 'plugin type="multus"'
"""What containerd says of the plugin that failed."""


async def admitted(stage: NodeStage, name: str, text: str) -> bool:
    """Whether Berth lets such a Pod in, which no scheduler takes."""
    try:
        await stage.create(pod(name, networks=text, schedulerName="nobody"))
    except ApiError as error:
        if "admission webhook" not in str(error):
            raise
        return False
    return True


async def refused(stage: NodeStage, name: str) -> bool:
    """Whether the node has said that it cannot make the Pod's sandbox because of Multus; it tries without end."""
    about = f"involvedObject.name={name}"
    events = (await stage.client.list_page(EVENTS, namespace=EXEMPT, field_selector=about)).items
    return any(event["reason"] == "FailedCreatePodSandBox" and _BY_MULTUS in event["message"] for event in events)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def attachments(stage: NodeStage) -> None:
    for namespace in (NAMESPACE, EXEMPT):
        await stage.attach(BR, namespace)


@pytest.mark.usefixtures("attachments")
@pytest.mark.parametrize(("number", "text"), [*enumerate(RUN)], ids=RUN)
async def test_berth_admits_what_multus_attaches(stage: NodeStage, number: int, text: str) -> None:
    assert await admitted(stage, f"runs-{number}", text)
    await stage.create(pod(f"runs-{number}", networks=text), EXEMPT)
    up = await stage.runs(f"runs-{number}", EXEMPT)
    assert [entry["interface"] for entry in networks_of(up)] == ["eth0", *RUN[text]]
    await stage.gone(f"runs-{number}", EXEMPT)


@pytest.mark.usefixtures("attachments")
@pytest.mark.parametrize(("number", "text"), [*enumerate(HANG)], ids=HANG)
async def test_berth_denies_what_multus_refuses(stage: NodeStage, number: int, text: str) -> None:
    assert not await admitted(stage, f"hangs-{number}", text)
    await stage.create(pod(f"hangs-{number}", networks=text), EXEMPT)
    await eventually(lambda: refused(stage, f"hangs-{number}"))
    await stage.gone(f"hangs-{number}", EXEMPT)
