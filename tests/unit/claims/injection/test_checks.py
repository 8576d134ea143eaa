"""Double allocation, and definitions that are written."""

from __future__ import annotations

from typing import Any

import pytest

from app.claims.definitions import CLASS_DEFINITION
from tests.support.claim_reviews import (
    DEFINITIONS,
    PAIR,
    SYSTEM,
    Reviews,
    claim,
    definitions,
    device_class,
    devices,
    pod,
    template,
)
from tests.support.pod_requests import OTHERS

JSON = dict[str, Any]
IMPLICIT = "deviceclass.resource.kubernetes.io/"
CLUSTER = [
    device_class("vf.example.com", "example.com/vf"),
    device_class("gpu.example.com"),
    template("one-vf", "vf.example.com"),
    template("one-gpu", "gpu.example.com"),
    claim("shared", "vf.example.com"),
    definitions(gpu_nic=PAIR),
]


def asking(resource: str, amount: Any = "1", *, side: str = "limits", **claim_of: str) -> JSON:
    """A Pod with a claim, and a container that asks for a resource."""
    found = pod("", {"name": "main"}, {"name": "asks", "resources": {side: {resource: amount}}})
    key = {"template": "resourceClaimTemplateName", "claim": "resourceClaimName"}
    found["spec"]["resourceClaims"] = [{"name": "c", key[kind]: name} for kind, name in claim_of.items()]
    return found


@pytest.mark.parametrize(
    "asked",
    [
        asking("example.com/vf", template="one-vf"),
        asking("example.com/vf", 2, side="requests", claim="shared"),
        asking("example.com/vf", template="gpu-nic"),
        asking(f"{IMPLICIT}vf.example.com", template="berth-class-vf.example.com"),
        asking(f"{IMPLICIT}gpu.example.com", template="one-gpu"),
    ],
)
async def test_the_same_hardware_twice_is_refused(asked: JSON) -> None:
    """By template, by claim, by definition; by the name of the class, and by the implicit one."""
    async with Reviews(CLUSTER) as reviews:
        found = await reviews.validate(asked)
    (side,) = asked["spec"]["containers"][1]["resources"]
    assert found.message.startswith(f"spec.containers[1].resources.{side}[")
    assert "claim 'c' both ask for a device of DeviceClass" in found.message
    assert 'berth.dev/inject: "false"' in found.message
    assert found.decision.reason == "DoubleAllocation"


@pytest.mark.parametrize(
    "asked",
    [
        asking("example.com/vf", template="one-gpu"),
        asking("example.com/vf", "0", template="one-vf"),
        asking("cpu", template="one-vf"),
        asking("example.com/vf", template="not-there"),
        asking("example.com/vf", claim="../one-vf"),
        asking("example.com/vf", "no quantity", template="one-vf"),
        asking("example.com/vf"),
    ],
)
async def test_other_pods_pass(asked: JSON) -> None:
    async with Reviews(CLUSTER) as reviews:
        assert (await reviews.validate(asked)).decision.allowed


@pytest.mark.parametrize("where", ["labels", "annotations"])
async def test_a_pod_that_opted_out_is_not_checked(where: str) -> None:
    asked = asking("example.com/vf", template="one-vf")
    asked["metadata"][where] = {"berth.dev/inject": "false"}
    async with Reviews(CLUSTER) as reviews:
        assert (await reviews.validate(asked)).decision.allowed


@pytest.mark.parametrize("fields", [*OTHERS, {"namespace": "kube-system"}, {"namespace": SYSTEM}])
async def test_only_new_pods_are_checked(fields: JSON) -> None:
    async with Reviews(CLUSTER) as reviews:
        assert (await reviews.validate(asking("example.com/vf", template="one-vf"), **fields)).decision.allowed


