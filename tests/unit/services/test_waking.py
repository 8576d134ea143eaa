"""Which Services are looked at after a change, and that nothing depends on the number of Pods."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from app.kube.resources import SERVICES
from app.kube.selectors import LabelSelector
from app.kube.store import Key
from app.services.caches import ServiceCaches
from app.services.controller import Waking
from app.services.slices import stored_endpoint_slice
from tests.support.kits import offline_kit, waking

JSON = dict[str, Any]
DEVICE = {"driver": "vf.example.com", "pool": "n1", "device": "vf0"}


def service(name: str, selector: str = "app=x", network: str = "vlan", namespace: str = "ns") -> JSON:
    annotations = {"berth.dev/network": network, "berth.dev/selector": selector}
    metadata = {"namespace": namespace, "name": name, "uid": name, "annotations": annotations}
    return {"metadata": metadata, "spec": {"clusterIP": "None"}}


def pod(name: str, app: str = "x", *, namespace: str = "ns", claim: str = "", network: str = "vlan") -> JSON:
    status = json.dumps([{"name": f"{namespace}/{network}", "ips": ["10.0.0.1"]}])
    annotations = {} if claim else {"k8s.v1.cni.cncf.io/network-status": status}
    metadata = {"namespace": namespace, "name": name, "uid": name, "labels": {"app": app}, "annotations": annotations}
    claims = [{"name": "nic", "resourceClaimName": claim}] if claim else []
    return {"metadata": metadata, "spec": {"nodeName": "n1", "resourceClaims": claims}}


def ready(obj: JSON) -> JSON:
    return {**obj, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def attachment(name: str, resource: str) -> JSON:
    annotations = {"k8s.v1.cni.cncf.io/resourceName": resource}
    return {"metadata": {"namespace": "ns", "name": name, "annotations": annotations}}


def endpoint_slice(owner: str, version: int = 1) -> JSON:
    reference = {
        "apiVersion": SERVICES.api_version,
        "kind": "Service",
        "controller": True,
        "name": owner,
        "uid": owner,
    }
    labels = {"endpointslice.kubernetes.io/managed-by": "berth"}
    metadata = {"namespace": "ns", "name": f"{owner}-1", "uid": f"{owner}-1", "resourceVersion": str(version)}
    metadata |= {"labels": labels, "ownerReferences": [reference]}
    return {"metadata": metadata, "addressType": "IPv4"}


class Woken:
    """Caches without a source, and which Services have been woken since the last look."""

    def __init__(self) -> None:
        self._woken: list[Key] = []
        kit = offline_kit()
        self.caches = ServiceCaches(kit)
        waking(kit, Waking(self.caches).wakes(), self._woken.append)

    def by(self, change: Callable[[], object]) -> list[str]:
        self._woken.clear()
        change()
        return sorted(name for _, name in self._woken)


@pytest.fixture
async def woken() -> Woken:
    """Two Services for Pods with the label x, one for y, one in another namespace."""
    made = Woken()
    for one in (service("a"), service("b"), service("c", "app=y"), service("d", namespace="other")):
        made.caches.services.upsert(one)
    return made


async def test_pods(woken: Woken) -> None:
    pods = woken.caches.pods
    assert woken.by(lambda: pods.upsert(pod("p"))) == ["a", "b"]
    assert woken.by(lambda: pods.upsert(pod("p"))) == []
    assert woken.by(lambda: pods.upsert(ready(pod("p")))) == ["a", "b"]
    assert woken.by(lambda: pods.upsert(ready(pod("p", "y")))) == ["a", "b", "c"]
    assert woken.by(lambda: pods.remove("ns", "p")) == ["c"]
    assert woken.by(lambda: pods.upsert(pod("p", namespace="other"))) == ["d"]


async def test_a_change_costs_the_same_with_many_pods(woken: Woken, monkeypatch: pytest.MonkeyPatch) -> None:
    """One question for each Service of the namespace, before and after the change."""
    asked = []
    matches = LabelSelector.matches

    def counted(self: LabelSelector, labels: Any) -> bool:
        asked.append(labels)
        return matches(self, labels)

    monkeypatch.setattr(LabelSelector, "matches", counted)
    counts = []
    for number in (1, 1000):
        for one in range(number):
            woken.caches.pods.upsert(pod(f"p{one}"))
        asked.clear()
        assert woken.by(lambda: woken.caches.pods.upsert(ready(pod("p0")))) == ["a", "b"]
        counts.append(len(asked))
        woken.caches.pods.upsert(pod("p0"))
    assert counts == [6, 6]


async def test_nodes(woken: Woken) -> None:
    woken.caches.pods.upsert(pod("p"))
    node: JSON = {"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "a"}}}
    assert woken.by(lambda: woken.caches.zones.upsert(node)) == ["a", "b"]
    assert woken.by(lambda: woken.caches.zones.upsert({**node, "status": {"phase": "x"}})) == []
    assert woken.by(lambda: woken.caches.zones.upsert({"metadata": {"name": "n2"}})) == []


async def test_claims_and_devices(woken: Woken) -> None:
    """Only where Multus does not say what the Pod has on the network."""
    woken.caches.pods.upsert(pod("p", claim="c"))
    woken.caches.pods.upsert(pod("q"))
    status = {"allocation": {"devices": {"results": [{**DEVICE, "request": "nic"}]}}}
    claim = {"metadata": {"namespace": "ns", "name": "c", "uid": "c"}, "status": status}
    assert woken.by(lambda: woken.caches.claims.upsert(claim)) == ["a", "b"]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    devices = {"metadata": {"name": "s"}, "spec": {"driver": "vf.example.com", "pool": pool, "devices": []}}
    assert woken.by(lambda: woken.caches.devices.upsert(devices)) == ["a", "b"]
    other = {"metadata": {"name": "t"}, "spec": {"driver": "other", "pool": pool, "devices": []}}
    assert woken.by(lambda: woken.caches.devices.upsert(other)) == []
    both = pod("p", claim="c")
    both["metadata"]["annotations"] = pod("p")["metadata"]["annotations"]
    woken.caches.pods.upsert(both)
    assert woken.by(lambda: woken.caches.claims.remove("ns", "c")) == []


async def test_attachments(woken: Woken) -> None:
    """Also those that have the same resource as the one of the Service."""
    attachments = woken.caches.attachments
    assert woken.by(lambda: attachments.upsert(attachment("vlan", "x/foo"))) == ["a", "b", "c"]
    assert woken.by(lambda: attachments.upsert(attachment("other", "x/bar"))) == []
    assert woken.by(lambda: attachments.upsert(attachment("other", "x/foo"))) == ["a", "b", "c"]
    assert woken.by(lambda: attachments.upsert(attachment("other", "x/bar"))) == ["a", "b", "c"]
    assert woken.by(lambda: attachments.remove("ns", "vlan")) == ["a", "b", "c"]


async def test_attachments_by_another_annotation_for_their_resource() -> None:
    """The settings of the role say which annotations name it."""
    caches = ServiceCaches(offline_kit(), keys=("one", "two"))
    caches.attachments.upsert(attachment("vlan", "x/foo"))
    caches.attachments.upsert({"metadata": {"namespace": "ns", "name": "other", "annotations": {"two": "x/bar"}}})
    assert [one.key for one in caches.attachments.by_index("resource", "x/bar")] == ["ns/other"]
    assert caches.attachments.by_index("resource", "x/foo") == []


async def test_default_networks_are_where_the_settings_say() -> None:
    caches, made = ServiceCaches(offline_kit(), home="cni"), pod("p", claim="c")
    made["metadata"]["annotations"]["v1.multus-cni.io/default-network"] = "fabric"
    caches.pods.upsert(made)
    assert [one.selected for one in caches.pods.values()] == [{"cni/fabric"}]


async def test_our_own_writes_wake_nothing(woken: Woken) -> None:
    slices, written = woken.caches.slices, woken.caches.written
    found = stored_endpoint_slice(endpoint_slice("a", 5))
    assert found is not None
    written.wrote(found.key, found)
    assert woken.caches.slices_of(("ns", "a")) == (found,), "it counts before the watch shows it"
    assert woken.by(lambda: slices.upsert(endpoint_slice("a", 5))) == []
    assert woken.by(lambda: slices.upsert(endpoint_slice("a", 6))) == ["a"]
    written.deleted(found.key, found.uid)
    assert woken.caches.slices_of(("ns", "a")) == ()
    assert woken.by(lambda: slices.remove("ns", "a-1")) == []
    assert woken.by(lambda: slices.upsert(endpoint_slice("b"))) == ["b"]
    assert woken.caches.keys() >= {("ns", "b")}


async def test_what_an_attachment_costs_does_not_depend_on_how_many_have_its_resource(
    woken: Woken, monkeypatch: pytest.MonkeyPatch
) -> None:
    attachments, looks = woken.caches.attachments, 0
    get, by_index = attachments.get, attachments.by_index

    def counted_get(namespace: str, name: str) -> Any:
        nonlocal looks
        looks += 1
        return get(namespace, name)

    def counted_index(index: str, key: Any) -> Any:
        nonlocal looks
        found = by_index(index, key)
        looks += len(found)
        return found

    monkeypatch.setattr(attachments, "get", counted_get)
    monkeypatch.setattr(attachments, "by_index", counted_index)
    attachments.upsert(attachment("vlan", "example.com/vf"))
    found = []
    for number in range(100):
        looks = 0
        change = partial(attachments.upsert, attachment(f"n{number}", "example.com/vf"))
        assert woken.by(change) == ["a", "b", "c"]
        found.append(looks)
    assert found[0] == found[-1]
