"""Claims by the chart, as a user of kubectl sees them: docs/claims.md typed, with a driver beside it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.claims.model import NETWORK_STATUS
from app.devtools.claims.driver import DriverStandIn
from app.kube.transport import connect
from tests.e2e.reader import Reader
from tests.e2e.users import Kubectl
from tests.support.real_parts import CLAIMS, since
from tests.support.running import running, threaded
from tests.support.waiting import PATIENCE, wait_until

JSON = dict[str, Any]
pytestmark = [pytest.mark.e2e, since(CLAIMS)]
# The nodes of this cluster have no capacity of the resource: devices serve it.
PAGE, CLUSTER, DRIVER, RESOURCE = "docs/claims.md", "icp", "vf.example.com", "example.com/foo"
CLASS: JSON = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": DRIVER},
    "spec": {
        "extendedResourceName": RESOURCE,
        "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
    },
}


@contextlib.asynccontextmanager
async def devices(kubeconfig: Path, nodes: list[str]) -> AsyncIterator[None]:
    """A driver with four devices on each node."""
    async with await connect(kubeconfig=str(kubeconfig), deadline=PATIENCE) as client:
        driver = DriverStandIn(client, DRIVER, "data", nodes, resource=RESOURCE)
        await driver.publish_slices()
        async with running(driver.run()):
            yield


@pytest.fixture(scope="module")
def kubectl(reader: Reader) -> Iterator[Kubectl]:
    """In a cluster whose admin has done what the page says."""
    found = reader.kubectl(CLUSTER)
    found.create(CLASS)
    with threaded(devices(reader.kubeconfig(CLUSTER), ["dpu1-host-a", "dpu1-host-b"])):
        reader.follow("Turn it on", CLUSTER, page=PAGE)
        yield found


def addresses(kubectl: Kubectl) -> dict[str, str]:
    """What Multus says of the Pod, by interface."""
    text = kubectl.get("pod", "database")["metadata"]["annotations"].get(NETWORK_STATUS, "[]")
    return {one["interface"]: one["ips"][0] for one in json.loads(text) if not one.get("default")}


def published(kubectl: Kubectl) -> dict[str, str]:
    """What the claim of the Pod says."""
    status = kubectl.get("pod", "database")["status"]["extendedResourceClaimStatus"]
    claim = kubectl.get("resourceclaim", status["resourceClaimName"])
    found = [one.get("networkData", {}) for one in claim["status"].get("devices", ())]
    return {one["interfaceName"]: one["ips"][0] for one in found if one}


def endpoints(kubectl: Kubectl) -> list[str]:
    listed = json.loads(kubectl.run("get", "endpointslices", "-l", "kubernetes.io/service-name=database", "-o", "json"))
    return [address for one in listed["items"] for endpoint in one["endpoints"] for address in endpoint["addresses"]]


def with_prefixes(said: dict[str, str]) -> dict[str, str]:
    return {interface: f"{address}/24" for interface, address in said.items()}


def test_the_page(reader: Reader, kubectl: Kubectl) -> None:
    shown = reader.follow("Try it", CLUSTER, page=PAGE)
    said = addresses(kubectl)
    assert {*said} == {"net1", "net2"}
    wait_until(lambda: published(kubectl) == with_prefixes(said))
    assert said["net1"] in shown
    wait_until(lambda: endpoints(kubectl) == [said["net2"]])
    # The sandbox of the Pod is made again.
    kubectl.run("annotate", "pod", "database", f"{NETWORK_STATUS}-")
    wait_until(lambda: len(addresses(kubectl)) == 2 and addresses(kubectl) != said)
    later = addresses(kubectl)
    wait_until(lambda: published(kubectl) == with_prefixes(later))
    wait_until(lambda: endpoints(kubectl) == [later["net2"]])
    reader.find_nothing_wrong(CLUSTER)
    kubectl.run("delete", "service,pod", "database", "--timeout=120s")
    wait_until(lambda: json.loads(kubectl.run("get", "resourceclaims", "-o", "json"))["items"] == [])
    wait_until(lambda: endpoints(kubectl) == [])