async def test_requests_with_admin_access_allocate_nothing() -> None:
    spec = devices("vf.example.com")
    spec["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    monitoring = claim("monitoring")
    monitoring["spec"] = spec
    async with Reviews([*CLUSTER, monitoring]) as reviews:
        assert (await reviews.validate(asking("example.com/vf", claim="monitoring"))).decision.allowed


async def test_alternatives_count() -> None:
    either = template("either")
    subs = [{"name": name, "deviceClassName": f"{name}.example.com"} for name in ("gpu", "vf")]
    either["spec"]["spec"]["devices"]["requests"] = [{"name": "r", "firstAvailable": subs}]
    async with Reviews([*CLUSTER, either]) as reviews:
        assert not (await reviews.validate(asking("example.com/vf", template="either"))).decision.allowed


BROKEN = {
    "requests: {gpu: GPU}": "data[x]: requests.gpu: 'GPU' is not a valid name",
    "requests: {gpu: a, nic: b}\nalign: root": "data[x]: align: 'root' has no domain",
    "requests: {gpu: a}\nalign: a/b": "data[x]: align: there is one request: want at least two",
    "requests: [a]": "data[x]: requests: required",
    "requests: {gpu: 3}": "data[x]: requests.gpu: want the name of a DeviceClass, got a number",
    "requests: {a: b}\nspec: {}": "data[x]: spec: excludes requests and align",
    "devices: {}": "data[x]: devices: unknown key: want spec",
    "- a": "data[x]: want spec (of a ResourceClaim), or requests and align; got a list",
    "": "data[x]: want spec (of a ResourceClaim), or requests and align; got nothing",
    "{a": "data[x]: this is not YAML",
    "spec: 3": "data[x]: spec: want an object, got a number",
    "spec: {devices: {}}": "data[x]: spec.devices.requests: required: at least one request",
    "spec: {devices: {requests: [{name: a, exactly: {deviceClassName: b, cont: 3}}]}}": (
        "data[x]: spec.devices.requests[0].exactly.cont: unknown field"
    ),
    "spec: {devices: {requests: [{name: a, exactly: {deviceClassName: b, count: 0}}]}}": (
        "data[x]: spec.devices.requests[0].exactly.count: want a number of at least 1"
    ),
    "spec: {devices: {requests: [{name: a}]}}": "want one of exactly and firstAvailable",
    "spec: {devices: {requests: [{name: a, exactly: {deviceClassName: b}}], constraints: [{requests: [z]}]}}": (
        "spec.devices.constraints[0].requests[0]: 'z' is no request: want one of a"
    ),
    "spec: {devices: {requests: [{name: a, exactly: {deviceClassName: b}}], config: [{opaque: {driver: d}}]}}": (
        "spec.devices.config[0].opaque.parameters: want an object"
    ),
    "a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b]\n"
    "d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: [*d, *d, *d, *d, *d, *d, *d, *d]": "aliases make the document many times larger",
}


@pytest.mark.parametrize(("text", "said"), BROKEN.items())
async def test_a_wrong_definition_is_refused_with_its_path(text: str, said: str) -> None:
    async with Reviews(CLUSTER) as reviews:
        found = await reviews.validate(definitions(x=text))
    assert said in found.message
    assert found.message.isprintable()


@pytest.mark.parametrize("name", ["Upper", "berth-class-x", "a" * 64, "a_b"])
async def test_the_name_of_a_definition_is_that_of_a_template(name: str) -> None:
    wrong = definitions()
    wrong["data"] = {name: PAIR}
    marked = device_class("vf.example.com", **{CLASS_DEFINITION: name})
    async with Reviews(CLUSTER) as reviews:
        assert (await reviews.validate(wrong)).message.startswith(f"data[{name}]: ")
        assert (await reviews.validate(marked)).message.startswith(f"metadata.annotations[{CLASS_DEFINITION}]: ")


async def test_right_definitions_and_other_objects_pass() -> None:
    full = "spec: {devices: {requests: [{name: a, exactly: {deviceClassName: b, allocationMode: All}}]}}"
    other = definitions(x="3")
    other["metadata"]["namespace"] = "default"
    also = definitions(x="3")
    also["metadata"]["name"] = "another"
    async with Reviews(CLUSTER) as reviews:
        for obj in (
            definitions(gpu_nic=PAIR, full=full),
            other,
            also,
            device_class("vf.example.com", **{CLASS_DEFINITION: "one-vf"}),
            device_class("vf.example.com"),
        ):
            assert (await reviews.validate(obj)).decision.allowed, obj


@pytest.mark.parametrize("data", [3, ["a"], {"a": 3}, None])
async def test_a_config_map_of_another_shape_is_no_fault_of_ours(data: Any) -> None:
    obj = definitions() | {"data": data}
    async with Reviews(CLUSTER) as reviews:
        found = await reviews.validate(obj)
    assert found.decision.allowed is (data is None)
    assert obj["metadata"]["name"] == DEFINITIONS


async def test_a_wrong_config_map_leaves_the_definitions_before_in_force() -> None:
    """As it can be where the webhook was not asked; the problem is told."""
    async with Reviews([definitions(gpu_nic=PAIR, bad="3")]) as reviews:
        found = await reviews.mutate(pod("", {"name": "m", "resources": {"limits": {"berth.dev/gpu-nic": "1"}}}))
    assert "want one of: there is none" in found.message
