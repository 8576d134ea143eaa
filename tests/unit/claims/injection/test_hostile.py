"""Reviews that no API server sends, and values at the limits: a clear answer, and no fault of ours."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from app.claims.model import MOST_CLAIMS
from app.claims.sources import MOST_REFERENCES
from app.networks.model import NETWORKS
from tests.support.claim_reviews import PAIR, Reviews, attachment, definitions, device_class, pod, template

JSON = dict[str, Any]
CLUSTER = [
    attachment("vf", template="one-vf"),
    attachment("n" * 200, template="one-vf"),
    template("one-vf", "vf.example.com"),
    definitions(gpu_nic=PAIR),
    device_class("vf.example.com", "example.com/vf"),
]
WRONG = ("x", 3, True, ["x"], [3], [[]], {"a": 1})


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize("where", ["spec", "claims", "limits"])
async def test_values_of_other_types_are_refused_as_unreadable(where: str, value: Any) -> None:
    asked = pod("vf")
    if where == "spec":
        asked["spec"]["resourceClaims"] = value
    else:
        asked["spec"]["containers"][0]["resources"] = {where: value}
    async with Reviews(CLUSTER) as reviews:
        for found in (await reviews.mutate(asked), await reviews.validate(asked)):
            readable = where == "limits" and value == {"a": 1}
            assert found.decision.allowed is readable or found.decision.reason == "NothingMissing"
            if not found.decision.allowed:
                assert found.decision.code == 400
                assert "not a Pod that can be read" in found.message


async def test_nulls_are_absent() -> None:
    asked = pod("vf", {"name": "main", "resources": {"claims": None, "limits": None}})
    asked["spec"] |= {"resourceClaims": None, "initContainers": None}
    async with Reviews(CLUSTER) as reviews:
        found = await reviews.mutate(asked)
        assert (await reviews.mutate(found.obj)).plan.patch.operations == []
    assert len(found.obj["spec"]["resourceClaims"]) == 1


@pytest.mark.parametrize("containers", [[], None])
async def test_a_pod_without_containers_has_no_use_for_claims(containers: object) -> None:
    asked = pod("vf")
    asked["spec"]["containers"] = containers
    async with Reviews(CLUSTER) as reviews:
        found = await reviews.mutate(asked)
    assert (found.decision.allowed, found.decision.reason) == (False, "NoContainers")


@pytest.mark.parametrize("claims", [[{}], [{"name": ""}], [{"name": "a"}, {"name": "a"}], [{"name": "a" * 5000}]])
async def test_claims_that_the_api_server_refuses_are_left_to_it(claims: list[JSON]) -> None:
    asked = pod("vf")
    asked["spec"]["resourceClaims"] = claims
    async with Reviews(CLUSTER) as reviews:
        found = await reviews.mutate(asked)
        assert found.decision.allowed
        assert (await reviews.validate(asked)).decision.allowed
    assert found.obj["spec"]["resourceClaims"][: len(claims)] == claims


@pytest.mark.parametrize("amount", ["1e41", "-1", "1.5", "x", "", 10**30, 1e300, True, 33, "100Ei"])
async def test_amounts_that_are_none(amount: Any) -> None:
    asked = pod("", {"name": "main", "resources": {"limits": {"berth.dev/gpu-nic": amount}}})
    async with Reviews(CLUSTER) as reviews:
        found = await reviews.mutate(asked)
    assert not found.decision.allowed
    assert found.message.isprintable()
    assert len(found.message) < 400


@pytest.mark.parametrize("name", ["", "../x", "a/b", "x" * 5000, "\x1b[31m", "gpu-nic "])
async def test_names_that_are_no_definition(name: str) -> None:
    asked = pod("", {"name": "main", "resources": {"limits": {f"berth.dev/{name}": "1"}}})
    async with Reviews(CLUSTER) as reviews:
        found = await reviews.mutate(asked)
    assert found.message.isprintable()
    assert "want one of: berth.dev/gpu-nic" in found.message
    assert len(found.message) < 400


async def test_names_of_claims_are_labels_and_differ() -> None:
    """However long the names are that they are made from."""
    long, other = "c" * 63, "c" * 62 + "d"
    amounts = {"resources": {"limits": {"berth.dev/gpu-nic": "2"}}}
    asked = pod("", {"name": long} | amounts, {"name": other} | copy.deepcopy(amounts))
    asked["metadata"]["annotations"][NETWORKS] = f'[{{"name": "{"n" * 200}"}}, {{"name": "{"n" * 200}"}}]'
    async with Reviews(CLUSTER) as reviews:
        found = await reviews.mutate(asked)
    names = [one["name"] for one in found.obj["spec"]["resourceClaims"]]
    assert len(names) == len(set(names)) == 4, names
    assert all(len(name) <= 63 and name.replace("-", "").isalnum() for name in names)


async def test_as_many_claims_as_there_may_be() -> None:
    async with Reviews(CLUSTER) as reviews:
        found = await reviews.mutate(pod(",".join(["vf"] * MOST_CLAIMS)))
        assert len(found.obj["spec"]["resourceClaims"]) == MOST_CLAIMS
        assert (await reviews.mutate(found.obj)).plan.patch.operations == []
        more = await reviews.mutate(pod(",".join(["vf"] * (MOST_CLAIMS + 1))))
    assert f"want at most {MOST_CLAIMS} in a Pod, got {MOST_CLAIMS + 1}" in more.message


@pytest.mark.parametrize("value", [3, ["a"], {"a": "b"}, None, "  "])
async def test_annotations_of_attachments_of_other_types_name_no_source(value: Any) -> None:
    odd = attachment("odd", resource="example.com/odd")
    odd["metadata"]["annotations"] |= {"berth.dev/device-class": value, "berth.dev/inject": value}
    async with Reviews([odd]) as reviews:
        found = await reviews.mutate(pod("odd"))
    assert found.obj["spec"]["containers"][0]["resources"]["limits"] == {"example.com/odd": "1"}


@pytest.mark.parametrize("different", [MOST_REFERENCES, MOST_REFERENCES + 1])
async def test_what_is_read_for_one_pod_is_bounded(different: int) -> None:
    """Each claim that the caches do not show may be a request to the API server."""
    asked = pod("vf", {"name": "main", "resources": {"limits": {"example.com/vf": "1"}}})
    own = [{"name": f"c{number}", "resourceClaimName": f"none-{number % different}"} for number in range(1000)]
    asked["spec"]["resourceClaims"] = own
    async with Reviews(CLUSTER) as reviews:
        for found in (await reviews.mutate(asked), await reviews.validate(asked)):
            assert found.decision.allowed is (different <= MOST_REFERENCES)
            if not found.decision.allowed:
                assert found.decision.reason == "TooManyClaims"
                assert found.message == (
                    "spec.resourceClaims: want at most 256 different claims and templates, got 257"
                )
