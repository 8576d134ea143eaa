"""What the annotation `berth.dev/injected` says of operations of every wing, and that it says so once."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import msgspec
import pytest

from app.admission.annotating import InjectedAnnotation
from app.admission.chain import Chain, MutationPlan
from app.admission.injected import INJECTED_BY, summary
from app.admission.review import GroupVersionKind, GroupVersionResource, Request, WholeRequest
from app.wire import encode_json
from tests.support.patches import patched

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "a", "resources": {}}], "volumes": [{"name": "v", "downwardAPI": {"items": []}}]},
}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": {}}}}
EXPRESSION = {"key": "dpu-of", "operator": "In", "values": ["host-a"]}


class Planned:
    """Plans what it is given where the object does not have it yet, as every injector."""

    name = "planned"

    def __init__(self, *operations: tuple[str, Any]) -> None:
        self._operations = operations

    def inject(self, request: Request, plan: MutationPlan) -> None:
        if INJECTED_BY in request.metadata.annotations:
            return
        for path, value in self._operations:
            if value in ({}, []):
                plan.patch.ensure(path, value, present=False, reason="r")
            else:
                plan.patch.add(path, value, reason="r")


def request(obj: Any, operation: str = "CREATE") -> WholeRequest:
    group, _, version_ = obj["apiVersion"].rpartition("/")
    kind = obj["kind"]
    return WholeRequest(
        uid="u",
        kind=GroupVersionKind(group, version_, kind),
        resource=GroupVersionResource(group, version_, f"{kind.lower()}s"),
        namespace="default",
        operation=operation,
        object=msgspec.Raw(encode_json(obj)),
    )


async def reviewed(obj: Any, *operations: tuple[str, Any], operation: str = "CREATE") -> Any:
    chain = Chain(injectors=[Planned(*operations), InjectedAnnotation()])
    decision, plan = await chain.review(request(obj, operation))
    assert decision.allowed, decision.message
    return patched(obj, plan.patch)


def said(obj: Any) -> Any:
    text = obj["metadata"].get("annotations", {}).get(INJECTED_BY)
    return None if text is None else json.loads(text)


@pytest.mark.parametrize(
    ("obj", "operations", "parts"),
    [
        (POD, [], None),
        (POD, [("/spec/nodeSelector", {"disk": "nvme"})], {"nodeSelector": {"disk": "nvme"}}),
        (
            POD,
            [("/spec/containers/0/resources/limits", {}), ("/spec/containers/0/resources/limits/a.b~1c", "2")],
            {"resources": {"a.b/c": "2"}},
        ),
        (
            POD,
            [
                ("/spec/resourceClaims", [{"name": "net-0", "resourceClaimTemplateName": "t"}]),
                ("/spec/containers/0/resources/claims", [{"name": "net-0"}]),
            ],
            {"claims": ["net-0"]},
        ),
        (
            POD,
            [
                (
                    "/spec/affinity",
                    {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]
                            }
                        }
                    },
                )
            ],
            {"placement": {"dpu-of": "host-a"}},
        ),
        (
            POD,
            [("/metadata/annotations", {}), ("/metadata/annotations/rdt.io~1container.a", "gold")],
            {"annotations": ["rdt.io/container.a"]},
        ),
        (
            POD,
            [("/spec/containers/0/env", []), ("/spec/containers/0/env/-", {"name": "CONTAINER_NAME", "value": "a"})],
            {"env": ["CONTAINER_NAME"]},
        ),
        (
            POD,
            [("/spec/volumes/0/downwardAPI/items/-", {"path": "labels"})],
            {"fields": ["/spec/volumes/0/downwardAPI/items"]},
        ),
        (
            JOB,
            [("/spec/template/spec/resourceClaims", [{"name": "net-0", "resourceClaimTemplateName": "t"}])],
            {"claims": ["net-0"]},
        ),
        (
            JOB | {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper"},
            [("/spec/suspend", True), ("/metadata/labels", {"q~": "x"})],
            {"fields": ["/metadata/labels/q~0", "/spec/suspend"]},
        ),
    ],
)
async def test_every_kind_is_named_and_a_second_pass_changes_nothing(obj: Any, operations: Any, parts: Any) -> None:
    changed = await reviewed(obj, *operations)
    shown = said(changed)
    if parts is None:
        assert shown is None
        return
    assert shown.pop("version") == version("berth")
    assert {kind: sorted(names) if isinstance(names, list) else names for kind, names in shown.items()} == parts
    assert await reviewed(changed, *operations) == changed


async def test_an_update_says_what_it_adds_and_what_was_there_is_left_alone() -> None:
    """Whoever may change an object may write what he likes into it: the annotation is no proof."""
    forged = {**POD, "metadata": {"name": "p", "annotations": {INJECTED_BY: "forged"}}}
    assert await reviewed(forged, operation="UPDATE") == forged
    assert said(await reviewed(forged)) is None


async def test_the_value_is_bounded() -> None:
    many = {f"label-{number:04}": "x" for number in range(1000)}
    changed = await reviewed(POD, ("/spec/nodeSelector", many))
    assert len(said(changed)["nodeSelector"]) == 64
    assert await reviewed(changed) == changed


def test_a_summary_is_one_short_line() -> None:
    value = {"version": "1", "resources": {"a": "1", "b": "2"}, "volumes": ["v"]}
    assert summary({INJECTED_BY: json.dumps(value)}) == "Berth 1: resources a=1, b=2; volumes v"
    assert summary({}) == summary({INJECTED_BY: None}) == summary({INJECTED_BY: "x"}) == ""
    assert len(summary({INJECTED_BY: json.dumps({"version": "1", "volumes": ["v" * 5000]})})) <= 1024
