"""The controller of claim templates, over HTTP: definitions in, templates in the namespaces that use them out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.claims.claim_templates import SKIPPED
from app.claims.definitions import CLASS_DEFINITION
from app.claims.model import CLAIM_TEMPLATE_HASH, CLAIM_TEMPLATE_MARK
from app.errors import ApiError
from app.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    EVENTS,
    NETWORK_ATTACHMENTS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
)
from app.kube.secrets import MANAGED_BY
from tests.support.claim_cluster import NAMESPACE, ClaimCluster
from tests.support.claim_reviews import DEFINITIONS, PAIR, SYSTEM, attachment, definitions, device_class, template
from tests.support.counting import value
from tests.support.waiting import eventually

JSON = dict[str, Any]
pytestmark = pytest.mark.simulated


@pytest.fixture
def cluster(claim_cluster: ClaimCluster) -> ClaimCluster:
    return claim_cluster


def pod(name: str, *templates: str) -> JSON:
    claims = [{"name": f"c{index}", "resourceClaimTemplateName": one} for index, one in enumerate(templates)]
    container = {"name": "main", "image": "i", "resources": {"claims": [{"name": one["name"]} for one in claims]}}
    return PODS.body({"name": name}, spec={"containers": [container], "resourceClaims": claims})


async def defined(cluster: ClaimCluster, **texts: str) -> None:
    await cluster.make(definitions(**texts), CONFIG_MAPS, SYSTEM)


async def redefined(cluster: ClaimCluster, **texts: Any) -> None:
    await cluster.admin.patch(CONFIG_MAPS, DEFINITIONS, {"data": texts}, patch_type="merge", namespace=SYSTEM)


async def test_a_template_is_made_where_a_pod_names_the_definition(cluster: ClaimCluster) -> None:
    await defined(cluster, gpu_nic=PAIR, other=PAIR)
    async with cluster.controller():
        await cluster.make(pod("a", "gpu-nic", "of-nobody"), PODS, "team-a")
        made = await cluster.has("gpu-nic", "team-a")
    spec = made["spec"]["spec"]["devices"]
    assert [one["exactly"]["deviceClassName"] for one in spec["requests"]] == ["gpu.example.com", "vf.example.com"]
    assert spec["constraints"][0]["matchAttribute"] == "resource.kubernetes.io/pcieRoot"
    labels = made["metadata"]["labels"]
    assert (labels[MANAGED_BY], labels[CLAIM_TEMPLATE_MARK]) == ("berth", "gpu-nic")
    assert "ownerReferences" not in made["metadata"]
    assert len(cluster.stored(RESOURCE_CLAIM_TEMPLATES)) == 1


async def test_attachments_get_templates_in_their_namespace(cluster: ClaimCluster) -> None:
    """By a definition, and by a DeviceClass, which then owns the template."""
    await defined(cluster, gpu_nic=PAIR)
    made_class = await cluster.make(device_class("vf.example.com"), DEVICE_CLASSES)
    async with cluster.controller():
        await cluster.make(attachment("a", template="gpu-nic"), NETWORK_ATTACHMENTS)
        await cluster.make(attachment("b", namespace="team-a", device_class="vf.example.com"), NETWORK_ATTACHMENTS)
        await cluster.has("gpu-nic")
        made = await cluster.has("berth-class-vf.example.com", "team-a")
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("DeviceClass", made_class["metadata"]["uid"])
    assert made["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "vf.example.com"
    assert len(cluster.stored(RESOURCE_CLAIM_TEMPLATES)) == 2


async def test_an_annotation_of_a_class_is_a_definition(cluster: ClaimCluster) -> None:
    await cluster.make(device_class("vf.example.com", **{CLASS_DEFINITION: "one-vf"}), DEVICE_CLASSES)
    async with cluster.controller():
        await cluster.make(pod("a", "one-vf"), PODS)
        made = await cluster.has("one-vf")
        await cluster.admin.delete(DEVICE_CLASSES, "vf.example.com")
        await cluster.lacks("one-vf")
    assert made["metadata"]["ownerReferences"][0]["name"] == "vf.example.com"


async def test_a_changed_definition_replaces_the_template(cluster: ClaimCluster) -> None:
    await defined(cluster, gpu_nic=PAIR)
    async with cluster.controller():
        await cluster.make(pod("a", "gpu-nic"), PODS)
        before = await cluster.has("gpu-nic")
        await redefined(cluster, **{"gpu-nic": "requests: {gpu: gpu.example.com}"})
        after = await cluster.has("gpu-nic", other_than=before["metadata"]["uid"])
    assert len(after["spec"]["spec"]["devices"]["requests"]) == 1
    hashes = {one["metadata"]["annotations"][CLAIM_TEMPLATE_HASH] for one in (before, after)}
    assert len(hashes) == 2


async def test_a_wrong_definition_leaves_the_last_one_in_force(cluster: ClaimCluster) -> None:
    await defined(cluster, gpu_nic=PAIR)
    async with cluster.controller():
        await cluster.make(pod("a", "gpu-nic"), PODS)
        before = await cluster.has("gpu-nic")
        await redefined(cluster, **{"gpu-nic": "requests: 3"})
        await cluster.make(pod("b", "gpu-nic"), PODS, "team-a")
        made = await cluster.has("gpu-nic", "team-a")
    assert made["spec"] == before["spec"]
    assert cluster.template("gpu-nic") == before


async def test_what_cannot_be_read_after_a_start_deletes_nothing(cluster: ClaimCluster) -> None:
    """Also not what has no definition as far as is known; once it can be read, what was left alone is looked at."""
    await defined(cluster, gpu_nic=PAIR, other=PAIR)
    async with cluster.controller():
        await cluster.make(pod("a", "gpu-nic", "other"), PODS)
        before = [await cluster.has(name) for name in ("gpu-nic", "other")]
    await redefined(cluster, **{"gpu-nic": "requests: 3"})
    await cluster.make(device_class("vf.example.com", **{CLASS_DEFINITION: "one-vf"}), DEVICE_CLASSES)
    async with cluster.controller():
        await cluster.make(pod("b", "one-vf"), PODS)
        await cluster.has("one-vf")
        assert [cluster.template(name) for name in ("gpu-nic", "other")] == before
        await redefined(cluster, **{"gpu-nic": None})
        await cluster.lacks("gpu-nic")
    assert cluster.template("other") == before[1]


async def test_an_unused_template_does_not_outlive_a_change_of_its_definition(cluster: ClaimCluster) -> None:
    """The next Pod would get a claim of what was defined before."""
    await defined(cluster, gpu_nic=PAIR)
    async with cluster.controller(keep=300.0):
        await cluster.make(pod("a", "gpu-nic"), PODS)
        before = await cluster.has("gpu-nic")
        await cluster.admin.delete(PODS, "a", namespace=NAMESPACE, grace_period_seconds=0)
        await redefined(cluster, **{"gpu-nic": "requests: {gpu: gpu.example.com}"})
        await eventually(lambda: cluster.template("gpu-nic") != before)


async def test_a_template_goes_with_its_definition_or_some_time_after_its_users(cluster: ClaimCluster) -> None:
    await defined(cluster, gpu_nic=PAIR, other=PAIR)
    async with cluster.controller(keep=300.0):
        await cluster.make(pod("a", "gpu-nic"), PODS)
        await cluster.make(pod("b", "other"), PODS)
        first = await cluster.has("gpu-nic")
        await cluster.has("other")
        await redefined(cluster, other=None)
        await cluster.lacks("other")
        await cluster.admin.delete(PODS, "a", namespace=NAMESPACE, grace_period_seconds=0)
        await asyncio.sleep(299)
        assert cluster.template("gpu-nic") is not None
        await cluster.lacks("gpu-nic")
        await cluster.make(pod("c", "gpu-nic"), PODS)
        await cluster.has("gpu-nic", other_than=first["metadata"]["uid"])


async def test_a_pod_that_is_over_uses_nothing(cluster: ClaimCluster) -> None:
    await defined(cluster, gpu_nic=PAIR)
    async with cluster.controller(keep=5.0):
        await cluster.make(pod("a", "gpu-nic"), PODS)
        await cluster.has("gpu-nic")
        done = {"status": {"phase": "Succeeded"}}
        await cluster.admin.patch(PODS, "a", done, patch_type="merge", namespace=NAMESPACE, subresource="status")
        await cluster.lacks("gpu-nic")


async def test_a_template_of_others_is_left_alone_and_told_of(cluster: ClaimCluster) -> None:
    await defined(cluster, gpu_nic=PAIR)
    own = await cluster.make(template("gpu-nic", "mine.example.com"), RESOURCE_CLAIM_TEMPLATES)
    async with cluster.controller(events=True):
        await cluster.make(pod("a", "gpu-nic"), PODS)
        (event,) = await eventually(lambda: cluster.stored(EVENTS, NAMESPACE))
        assert value(SKIPPED.labels("foreign")) == 1
        assert cluster.template("gpu-nic") == own
        assert (event["reason"], event["regarding" if "regarding" in event else "involvedObject"]["uid"]) == (
            "NotOfDefinition",
            own["metadata"]["uid"],
        )
        await cluster.admin.delete(RESOURCE_CLAIM_TEMPLATES, "gpu-nic", namespace=NAMESPACE)
        await redefined(cluster, **{"gpu-nic": PAIR + "# again"})
        await redefined(cluster, another=PAIR)
        await cluster.has("gpu-nic", other_than=own["metadata"]["uid"])
    assert value(SKIPPED.labels("foreign")) == 0


async def test_what_is_deleted_by_others_is_made_again_and_each_is_written_once(cluster: ClaimCluster) -> None:
    await defined(cluster, gpu_nic=PAIR)
    async with cluster.controller() as client:
        for index in range(5):
            await cluster.make(pod(f"a{index}", "gpu-nic"), PODS)
        made = await cluster.has("gpu-nic")
        assert client.counts["create resourceclaimtemplates"] <= 2
        await cluster.admin.delete(RESOURCE_CLAIM_TEMPLATES, "gpu-nic", namespace=NAMESPACE)
        await cluster.has("gpu-nic", other_than=made["metadata"]["uid"])


async def test_after_a_restart_templates_are_kept_as_they_are(cluster: ClaimCluster) -> None:
    await defined(cluster, gpu_nic=PAIR)
    async with cluster.controller():
        await cluster.make(pod("a", "gpu-nic"), PODS)
        made = await cluster.has("gpu-nic")
    async with cluster.controller() as client:
        await cluster.make(pod("b", "gpu-nic"), PODS, "team-a")
        await cluster.has("gpu-nic", "team-a")
        assert client.counts["delete resourceclaimtemplates"] == 0
    assert cluster.template("gpu-nic") == made


@pytest.mark.parametrize("status", [403, 413, 422])
async def test_a_template_that_is_refused_is_told_and_keeps_no_other(cluster: ClaimCluster, status: int) -> None:
    await defined(cluster, bad=PAIR, good=PAIR)

    async def refuse(verb: str, name: str) -> None:
        if (verb, name) == ("create", "bad"):
            raise ApiError(f"POST: HTTP {status}: no", status=status)

    async with await cluster.client() as client:
        client.before = refuse
        async with cluster.controller(client, events=True):
            await cluster.make(pod("a", "bad", "good"), PODS)
            await cluster.make(attachment("b", template="bad"), NETWORK_ATTACHMENTS)
            await cluster.has("good")
            told = {("Pod", "ClaimTemplateRefused"), ("NetworkAttachmentDefinition", "ClaimTemplateRefused")}
            await eventually(
                lambda: told <= {(one["involvedObject"]["kind"], one["reason"]) for one in cluster.stored(EVENTS)}
            )
            assert value(SKIPPED.labels("refused")) == 1
            client.before = None
            if status != 413:  # what is too large is not sent again before it changes
                await cluster.has("bad")
                await eventually(lambda: value(SKIPPED.labels("refused")) == 0)
    async with cluster.controller():
        await cluster.has("bad")
