"""What the caches of a webhook do not have yet is read with one GET each."""

from __future__ import annotations

from typing import Any

import pytest

from app.kube.resources import DEVICE_CLASSES, NETWORK_ATTACHMENTS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tests.support.claim_cluster import ClaimCluster
from tests.support.claim_reviews import Reviews, attachment, claim, device_class, pod, template

JSON = dict[str, Any]


@pytest.fixture
def cluster(claim_cluster: ClaimCluster) -> ClaimCluster:
    return claim_cluster


async def test_injection_reads_what_its_caches_lack(cluster: ClaimCluster) -> None:
    await cluster.make(attachment("vf", template="one-vf"), NETWORK_ATTACHMENTS)
    await cluster.make(template("one-vf", "vf.example.com"), RESOURCE_CLAIM_TEMPLATES)
    await cluster.make(claim("shared", "vf.example.com"), RESOURCE_CLAIMS)
    asked = pod("vf,vf")
    async with await cluster.client() as client, Reviews(client=client) as reviews:
        found = await reviews.mutate(asked)
        assert len(found.obj["spec"]["resourceClaims"]) == 2
        assert found.decision.warnings == []
        assert client.counts["get network-attachment-definitions"] <= 4
        asked["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimName": "shared"}]
        own = await reviews.mutate(asked)
        assert "resources" not in own.obj["spec"]["containers"][0]
        assert (
            "claim own of the Pod asks for a device of vf.example.com" in own.decision.audit_annotations["own-claims"]
        )


async def test_the_check_reads_what_its_caches_lack(cluster: ClaimCluster) -> None:
    await cluster.make(device_class("vf.example.com", "example.com/vf"), DEVICE_CLASSES)
    await cluster.make(template("one-vf", "vf.example.com"), RESOURCE_CLAIM_TEMPLATES)
    asked = pod("", {"name": "main", "resources": {"limits": {"example.com/vf": "1"}}})
    asked["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": "one-vf"}]
    async with await cluster.client() as client, Reviews(client=client) as reviews:
        found = await reviews.validate(asked)
        assert "both ask for a device of DeviceClass vf.example.com" in found.message
        await cluster.admin.delete(RESOURCE_CLAIM_TEMPLATES, "one-vf", namespace="default")
        assert (await reviews.validate(asked)).decision.allowed


async def test_one_review_asks_for_one_name_once_also_where_there_is_none(cluster: ClaimCluster) -> None:
    """Injection beside claims, and the check: a Pod with many claims of one template, and with many networks."""
    await cluster.make(attachment("vf", resource="example.com/vf"), NETWORK_ATTACHMENTS)
    asked = pod(",".join(["vf"] * 100), {"name": "main", "resources": {"limits": {"example.com/vf": "1"}}})
    claims = [{"name": f"c{index}", "resourceClaimTemplateName": "missing"} for index in range(200)]
    shared = [{"name": f"s{index}", "resourceClaimName": "absent"} for index in range(200)]
    asked["spec"]["resourceClaims"] = claims + shared
    async with await cluster.client() as client, Reviews(client=client) as reviews:
        assert (await reviews.mutate(asked)).decision.allowed
        assert client.counts["get resourceclaimtemplates"] == 1
        assert client.counts["get resourceclaims"] == 1
        assert client.counts["get network-attachment-definitions"] == 1
        assert (await reviews.validate(asked)).decision.allowed
        assert client.counts["get resourceclaimtemplates"] == 2  # another review: it may be there by now
        assert client.counts["get resourceclaims"] == 2
