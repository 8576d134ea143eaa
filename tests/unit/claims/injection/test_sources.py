"""Attachments that name a claim, networks that others select, and Pod templates."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.claims.injection.injector import templates_of
from app.kube.resources import CONFIG_MAPS
from app.networks import interfaces
from app.networks.model import RESOURCES_CONTAINER, attachment_problems, project_with_claims, projection
from app.networks.places import INJECT_TEMPLATE
from tests.support.appwrappers import app_wrapper, job
from tests.support.claim_reviews import (
    CLASS,
    NETWORKS,
    PAIR,
    RESOURCE,
    SYSTEM,
    TEMPLATE,
    Reviews,
    attachment,
    definitions,
    pod,
    template,
)

JSON = dict[str, Any]
CLUSTER = [
    attachment("vf", template="one-vf"),
    attachment("foo", resource="example.com/foo"),
    template("one-vf", "vf.example.com"),
    definitions(gpu_nic=PAIR),
]


def switches(annotations: JSON) -> JSON:
    """Control switches that give annotations to the Pods with label `net`."""
    entry = {"op": "add", "path": "/metadata/annotations", "value": annotations}
    data = {"config.json": json.dumps({"user-defined-injections": {"net": entry}})}
    return {**CONFIG_MAPS.body({"name": "nri-control-switches", "namespace": SYSTEM}), "data": data}


SWITCHES = switches({NETWORKS: "vf"})


@pytest.mark.parametrize(
    ("annotations", "resources", "claimed"),
    [
        ({"resource": "a/b"}, ("a/b",), False),
        ({"resource": "a/b", "template": "t"}, (), True),
        ({"resource": "a/b", "device_class": " c "}, (), True),
        ({"resource": "a/b", "device_class": "  "}, ("a/b",), False),
        ({"resource": "a/b", "inject": "false"}, (), False),
        ({"resource": "a/b", "template": "t", "inject": "FALSE"}, (), False),
        ({"resource": "a/b", "inject": "true"}, ("a/b",), False),
    ],
)
def test_an_attachment_is_on_one_road_at_most(annotations: JSON, resources: tuple[str, ...], *, claimed: bool) -> None:
    found = project_with_claims(attachment("a", **annotations), (RESOURCE,))
    assert (found.resources, found.claim is not None) == (resources, claimed)


def test_wings_share_one_cache() -> None:
    """A lookup is shared by who asks with the same function."""
    assert projection((RESOURCE,), claims=True) is projection((RESOURCE,), claims=True)
    plain = projection((RESOURCE,), claims=False)(attachment("a", resource="a/b", template="t"))
    assert (plain.resources, plain.claim) == (("a/b",), None)


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({"template": "T"}, f"metadata.annotations[{TEMPLATE}]: 'T' is not a valid name"),
        ({"device_class": "a_b"}, f"metadata.annotations[{CLASS}]: 'a_b' is not a valid name"),
        ({"device_class": "a", "template": "b"}, f"metadata.annotations[{CLASS}]: excludes {TEMPLATE}"),
        ({"device_class": "a"}, ""),
    ],
)
async def test_attachments_are_checked_when_they_are_written(annotations: JSON, said: str) -> None:
    obj = attachment("a", **annotations)
    assert attachment_problems(obj, ()) == []
    async with Reviews() as reviews:
        found = await reviews.validate(obj)
    assert found.decision.message.startswith(said)
    assert found.decision.allowed is not bool(said)


async def test_networks_of_user_defined_injection_get_claims_too() -> None:
    asked = pod()
    asked["metadata"]["labels"] = {"net": "true"}
    async with Reviews([*CLUSTER, SWITCHES]) as reviews:
        found = await reviews.mutate(asked)
        assert found.obj["metadata"]["annotations"][NETWORKS] == "vf"
        assert [one["resourceClaimTemplateName"] for one in found.obj["spec"]["resourceClaims"]] == ["one-vf"]
        assert (await reviews.mutate(found.obj)).plan.patch.operations == []


async def test_a_container_that_user_defined_injection_names_gets_the_claims() -> None:
    asked = pod("", {"name": "first"}, {"name": "second"})
    asked["metadata"]["labels"] = {"net": "true"}
    async with Reviews([*CLUSTER, switches({NETWORKS: "vf", RESOURCES_CONTAINER: "second"})]) as reviews:
        first, second = (await reviews.mutate(asked)).obj["spec"]["containers"]
    assert "resources" not in first
    assert len(second["resources"]["claims"]) == 1


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("labels", [{}, {"net": "true"}])
async def test_networks_are_searched_once_in_a_review(
    monkeypatch: pytest.MonkeyPatch, labels: JSON, *, own: bool
) -> None:
    searched = []
    monkeypatch.setattr(interfaces, "check_together", lambda *selected: searched.append(selected))
    asked = pod("vf,foo")
    asked["metadata"]["labels"] = labels
    if own:
        asked["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimTemplateName": "other"}]
    async with Reviews([*CLUSTER, *([SWITCHES] if labels else [])]) as reviews:
        assert (await reviews.mutate(asked)).plan.injected["claim"] == 1
    assert len(searched) == 1


def of_job(networks: str, **marks: JSON) -> JSON:
    found = job("j")
    found["metadata"] |= marks
    found["spec"]["template"]["metadata"] = {"annotations": {NETWORKS: networks}}
    return found


@pytest.mark.parametrize("where", ["labels", "annotations"])
async def test_a_job_that_asks_is_injected_into_as_its_pods_would_be(where: str) -> None:
    asked = of_job("vf,foo", **{where: {INJECT_TEMPLATE: "true"}})
    async with Reviews(CLUSTER) as reviews:
        found = await reviews.mutate(asked)
        again = await reviews.mutate(found.obj)
        inner = found.obj["spec"]["template"]
        of_it = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"} | inner["metadata"],
            "spec": inner["spec"],
        }
        of_pod = await reviews.mutate(of_it)
    assert (found.decision.reason, again.plan.patch.operations, of_pod.plan.patch.operations) == ("Injected", [], [])
    (container,) = inner["spec"]["containers"]
    assert container["resources"]["limits"] == {"example.com/foo": "1"}
    assert [one["name"] for one in inner["spec"]["resourceClaims"]] == [
        one["name"] for one in container["resources"]["claims"]
    ]
    assert len(found.plan.patch.reasons) == len(found.plan.patch.operations)
    assert found.plan.injected["claim"] == 1


@pytest.mark.parametrize(
    "asked",
    [of_job("vf"), of_job("vf", labels={INJECT_TEMPLATE: "yes"}), of_job("vf", annotations={INJECT_TEMPLATE: "false"})],
)
async def test_other_jobs_are_left_alone(asked: JSON) -> None:
    async with Reviews(CLUSTER) as reviews:
        assert (await reviews.mutate(asked)).plan.patch.operations == []


async def test_updates_and_jobs_of_other_groups_are_left_alone() -> None:
    asked = of_job("vf", labels={INJECT_TEMPLATE: "true"})
    async with Reviews(CLUSTER) as reviews:
        assert (await reviews.mutate(asked, operation="UPDATE")).plan.patch.operations == []
        other = asked | {"apiVersion": "example.com/v1"}
        assert (await reviews.mutate(other)).plan.patch.operations == []


async def test_each_podset_of_an_app_wrapper_is_injected_into() -> None:
    asked = app_wrapper("w", of_job("vf"), of_job("vf,vf"))
    asked["metadata"]["annotations"] = {INJECT_TEMPLATE: "true"}
    asked["spec"]["components"][0]["podSets"] = [{"path": "template.spec.template"}] * 2
    async with Reviews(CLUSTER) as reviews:
        found = await reviews.mutate(asked)
        assert (await reviews.mutate(found.obj)).plan.patch.operations == []
    counts = [len(one["spec"]["resourceClaims"]) for one in templates_of(found.obj).values()]
    assert counts == [1, 2]


async def test_a_denial_names_the_template() -> None:
    asked = job("j")
    asked["metadata"]["labels"] = {INJECT_TEMPLATE: "true"}
    asked["spec"]["template"] = {
        "spec": {"containers": [{"name": "m", "resources": {"limits": {"berth.dev/no": "1"}}}]}
    }
    async with Reviews(CLUSTER) as reviews:
        found = await reviews.mutate(asked)
    assert found.message.startswith("spec.template: container 'm' asks for 'berth.dev/no'")


async def test_fields_on_the_way_to_a_template_are_named_as_they_are() -> None:
    asks = {"containers": [{"name": "m", "resources": {"limits": {"berth.dev/no": "1"}}}]}
    asked = app_wrapper("w", {"apiVersion": "example.com/v1", "kind": "Other", "a/b~c": {"spec": asks}})
    asked["metadata"]["labels"] = {INJECT_TEMPLATE: "true"}
    asked["spec"]["components"][0]["podSets"] = [{"path": "template.a/b~c"}]
    async with Reviews(CLUSTER) as reviews:
        found = await reviews.mutate(asked)
    assert found.message.startswith("spec.components.0.template.a/b~c: container 'm' asks for 'berth.dev/no'")


@pytest.mark.parametrize("spec", [None, 3, {}, {"template": 3}, {"template": {}}, {"template": {"spec": None}}])
async def test_jobs_without_a_template_are_left_to_the_api_server(spec: Any) -> None:
    asked = job("j") | {"spec": spec}
    asked["metadata"]["labels"] = {INJECT_TEMPLATE: "true"}
    async with Reviews(CLUSTER) as reviews:
        found = await reviews.mutate(asked)
    assert found.plan.patch.operations == []


@pytest.mark.parametrize("components", [None, 3, [3], [{}], [{"template": 3}], [{"podSets": [{"path": "x"}]}]])
async def test_app_wrappers_of_other_shapes_are_left_to_their_check(components: Any) -> None:
    asked = app_wrapper("w")
    asked["spec"]["components"] = components
    asked["metadata"]["labels"] = {INJECT_TEMPLATE: "true"}
    async with Reviews(CLUSTER) as reviews:
        assert (await reviews.mutate(asked)).plan.patch.operations == []
