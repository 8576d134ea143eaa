"""Opaque parameters that this client writes hold up no write of a status.

An API server compares them byte for byte with what it has read and written again.
"""

from __future__ import annotations

from typing import Any

import pytest

from app.claims.model import FIELD_MANAGER
from app.devtools.claims.driver import DriverStandIn
from app.kube.client import KubeClient
from app.kube.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tests.support.control_plane import NAMESPACE, NODE_NAMES, ControlPlane
from tests.support.networked_pods import DRIVER, RESOURCE, prepare
from tests.support.waiting import eventually

JSON = dict[str, Any]
CONFIG = [
    {"opaque": {"driver": DRIVER, "parameters": {"text": "a <é> & b", "kind": "Parameters", "list": [1, {"b": 2}]}}}
]


async def of_class(client: KubeClient, config: list[JSON]) -> None:
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    spec = {"selectors": selectors, **({"config": config} if config else {})}
    await client.create(DEVICE_CLASSES, DEVICE_CLASSES.body({"name": "configured"}, spec=spec))


async def template(client: KubeClient, config: list[JSON]) -> None:
    devices = {"requests": [{"name": "r", "exactly": {"deviceClassName": "configured"}}]}
    spec = {"spec": {"devices": {**devices, **({"config": config} if config else {})}}}
    await client.create(
        RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIM_TEMPLATES.body({"name": "t"}, spec=spec), namespace=NAMESPACE
    )


async def allocated(client: KubeClient) -> JSON:
    async def look() -> JSON | None:
        claims = (await client.list_page(RESOURCE_CLAIMS, namespace=NAMESPACE)).items
        return next((one for one in claims if (one.get("status") or {}).get("allocation")), None)

    found = await eventually(look)
    assert found is not None
    return found


@pytest.mark.parametrize("where", ["template", "class"])
async def test_a_claim_with_parameters_takes_network_data(control_plane: ControlPlane, where: str) -> None:
    client = control_plane.client
    await prepare(client, NAMESPACE)
    await DriverStandIn(client, DRIVER, "silent", NODE_NAMES, resource=RESOURCE).publish_slices()
    await of_class(client, CONFIG if where == "class" else [])
    await template(client, CONFIG if where == "template" else [])
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "x"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]}
    await client.create(PODS, PODS.body({"name": "p"}, spec=spec), namespace=NAMESPACE)
    claim = await allocated(client)
    devices = claim["status"]["allocation"]["devices"]
    assert [one["opaque"] for one in devices["config"]] == [CONFIG[0]["opaque"]]
    keys = {key: devices["results"][0][key] for key in ("driver", "pool", "device")}
    entry = keys | {"networkData": {"interfaceName": "net1"}}
    name = claim["metadata"]["name"]
    body = RESOURCE_CLAIMS.body({"name": name}) | {"status": {"devices": [entry]}}
    place = {"namespace": NAMESPACE, "subresource": "status", "field_manager": FIELD_MANAGER, "force": False}
    answer = await client.apply(RESOURCE_CLAIMS, name, body, **place)
    assert answer["status"]["devices"][0]["networkData"] == entry["networkData"]
