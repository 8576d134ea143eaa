"""Networks annotations: Berth admits those alone with which Multus and its plugins make a Pod's sandbox."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from app.errors import ApiError
from app.kube.resources import EVENTS
from tests.support.node_stage import BR, REAL, NodeStage, networks_of, pod
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("stage", [REAL], indirect=True)
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


async def admitted(stage: NodeStage, name: str, text: str) -> bool:
    """Whether Berth lets such a Pod in, which no scheduler takes."""
    try:
        await stage.create(pod(name, networks=text, schedulerName="nobody"))
    except ApiError as error:
        if "admission webhook" not in str(error):
            raise
        return False
    return True


async def refusals(stage: NodeStage) -> dict[str, str]:
    """By Pod: what the node says of sandboxes that it cannot make."""
    events = (await stage.client.list_page(EVENTS, namespace=EXEMPT)).items
    return {
        event["involvedObject"]["name"]: event["message"]
        for event in events
        if event["reason"] == "FailedCreatePodSandBox"
    }


@pytest.fixture(scope="module")
def names() -> dict[str, str]:
    """The Pod for each annotation."""
    return {text: f"p{number}" for number, text in enumerate([*RUN, *HANG])}


async def test_berth_admits_what_multus_attaches_and_denies_what_it_refuses(
    stage: NodeStage, names: dict[str, str]
) -> None:
    await stage.attach(BR)
    await stage.attach(BR, EXEMPT)
    assert {text: await admitted(stage, name, text) for text, name in names.items()} == dict.fromkeys(
        RUN, True
    ) | dict.fromkeys(HANG, False)
    # A node makes many sandboxes at a time, and tries one that fails without end.
    for text, name in names.items():
        await stage.create(pod(name, networks=text), EXEMPT)
    ups = await asyncio.gather(*(stage.runs(names[text], EXEMPT) for text in RUN))
    interfaces = [[entry["interface"] for entry in networks_of(up)] for up in ups]
    assert interfaces == [["eth0", *expected] for expected in RUN.values()]
    refused = {names[text] for text in HANG}
    await eventually(lambda: refusals(stage), lambda found: refused <= found.keys())
    pods = [await stage.pod(name, EXEMPT) for name in sorted(refused)]
    assert {stored["status"]["phase"] for stored in pods} == {"Pending"}
