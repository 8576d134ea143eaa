"""What one review costs, in numbers that are the same on every machine. They may only become smaller."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from app.admission.chain import Chain, Reviewed
from app.admission.decision import encode
from app.admission.parts import Cached, Context, ReviewCaches, chains
from app.admission.review import decode
from app.kube.resources import NETWORK_ATTACHMENTS
from app.networks.model import RESOURCE_NAME
from app.registry import parts_of, settings_of
from app.wire import JSON
from tests.support.costs import Cost, cost_of
from tests.support.paths import REVIEWS

BOUNDS = {
    "plain": Cost(calls=25, blocks=61, peak=4003),
    "webhook-demo": Cost(calls=41, blocks=67, peak=5633),
    "rich": Cost(calls=49, blocks=130, peak=10689),
}
RESOURCES = {"foo-network": "example.com/foo", "bar-network": "example.com/bar"}
"""What the attachments of the recorded reviews name."""


async def chain_of(**options: Any) -> Chain:
    """The chain of a webhook with these settings, and the attachments of the reviews in its caches."""
    caches = ReviewCaches()
    parts = parts_of(Context(settings_of("webhook")(insecure=True, **options), "berth", caches))

    async def read(cached: Cached) -> AsyncIterator[JSON]:
        for name, resource in RESOURCES.items() if cached.resource == NETWORK_ATTACHMENTS else ():
            yield {"metadata": {"namespace": "default", "name": name, "annotations": {RESOURCE_NAME: resource}}}

    await caches.fill(read)
    return chains(parts, namespace="berth")["mutate"]


def decided(body: bytes, chain: Chain) -> object:
    """All that is made for one review."""
    review = decode(body)
    found = chain.review(review.request)
    assert isinstance(found, Reviewed)
    return review, found, encode(found.decision, api_version=review.api_version, uid=review.request.uid)


def distinct(body: bytes) -> bytes:
    """The review of a Pod with other names, as a webhook has not seen it before."""
    document: JSON = json.loads(body)
    obj = document["request"]["object"]
    document["request"] |= {"uid": "1", "name": "other"}
    obj["metadata"]["name"] = "other"
    for one in obj["spec"]["containers"]:
        one |= {"name": f"other-{one['name']}", "image": "other"}
    return json.dumps(document, separators=(",", ":")).encode()


@pytest.mark.parametrize("name", BOUNDS)
async def test_a_review_takes_no_more_calls_and_memory_than_before(name: str) -> None:
    """With the settings of a webhook that is started with none; the Pod is another than those before it."""
    chain = await chain_of()
    body = (REVIEWS / f"Pod-{name}-CREATE.json").read_bytes()
    decided(body, chain)
    found, bound = cost_of(partial(decided, distinct(body), chain)), BOUNDS[name]
    assert found.calls <= bound.calls
    assert found.blocks <= bound.blocks
    assert found.peak <= bound.peak
