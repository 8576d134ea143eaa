"""Reviews of claim statuses over TLS: an API server calls them for what changes network data, and for nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.claims.admission.review import review
from app.kube.documents import read_objects
from app.kube.resources import VALIDATING_WEBHOOKS
from app.registration import further_webhooks
from app.registry import settings_of
from tests.support.claim_status_reviews import SYSTEM, attached, attachment, network_pod
from tests.support.claim_statuses import DRIVER, claim, entry
from tests.support.paths import ROOT
from tests.support.sandbox import Answer, Served
from tests.support.served_reviews import served_reviews
from tests.support.waiting import eventually

JSON = dict[str, Any]
HOOKS = f"/apis/{VALIDATING_WEBHOOKS.group}/v1/{VALIDATING_WEBHOOKS.plural}"
MERGE = "application/merge-patch+json"
DEFINITION = ROOT / "app" / "networks" / "crds" / "network-attachment-definitions.yaml"


class Place:
    """A namespace of an API server that calls the reviews; their port."""

    def __init__(self, server: Served, namespace: str) -> None:
        self.server, self.namespace = server, namespace

    async def send(self, method: str, path: str, body: JSON | None = None, **more: Any) -> Answer:
        return await asyncio.to_thread(self.server.request, method, path, body, **more)

    async def create(self, path: str, body: JSON) -> JSON:
        metadata = {key: value for key, value in body["metadata"].items() if key not in ("namespace", "uid")}
        answer = await self.send("POST", f"{path.format(ns=self.namespace)}", {**body, "metadata": metadata})
        assert answer.status == 201, answer.body
        found: JSON = answer.body
        return found

    async def pod(self, name: str, *interfaces: JSON) -> JSON:
        return await self.create("/api/v1/namespaces/{ns}/pods", network_pod(name, *interfaces))

    async def attachment(self, name: str, *subnets: str) -> None:
        path = "/apis/k8s.cni.cncf.io/v1/namespaces/{ns}/network-attachment-definitions"
        await self.create(path, attachment(name, *subnets))

    async def claim(self, name: str, pod: JSON, *devices: str) -> None:
        """Allocated with these devices, and reserved for the Pod."""
        obj = claim(name, *(entry(device) for device in devices))
        allocation = obj.pop("status")["allocation"]
        obj["spec"]["devices"]["requests"][0]["exactly"] |= {"allocationMode": "ExactCount", "count": len(devices)}
        made = await self.create("/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims", obj)
        reserved = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        made["status"] = {"allocation": allocation, "reservedFor": [reserved]}
        answer = await self.send("PUT", self.path_of(name), made)
        assert answer.status == 200, answer.body

    async def write(self, name: str, *entries: JSON) -> Answer:
        return await self.send("PATCH", self.path_of(name), {"status": {"devices": list(entries)}}, content_type=MERGE)

    async def says(self, name: str, *entries: JSON) -> str:
        """The warnings of a write, which is accepted."""
        answer = await self.write(name, *entries)
        assert answer.status == 200, answer.body
        return " ".join(answer.headers.getlist("Warning"))

    async def anew(self, name: str, *entries: JSON) -> str:
        """The same where the network data was another one before."""
        await self.write(name)
        return await self.says(name, *entries)

    def path_of(self, name: str) -> str:
        return f"/apis/resource.k8s.io/v1/namespaces/{self.namespace}/resourceclaims/{name}/status"


def addressed(device: str, *ips: str, interface: str = "net1") -> JSON:
    return entry(device, interfaceName=interface, ips=list(ips))


@contextlib.asynccontextmanager
async def reviewed(server: Served, namespace: str, folder: Path, **settings: Any) -> AsyncIterator[Place]:
    given = settings_of("webhook").load({"claims": True, "insecure": True, **settings}, environment=False)
    serving = served_reviews(review, given, kubeconfig=server.kubeconfig(), folder=folder / "webhook", namespace=SYSTEM)
    async with serving as found:
        called = {
            "clientConfig": {"url": f"https://127.0.0.1:{found.port}/validate", "caBundle": found.bundle},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun",
            # In the chart it is Ignore. Here a webhook that is not called, or fails, is to be seen.
            "failurePolicy": "Fail",
        }
        hooks = further_webhooks("claim-status", called, exempt=(SYSTEM,))
        place = Place(server, namespace)
        await place.create(HOOKS, VALIDATING_WEBHOOKS.body({"name": "claims"}, webhooks=hooks))
        try:
            yield place
        finally:
            await place.send("DELETE", f"{HOOKS}/claims")


@pytest.fixture(scope="module", autouse=True)
def networks(served: Served) -> None:
    (definition,) = read_objects(DEFINITION)
    served.define(definition)


async def test_addresses_are_compared_with_what_multus_attached(served: Served, namespace: str, tmp_path: Path) -> None:
    async with reviewed(served, namespace, tmp_path) as place:
        lan = f"{namespace}/lan"
        mine = await place.pod("p", attached("net1", "10.0.0.5", network=lan))
        await place.attachment("lan", "10.0.0.0/24")
        await place.claim("c", mine, "d0", "d1")
        outside = await eventually(lambda: place.anew("c", addressed("d0", "10.0.1.5/24")))
        assert (
            f"networkData.ips[0]: want an address in a subnet of network {lan} (10.0.0.0/24), got 10.0.1.5" in outside
        )
        assert await place.anew("c", addressed("d0", "10.0.0.5/24")) == ""
        await place.pod("q", attached("net7", "10.0.0.5", network=lan))
        taken = await eventually(lambda: place.anew("c", addressed("d0", "10.0.0.5/24")))
        assert f"got 10.0.0.5, which interface net7 of Pod {namespace}/q has" in taken
        named = await place.says("c", addressed("d0", "10.0.0.5/24"), addressed("d1"))
        assert "status.devices[1].networkData.interfaceName: want a name that no other device" in named
        assert "devices[0]" not in named, "it did not change"


async def test_claims_of_others_are_compared(served: Served, namespace: str, tmp_path: Path) -> None:
    async with reviewed(served, namespace, tmp_path) as place:
        for name in ("p", "q"):
            await place.claim(name, await place.pod(name, attached("net1", network=f"{namespace}/lan")), "d0")
        await place.write("q", addressed("d0", "10.0.0.7/24"))
        said = await eventually(lambda: place.anew("p", addressed("d0", "10.0.0.7/24")))
        assert f"which device {DRIVER}/n1/d0 of claim {namespace}/q has" in said


async def test_answers_name_nothing_of_other_namespaces(served: Served, namespace: str, tmp_path: Path) -> None:
    far = f"{namespace}-far"
    async with reviewed(served, namespace, tmp_path) as place:
        await place.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": far}})
        theirs = Place(served, far)
        await theirs.attachment("hidden", "10.77.0.0/24")
        pod = await theirs.pod("secret-db", attached("net7", "10.0.0.5", network=f"{far}/hidden"))
        await theirs.claim("secret-claim", pod, "d0")
        await place.claim("c", await place.pod("p", attached("net1", network=f"{far}/hidden")), "d0")
        said = await eventually(lambda: place.anew("c", addressed("d0", "10.0.0.5/24")), lambda one: "a Pod of" in one)
        assert "got 10.0.0.5, which a Pod of another namespace has" in said
        await theirs.write("secret-claim", addressed("d0", "10.0.0.6/24", interface="net7"))
        other = await eventually(
            lambda: place.anew("c", addressed("d0", "10.0.0.6/24")), lambda one: "a claim of" in one
        )
        assert "got 10.0.0.6, which a claim of another namespace has" in other
        assert f"want an address in a subnet of network {far}/hidden, got" in other
        for secret in ("secret", "net7", "10.77"):
            assert secret not in said + other


async def test_named_drivers_are_denied(served: Served, namespace: str, tmp_path: Path) -> None:
    async with reviewed(served, namespace, tmp_path, claims_deny_drivers=[DRIVER]) as place:
        pod = await place.pod("p")
        await place.claim("c", pod, "d0", "d1")
        answer = await place.write("c", addressed("d0"), addressed("d1"))
        assert answer.status == 422
        assert 'admission webhook "claim-status.berth.dev" denied the request' in answer.body["message"]
        assert "want a name that no other device of Pod" in answer.body["message"]
        assert await place.says("c", addressed("d0")) == ""


async def test_only_changes_of_network_data_are_sent(served: Served, namespace: str, tmp_path: Path) -> None:
    async with reviewed(served, namespace, tmp_path) as place:
        pod = await place.pod("p")
        await place.claim("c", pod, "d0", "d1")
        await place.write("c", addressed("d0", "10.0.0.5/24"))
        hooks = (await place.send("GET", f"{HOOKS}/claims")).body
        hooks["webhooks"][0]["clientConfig"]["url"] = "https://127.0.0.1:1/validate"
        assert (await place.send("PUT", f"{HOOKS}/claims", hooks)).status == 200
        # From when the new address is heeded, each call fails.
        await eventually(lambda: _refused(place, "c", addressed("d1", "10.0.0.6/24")))
        found = (await place.send("GET", place.path_of("c"))).body
        kept = {**found["status"]["devices"][0], "data": {"a": 1}}
        bare = {key: value for key, value in entry("d1").items() if key != "networkData"}
        assert await place.says("c", kept, bare) == ""
        assert await place.says("c", bare, kept) == "", "the order of entries is no change"
        assert await place.says("c", bare) == "", "nothing is left to check"


async def _refused(place: Place, name: str, written: JSON) -> bool:
    return (await place.write(name, written)).status == 500
