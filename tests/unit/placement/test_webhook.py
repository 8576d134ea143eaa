"""The injector in the chain: which Pods it confines, which it refuses, and what it reports."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.admission.chain import Chain, Injector, MutationPlan
from app.admission.decision import Decision
from app.admission.pods import INJECT, MIRROR
from app.admission.review import GroupVersionKind, UserInfo, decode
from app.errors import Denied, Transient
from app.kube.lookup import Lookup
from app.kube.resources import NETWORK_ATTACHMENTS
from app.kube.store import Store
from app.networks.model import Attachment, project
from app.networks.settings import Switches
from app.networks.webhook import NetworksInjector
from app.placement.model import DPU_OF_HOST, HOST_LABEL, TENANT_LABEL, PlacementOptions
from app.placement.plan import placed
from app.placement.webhook import PlacementInjector
from tests.support.patches import patched
from tests.support.paths import REVIEWS
from tests.support.pod_requests import OTHERS, request_for

from .conftest import (
    HOST,
    IN_HOST,
    IN_TENANT,
    REQUIRED,
    TENANT,
    TERMS,
    ZONE,
    expression,
    spec_with,
    term,
    terms_of,
)

HOST_REASON = f"annotation {DPU_OF_HOST}: host-a"
TENANT_REASON = "namespace tenant-t1 belongs to tenant t1"
NODE = UserInfo("system:node:dpu1", ["system:nodes", "system:authenticated"])


@dataclass
class Tenants:
    """A lookup that knows `tenant-t1` and `default`, and finds what `live` says."""

    live: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def cached(self, namespace: str) -> str | None:
        return {"tenant-t1": "t1", "default": ""}.get(namespace)

    async def find(self, namespace: str) -> str:
        self.asked.append(namespace)
        if namespace not in self.live:
            raise Transient(f"could not read namespace {namespace}")
        return self.live[namespace]


def pod(spec: Any = None, *, labels: Any = None, **annotations: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "labels": labels, "annotations": annotations}, "spec": spec or {"containers": []}}


def on_host(spec: Any = None, **more: Any) -> dict[str, Any]:
    return pod(spec, **({DPU_OF_HOST: "host-a"} | more))


@dataclass
class Run:
    decision: Decision
    plan: MutationPlan
    pod: Any


async def run(
    obj: Any,
    *,
    lookup: Any = None,
    options: PlacementOptions | None = None,
    before: list[Injector] | None = None,
    **fields: Any,
) -> Run:
    """One review through the chain, and the Pod with the patch applied."""
    original = copy.deepcopy(obj)
    chain = Chain(injectors=[*(before or []), PlacementInjector(lookup, options=options)])
    decision, plan = await chain.review(request_for(obj, **fields))
    result = patched(obj, plan.patch) if decision.allowed else obj
    assert obj == original
    return Run(decision, plan, result)


async def test_the_annotation_confines_to_the_dpus_of_the_host() -> None:
    result = await run(on_host())
    assert terms_of(result.pod["spec"]) == [term(IN_HOST)]
    assert result.decision.reason == "Injected"
    assert result.plan.injected == {"affinity": 1}
    assert set(result.plan.patch.reasons) == {HOST_REASON}
    assert result.decision.audit_annotations == {
        "decision": "Injected",
        "affinity": f"{HOST_LABEL}=host-a ({HOST_REASON})",
    }


async def test_the_namespace_confines_to_the_dpus_of_its_tenant() -> None:
    result = await run(pod(), lookup=Tenants(), namespace="tenant-t1")
    assert terms_of(result.pod["spec"]) == [term(IN_TENANT)]
    assert set(result.plan.patch.reasons) == {TENANT_REASON}
    assert result.decision.audit_annotations["affinity"] == f"{TENANT_LABEL}=t1 ({TENANT_REASON})"


async def test_both_come_together_and_equal_what_the_planner_places() -> None:
    spec = spec_with(term(ZONE), {"matchFields": [expression("metadata.name", "In", "n")]})
    result = await run(on_host(spec), lookup=Tenants(), namespace="tenant-t1")
    assert result.pod["spec"] == placed(spec, (HOST, TENANT))
    assert result.plan.injected == {"affinity": 2}
    again = await run(result.pod, lookup=Tenants(), namespace="tenant-t1")
    assert (again.decision.reason, again.decision.operations) == ("NothingMissing", [])


async def test_the_node_labels_are_options() -> None:
    options = PlacementOptions("example.com/host", "example.com/tenant")
    result = await run(on_host(), lookup=Tenants(), namespace="tenant-t1", options=options)
    (one,) = terms_of(result.pod["spec"])
    assert [condition["key"] for condition in one["matchExpressions"]] == ["example.com/host", "example.com/tenant"]


@pytest.mark.parametrize("obj", [pod(), {}, {"metadata": None, "spec": None}, {"metadata": {"annotations": None}}])
async def test_a_pod_that_needs_nothing_leaves_the_plan_untouched(obj: dict[str, Any]) -> None:
    plan = MutationPlan()
    assert PlacementInjector(Tenants()).inject(request_for(obj), plan) is None
    assert PlacementInjector(None).inject(request_for(obj), plan) is None
    assert (plan.patch.operations, plan.reason, plan.message, plan.warnings, plan.audit) == ([], "", "", [], {})


@pytest.mark.parametrize("fields", OTHERS)
async def test_other_requests_leave_the_plan_untouched(fields: dict[str, Any]) -> None:
    plan = MutationPlan()
    request = request_for(on_host({"nodeName": "n"}), namespace="tenant-t1", **fields)
    assert PlacementInjector(Tenants()).inject(request, plan) is None
    assert (plan.patch.operations, plan.reason) == ([], "")


@pytest.mark.parametrize("fields", [{"dry_run": True}, {"kind": GroupVersionKind()}, {"name": ""}])
async def test_dry_runs_and_terse_reviews_are_confined_too(fields: dict[str, Any]) -> None:
    obj = {"metadata": {"generateName": "p-"}, "spec": {}}
    result = await run(obj, lookup=Tenants(), namespace="tenant-t1", **fields)
    assert terms_of(result.pod["spec"]) == [term(IN_TENANT)]


async def test_the_namespace_of_the_request_is_believed() -> None:
    """The object's own counts only where the request has none; without both nothing can be told, and it is refused."""
    obj = pod()
    obj["metadata"]["namespace"] = "default"
    assert (await run(obj, lookup=Tenants(), namespace="tenant-t1")).decision.reason == "Injected"
    obj["metadata"]["namespace"] = "tenant-t1"
    assert (await run(obj, lookup=Tenants(), namespace="")).decision.reason == "Injected"
    assert (await run(pod(), lookup=Tenants(), namespace="")).decision.reason == "BadNamespace"


