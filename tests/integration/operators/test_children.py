"""What the operators of wrapped kinds make of them is what Berth counts: how many Pods, and what each of them requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from app.kinds.requests import pod_requests
from tests.integration.operators.conftest import Wrappers
from tests.support.appwrappers import pod
from tests.support.kueue_cases import KINDS, pod_sets_of_object
from tests.support.real_parts import needs
from tests.support.waiting import eventually

JSON = dict[str, Any]
Requests = tuple[tuple[str, Any], ...]
pytestmark = needs(
    "jobset", "training-operator", "kuberay", "kube-apiserver", "kube-controller-manager", "kube-scheduler"
)
CLEANED_UP = ("RayCluster: Redis is cleaned up", "RayCluster: fault tolerance by annotation")
"""Kueue counts the Pod that cleans up in place of the head, where it needs more. Deletion waits minutes for that Pod."""
NOT_COUNTED = ("wait-gcs-ready", "init-pytorch")
"""Init containers that KubeRay and the training operator give to workers. Kueue does not count them, nor does Berth."""
REFUSED = "PyTorchJob: names in lower case"
"""By the operator's webhook."""
SETTLED = 2.0
"""Seconds in which an operator that makes too many Pods has made the next."""


def case(name: str) -> JSON:
    """The object with a name of its own."""
    return KINDS[name] | {"metadata": {**KINDS[name]["metadata"], "name": f"c{list(KINDS).index(name)}"}}


def counted(obj: JSON) -> Counter[Requests]:
    """How many Pods there are with these requests."""
    pods: Counter[Requests] = Counter()
    for pod_set in pod_sets_of_object(obj):
        pods[requests(pod_set["template"])] += pod_set["count"]
    return +pods


def requests(body: JSON) -> Requests:
    spec = body["spec"]
    first = [container for container in spec.get("initContainers") or () if container["name"] not in NOT_COUNTED]
    return tuple(sorted(pod_requests({"spec": spec | {"initContainers": first}}).items()))


@pytest.mark.parametrize("name", [name for name in KINDS if name != REFUSED])
async def test_there_are_as_many_pods_as_are_counted_and_with_these_requests(wrappers: Wrappers, name: str) -> None:
    obj = case(name)
    wrapper, wanted = f"w-{obj['metadata']['name']}", counted(obj)
    await wrappers.create(wrapper, obj, *([] if wanted else [pod("beside")]))
    await wrappers.has_pods(wrapper)
    # A RayJob is submitted by one that comes later.
    await eventually(lambda: made_by(wrappers, wrapper), lambda pods: len(pods) >= wanted.total())
    await asyncio.sleep(SETTLED)
    pods = await made_by(wrappers, wrapper)
    if name in CLEANED_UP:
        assert len(pods) == wanted.total()
        await wrappers.delete(wrapper)
    else:
        assert Counter(map(requests, pods)) == wanted, [pod["metadata"]["name"] for pod in pods]
        await wrappers.gone(wrapper)


async def made_by(wrappers: Wrappers, name: str) -> list[JSON]:
    return [pod for pod in await wrappers.pods(name) if pod["metadata"]["name"] != "beside"]
