"""The largest reviews that the bounds let through, of each kind: decided in slices, others are answered in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from app.admission.endpoint import ReviewEndpoint
from app.admission.parts import Context, ReviewCaches, chains
from app.pace import Pace, at_pace, pacing, step
from app.registry import parts_of, settings_of
from app.serving.memory import SMALL
from tests.support.rmd_reviews import filled
from tests.unit.admission.conftest import Caller, Recorder, make_review

JSON = dict[str, Any]
TEMPLATE = {"spec": {"containers": [{"name": f"c{n}", "image": "i"} for n in range(5000)]}}


def custom(group: str, version: str, kind: str, spec: Any, **more: Any) -> JSON:
    """The review of an object of a custom kind."""
    metadata = {"name": "a", "namespace": "team", "uid": "u"}
    obj = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": metadata, "spec": spec}
    status = {"status": more.pop("status")} if "status" in more else {}
    names = {"group": group, "version": version, "kind": kind}
    return make_review(obj=obj | status, kind=names, resource={}, name="a", **more)


def app_wrapper(pod_sets: int, **more: Any) -> JSON:
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, **TEMPLATE}
    component = {"template": template, "podSets": [{"path": "template"}] * pod_sets}
    return custom("workload.codeflare.dev", "v1beta2", "AppWrapper", {"components": [component]}, **more)


def rule(kind: str, **spec: Any) -> JSON:
    expression = {"key": "metadata.resourceName", "operator": "Exists"}
    sources = [{"configMap": {"name": f"c{n}"}} for n in range(6000)]
    pod = {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", "projected": {"sources": sources}}]}
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": pod}
    terms = [{"matchExpressions": [expression]}]
    return custom(
        "workload.infra.universe.nvidia.com",
        "v1alpha1",
        kind,
        {"resourceType": "v1/Pod", "workloadTerms": terms, "template": template, **spec},
    )


def claim_status() -> JSON:
    devices = [
        {
            "driver": "d",
            "pool": "p",
            "device": f"d{n}",
            "networkData": {"interfaceName": f"i{n}", "ips": ["10.0.0.1/24"] * 16},
        }
        for n in range(128)
    ]
    claim = custom("resource.k8s.io", "v1", "ResourceClaim", {}, operation="UPDATE", status={"devices": devices})
    claim["request"]["object"]["metadata"]["annotations"] = {"padding": "x" * SMALL}
    claim["request"] |= {"subResource": "status", "oldObject": {"metadata": {"name": "a", "namespace": "team"}}}
    return claim


KINDS: dict[str, Callable[[], JSON]] = {
    "AppWrapper": lambda: app_wrapper(1),
    "Tenant": lambda: custom(
        "workload.infra.universe.nvidia.com",
        "v1alpha1",
        "Tenant",
        {"identity": {"names": ["a"]}, "hosts": [f"host-{n:058}" for n in range(4096)]},
    ),
    "AdminWorkloadRule": lambda: rule("AdminWorkloadRule", tenantMatch=["*"]),
    "RmdWorkload": lambda: custom(
        "intel.com", "v1alpha1", "RmdWorkload", {"coreIds": [f"{n % 8192:>15}" for n in range(8192)], "policy": "gold"}
    ),
    "NetworkAttachmentDefinition": lambda: custom(
        "k8s.cni.cncf.io",
        "v1",
        "NetworkAttachmentDefinition",
        {"config": json.dumps({"plugins": [{"type": "a"}] * 20_000})},
    ),
    "ResourceClaim": claim_status,
}


async def webhook() -> Caller:
    """With all that a webhook can review, and no cluster."""
    options = {"claims": True, "rmd_backend": "daemon", "appwrappers": True, "insecure": True}
    context = Context(settings_of("webhook").load(options, environment=False), "berth", ReviewCaches())
    chain = chains(parts_of(context), namespace="berth")["validate"]
    await filled(context.caches)
    recorder = Recorder()
    return Caller(ReviewEndpoint("validate", chain, finished=recorder.finished, proven=True), recorder)


@pytest.mark.parametrize("kind", KINDS)
async def test_another_review_is_answered_in_between(kind: str) -> None:
    call, body = await webhook(), json.dumps(KINDS[kind]()).encode()
    assert len(body) > SMALL
    big = asyncio.create_task(call(body))
    pace = call.endpoint.pace
    for _ in range(100):
        if pace.slices >= 2 or big.done():
            break
        await asyncio.sleep(0)
    assert not big.done(), "it was decided in one slice"
    small = await call(json.dumps(make_review()).encode())
    assert (small.status, small.response["allowed"], big.done()) == (200, True, False)
    answer = await big
    assert answer.response.get("status", {}).get("reason") != "InternalError"


class Endless:
    """A check that never ends, but for its steps; and an injector."""

    name = "endless"

    def check(self, request: Any, _plan: Any) -> None:
        while request.name == "big":
            step()

    inject = check


async def test_the_deadline_ends_a_review_that_computes(calling, review) -> None:
    call = calling(checks=[Endless()], deadline=0.1)
    answer = await call(json.dumps(review(name="big", padding="x" * SMALL)).encode())
    assert (answer.status, answer.response["status"]["reason"]) == (500, "DeadlineExceeded")


class Waiting:
    name = "waiting"

    async def inject(self, _request: Any, _plan: Any) -> None:
        await asyncio.sleep(0)


async def test_the_deadline_ends_what_computes_behind_what_waits(calling, review) -> None:
    call = calling(injectors=[Waiting(), Endless()], deadline=0.1)
    answer = await call(json.dumps(review(name="big", padding="x" * SMALL)).encode())
    assert (answer.status, answer.response["status"]["reason"]) == (500, "DeadlineExceeded")


class Afterwards:
    """What a part computes when the answer that it waited for has come."""

    name = "afterwards"

    async def inject(self, request: Any, _plan: Any) -> None:
        await asyncio.sleep(0)
        await at_pace(lambda: Endless().check(request, None))


async def test_the_deadline_ends_what_computes_after_it_has_waited(calling, review) -> None:
    call = calling(injectors=[Afterwards()], deadline=0.1)
    answer = await call(json.dumps(review(name="big", padding="x" * SMALL)).encode())
    assert (answer.status, answer.response["status"]["reason"]) == (500, "DeadlineExceeded")


async def test_without_a_pace_work_runs_at_once() -> None:
    assert await at_pace(lambda: 7) == 7
    pace = Pace()
    with pacing(pace):
        assert await at_pace(lambda: 7) == 7
    assert pace.slices == 1
    assert await at_pace(lambda: 7) == 7
    assert pace.slices == 1
