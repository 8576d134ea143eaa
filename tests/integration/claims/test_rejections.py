"""Network data that a policy or a webhook does not take: it may be taken later, and no change of the claim says so."""

from __future__ import annotations

import pytest

from app.claims.publishing import controller
from app.claims.publishing.pauses import Growth
from app.errors import ApiError
from tests.support.claims import ClaimsCluster, attached
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio
WEBHOOK = (
    'admission webhook "claim-status.berth.dev" denied the request: status.devices[0].networkData.ips[0]: want an '
    "address that nothing else on network default/net has, got 10.0.0.5, which interface net1 of Pod default/q has"
)
POLICY = (
    "ValidatingAdmissionPolicy 'berth-claim-format' with binding 'berth-claim-format' denied request: "
    "status.devices[0].networkData.interfaceName: want a name of a Linux interface"
)


@pytest.mark.parametrize(("status", "message"), [(403, WEBHOOK), (422, POLICY)])
async def test_what_was_denied_is_written_once_it_is_taken(
    cluster: ClaimsCluster, monkeypatch: pytest.MonkeyPatch, status: int, message: str
) -> None:
    monkeypatch.setattr(controller, "REJECTED", Growth(0.01, 600.0))
    denials = 3

    async def deny(_name: str) -> None:
        nonlocal denials
        if denials:
            denials -= 1
            raise ApiError(message, status=status, reason="Forbidden" if status == 403 else "Invalid")

    await cluster.attachment()
    await cluster.slice("vf1")
    async with await cluster.client() as client:
        client.before = deny
        async with cluster.controller(client, events=True):
            pod = await cluster.pod("p", "c")
            await cluster.claim("c", pod, "vf1")
            await cluster.attach("p", attached("10.0.0.5"))
            assert await eventually(lambda: cluster.ips("c")) == ["10.0.0.5/24"]
            assert client.applied == {"c": 1}
            found = await eventually(lambda: cluster.events("NetworkDataRejected"))
            assert {one["involvedObject"]["kind"] for one in found} <= {"Pod", "ResourceClaim"}