async def test_a_namespace_that_the_cache_lacks_is_looked_up() -> None:
    tenants = Tenants({"new": "t1", "nobodys": ""})
    result = await run(pod(), lookup=tenants, namespace="new")
    assert terms_of(result.pod["spec"]) == [term(IN_TENANT)]
    assert (await run(pod(), lookup=tenants, namespace="nobodys")).decision.operations == []
    assert tenants.asked == ["new", "nobodys"]


@pytest.mark.parametrize("obj", [pod(), pod(labels={INJECT: "false"}), pod(**{MIRROR: "x"})])
async def test_a_namespace_that_cannot_be_told_is_no_decision(obj: dict[str, Any]) -> None:
    """Never unconfined: the API server asks again, or refuses."""
    with pytest.raises(Transient, match="could not read namespace gone"):
        await run(obj, lookup=Tenants(), namespace="gone")


@pytest.mark.parametrize("namespace", ["..", "a/b", "A", "a" * 64])
async def test_a_crafted_namespace_reads_nothing(namespace: str) -> None:
    tenants = Tenants()
    assert (await run(pod(), lookup=tenants, namespace=namespace)).decision.reason == "BadNamespace"
    assert tenants.asked == []


@pytest.mark.parametrize(("lookup", "options"), [(None, None), (Tenants(), PlacementOptions(tenant_node_label=""))])
async def test_confinement_can_be_off(lookup: Any, options: PlacementOptions | None) -> None:
    """Without a lookup, and without a label to go by; the annotation counts all the same."""
    for namespace in ("tenant-t1", "gone"):
        result = await run(on_host(), lookup=lookup, options=options, namespace=namespace)
        assert terms_of(result.pod["spec"]) == [term(IN_HOST)]


@pytest.mark.parametrize("value", ["false", "False"])
@pytest.mark.parametrize("where", ["label", "annotation"])
async def test_an_opt_out_frees_from_the_host_alone(where: str, value: str) -> None:
    """What confines a tenant is not the tenant's to give up."""
    obj = on_host(labels={INJECT: value}) if where == "label" else on_host(**{INJECT: value})
    free = await run(obj, lookup=Tenants())
    assert (free.decision.reason, free.decision.operations) == ("OptedOut", [])
    assert f"{where} {INJECT}" in free.decision.message
    confined = await run(obj, lookup=Tenants(), namespace="tenant-t1")
    assert terms_of(confined.pod["spec"]) == [term(IN_TENANT)]
    assert (confined.decision.reason, confined.decision.message) == ("Injected", "")


@pytest.mark.parametrize("value", ["true", "", None, "no"])
async def test_other_words_are_no_opt_out(value: str | None) -> None:
    assert (await run(on_host(labels={INJECT: value}))).decision.reason == "Injected"


