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
from app.admission.parts import Context, ReviewCaches
from app.admission.review import GroupVersionKind, GroupVersionResource, Request, WholeRequest
from app.appwrappers.model import CREATOR, QUEUE_NAME
from app.kube.names import shorten
from app.networks.model import Attachment, PodNetworks
from app.placement.model import HOST_LABEL, TENANT_LABEL
from app.registry import parts_of, settings_of
from app.wire import encode_json
from tests.support.patches import patched

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "a", "resources": {}}], "volumes": [{"name": "v", "downwardAPI": {"items": []}}]},
}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": {}}}}
NETWORK = Attachment(
    "default", "net", ("a.b/c",), ", ".join(["disk=nvme", *(f"label-{number:04}=x" for number in range(1000))])
)
EXPRESSION = {"key": "dpu-of", "operator": "In", "values": ["host-a"]}


class Planned:
    """Plans what it is given where the object does not have it yet, as every injector."""

    name = "planned"

    def __init__(self, *operations: tuple[str, Any]) -> None:
        self._operations = operations

    def inject(self, request: Request, plan: MutationPlan) -> None:
        if request.creates_pod:
            plan.networks = PodNetworks((("networks", NETWORK),))
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
    chain = Chain(injectors=[Planned(*operations), InjectedAnnotation(lambda _kind, _name: True)])
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
    assert shown.pop("networks", ["default/net"]) == ["default/net"]
    assert {kind: sorted(names) if isinstance(names, list) else names for kind, names in shown.items()} == parts
    assert await reviewed(changed, *operations) == changed


def can_be_injected(kind: str, name: str) -> bool:
    settings = settings_of("webhook").load(
        {"insecure": True, "rmd_backend": "runtime", "claims": True, "appwrappers": True}
    )
    caches = ReviewCaches()
    parts = parts_of(Context(settings, "berth-system", caches))
    for cached in caches.all:
        cached.store.mark_synced()
    return any(part.injects(kind, name) for part in parts)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("resources", "example.com/foo"),
        ("volumes", "podnetinfo"),
        ("env", "CONTAINER_NAME"),
        ("nodeSelector", "disk"),
        ("annotations", "berth.dev/injected-resources"),
        ("annotations", "rdt.resources.beta.kubernetes.io/container.a"),
        ("annotations", CREATOR),
        ("placement", HOST_LABEL),
        ("placement", TENANT_LABEL),
        ("claims", shorten("net-default/a/0")),
        ("fields", "/spec/suspend"),
        ("fields", f"/metadata/labels/{QUEUE_NAME.replace('/', '~1')}"),
        ("fields", "/spec/volumes/0/downwardAPI/items"),
        ("fields", "/spec/template/spec/volumes/0/downwardAPI/items"),
    ],
)
def test_what_wings_inject_survives_another_pass(kind: str, name: str) -> None:
    assert can_be_injected(kind, name)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("resources", "cpu"),
        ("resources", "memory"),
        ("resources", "hugepages-1Gi"),
        ("volumes", "data"),
        ("env", "PATH"),
        ("annotations", "a"),
        ("placement", "topology.kubernetes.io/zone"),
        ("claims", "mine"),
        ("fields", "/spec/containers"),
        ("version", "9"),
        ("removed", "cpu"),
    ],
)
def test_what_no_wing_injects_is_dropped(kind: str, name: str) -> None:
    assert not can_be_injected(kind, name)


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