async def test_static_pods_of_kubelets_run_already() -> None:
    """The annotation frees from the host; from the tenant only a kubelet's own Pod is free, others are refused."""
    mirror = on_host({"nodeName": "dpu1"}, **{MIRROR: "hash"})
    assert (await run(mirror, lookup=Tenants())).decision.reason == "MirrorPod"
    kubelet = await run(mirror, lookup=Tenants(), namespace="tenant-t1", user_info=NODE)
    assert (kubelet.decision.allowed, kubelet.decision.operations) == (True, [])
    forged = await run(mirror, lookup=Tenants(), namespace="tenant-t1", user_info=UserInfo("tenant", ["tenants"]))
    assert forged.decision.reason == "PlacementContradiction"
    plain = await run(pod(), lookup=Tenants(), namespace="tenant-t1", user_info=NODE)
    assert terms_of(plain.pod["spec"]) == [term(IN_TENANT)]


async def test_a_contradiction_is_denied_with_all_that_is_wrong() -> None:
    spec = spec_with(
        term(expression(TENANT_LABEL, "In", "t2")), term(IN_HOST), nodeName="n", nodeSelector={HOST_LABEL: "host-b"}
    )
    result = await run(on_host(spec), lookup=Tenants(), namespace="tenant-t1")
    assert (result.decision.allowed, result.decision.reason, result.decision.code) == (
        False,
        "PlacementContradiction",
        422,
    )
    message = result.decision.message
    assert message.startswith(
        f"the Pod contradicts where it has to run ({HOST_REASON}; {TENANT_REASON}): spec.nodeName"
    )
    for path in (f"spec.nodeSelector[{HOST_LABEL}]", f"{TERMS}[0].matchExpressions[0]"):
        assert path in message


async def test_a_long_list_of_contradictions_is_cut() -> None:
    spec = spec_with(*[term(expression(TENANT_LABEL, "DoesNotExist"))] * 500)
    message = (await run(pod(spec), lookup=Tenants(), namespace="tenant-t1")).decision.message
    assert message.endswith("; and 490 more")
    assert len(message) < 5000


@pytest.mark.parametrize("value", ["", None, "host a", "x" * 64])
async def test_a_host_that_no_label_can_name_is_denied(value: str | None) -> None:
    result = await run(on_host(**{DPU_OF_HOST: value}))
    assert result.decision.reason == "PlacementContradiction"
    assert f"annotation {DPU_OF_HOST}: " in result.decision.message
    assert f"label {HOST_LABEL}: " in result.decision.message


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b'{"metadata": []}',
        b'{"metadata": {"annotations": {"a": 1}}}',
        b'{"metadata": {}, "spec": []}',
        b'{"spec": {"affinity": {"nodeAffinity": {"%s": {"nodeSelectorTerms": {}}}}}}' % REQUIRED.encode(),
        b"[" * 100_000,
    ],
)
async def test_what_is_no_pod_is_denied(text: bytes) -> None:
    with pytest.raises(Denied) as caught:
        PlacementInjector(Tenants()).inject(
            request_for(None, namespace="tenant-t1", object=msgspec.Raw(text)), MutationPlan()
        )
    assert (caught.value.reason, caught.value.code) == ("UnreadablePod", 400)


async def test_it_has_the_last_word_over_an_injector_that_found_nothing_to_do() -> None:
    """A Pod without networks is confined, and the outcome does not say that nothing was injected."""
    attachments: Store[Attachment] = Store(lambda _: None)
    lookup = Lookup(
        NETWORK_ATTACHMENTS, attachments, lambda obj: project(obj, ()), client=lambda: None, called="attachment"
    )
    networks = NetworksInjector(lookup, switches=Switches)
    result = await run(pod(), lookup=Tenants(), namespace="tenant-t1", before=[networks])
    assert (result.decision.reason, result.decision.message) == ("Injected", "")
    free = await run(pod(), lookup=Tenants(), before=[networks])
    assert free.decision.reason == "NoNetworks"


@pytest.mark.parametrize("path", sorted(REVIEWS.glob("*.json")), ids=lambda path: path.stem)
def test_reviews_of_a_real_api_server(path: Path) -> None:
    """Each Pod is left alone in a namespace of nobody's, and confined in a tenant's."""
    request = decode(path.read_bytes()).request
    plan = MutationPlan()
    assert PlacementInjector(Tenants({})).inject(msgspec.structs.replace(request, namespace="default"), plan) is None
    assert plan.patch.operations == []
    plan = MutationPlan()
    PlacementInjector(Tenants({})).inject(msgspec.structs.replace(request, namespace="tenant-t1"), plan)
    obj = json.loads(bytes(request.object))
    assert patched(obj, plan.patch)["spec"] == placed(obj["spec"], (TENANT,))
