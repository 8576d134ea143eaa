"""What is written in a tenant's namespace: Pods, Pod templates and claims are held to the guards, nothing else is."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import msgspec
import pytest

from app.admission.chain import Chain
from app.admission.decision import Decision
from app.admission.parts import Namespaces
from app.admission.review import GroupVersionKind, UserInfo, WholeRequest
from app.errors import Transient
from app.kube.lookup import Lookup
from app.kube.resources import NAMESPACES
from app.kube.store import Store
from app.placement.model import TenantPolicy, parse_policy, tenant_of
from app.workloads.tenant_pods import CLAIMS, TEMPLATES, TenantPodCheck

JSON = dict[str, Any]
NS = "tenant-t1"
EVIL: JSON = {
    "containers": [{"name": "c", "image": "nginx"}],
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/os",
                    "namespaceSelector": {},
                    "labelSelector": {"matchExpressions": [{"key": "evil", "operator": "DoesNotExist"}]},
                }
            ]
        }
    },
}
CLAIM_OF_A_CLASS: JSON = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
GOOD: JSON = {"containers": [{"name": "c", "image": "nginx"}]}
NODE = UserInfo("system:node:dpu1", ["system:nodes", "system:authenticated"])
TOKEN_VOLUME = {
    "name": "kube-api-access-x7x2p",
    "projected": {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ]
    },
}
AFTER_ADMISSION: JSON = {
    **GOOD,
    "serviceAccountName": "default",
    "serviceAccount": "default",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "priority": 0,
    "preemptionPolicy": "PreemptLowerPriority",
    "volumes": [TOKEN_VOLUME],
}


def namespaces() -> Namespaces[str]:
    """What the webhook has: the cache of namespaces, here with one of a tenant and one of none, and no cluster."""
    store: Store[str] = Store(tenant_of)
    for name, labels in ((NS, {"berth.dev/tenant": "t1"}), ("default", {}), ("tenant-t2", {})):
        store.upsert({"metadata": {"name": name, "labels": labels}})
    return Namespaces(Lookup(NAMESPACES, store, tenant_of, client=lambda: None, called="namespace"))


def written(kind: tuple[str, str], part: Any) -> JSON:
    """An object of this kind that holds `part` where its Pods, or its claims, are specified."""
    obj: JSON = {"metadata": {"name": "o", "namespace": NS}}
    at = obj
    *above, last = (CLAIMS.get(kind) or TEMPLATES[kind]).split(".")
    for segment in above:
        at = at.setdefault(segment, {})
    at[last] = copy.deepcopy(part)
    return obj


async def review(
    obj: Any,
    kind: tuple[str, str] = ("", "Pod"),
    *,
    old: Any = None,
    namespace: str = NS,
    policy: TenantPolicy | None = None,
    lookup: Any = "namespaces",
    **fields: Any,
) -> Decision:
    request = WholeRequest(
        uid="1",
        kind=GroupVersionKind(kind[0], "v1", kind[1]),
        namespace=namespace,
        object=msgspec.Raw(json.dumps(obj).encode()),
        old_object=msgspec.Raw(json.dumps(old).encode()),
        **({"operation": "UPDATE" if old is not None else "CREATE"} | fields),
    )
    check = TenantPodCheck(namespaces() if lookup == "namespaces" else lookup, policy or TenantPolicy())
    decision, _ = await Chain(checks=[check]).review(request)
    return decision


@pytest.mark.parametrize("kind", sorted(TEMPLATES), ids="/".join)
async def test_every_kind_with_a_pod_template_is_held_to_the_guards(kind: tuple[str, str]) -> None:
    assert (await review(written(kind, GOOD), kind)).allowed
    decision = await review(written(kind, EVIL), kind)
    assert (decision.allowed, decision.reason) == (False, "TenantIsolation")
    where = f"{TEMPLATES[kind]}.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
    assert f"{where}.namespaceSelector: " in decision.message
    assert f"{where}.topologyKey: " in decision.message


@pytest.mark.parametrize("kind", sorted(TEMPLATES), ids="/".join)
async def test_an_annotation_for_pods_on_their_owner_is_a_warning(kind: tuple[str, str]) -> None:
    """The most common mistake of all. Outside tenants' namespaces these kinds are not reviewed; `explain` says it."""
    obj = written(kind, GOOD)
    obj["metadata"]["annotations"] = {"k8s.v1.cni.cncf.io/networks": "a"}
    decision = await review(obj, kind)
    home = f"{TEMPLATES[kind].removesuffix('.spec')}.metadata.annotations"
    said = f"metadata.annotations[k8s.v1.cni.cncf.io/networks]: read on Pods alone: put it into {home}"
    assert (decision.allowed, list(decision.warnings)) == (True, [] if kind == ("", "Pod") else [said])
    assert not (await review(obj, kind, namespace="default")).warnings


@pytest.mark.parametrize("kind", sorted(TEMPLATES), ids="/".join)
async def test_a_template_has_no_priority_of_its_own(kind: tuple[str, str]) -> None:
    """Of a Pod the Priority admission plugin has written it before; a template with it is accepted and never runs."""
    spec = GOOD | {"priority": 2_000_000_000, "preemptionPolicy": "Never"}
    decision = await review(written(kind, spec), kind)
    assert decision.allowed is (kind == ("", "Pod"))
    if not decision.allowed:
        assert f"{TEMPLATES[kind]}.priority: " in decision.message
        assert f"{TEMPLATES[kind]}.preemptionPolicy: " in decision.message


@pytest.mark.parametrize("namespace", ["tenant-t1", "tenant-t2"])
async def test_a_namespace_is_a_tenants_by_its_label_or_its_name(namespace: str) -> None:
    assert not (await review(written(("", "Pod"), EVIL), namespace=namespace)).allowed


async def test_other_namespaces_and_other_objects_are_left_alone() -> None:
    assert (await review(written(("", "Pod"), EVIL), namespace="default")).allowed
    assert (await review({"spec": EVIL}, ("", "Service"))).allowed
    assert (await review({"spec": EVIL}, ("example.com", "Pod"))).allowed
    assert (await review(written(("", "Pod"), EVIL), sub_resource="status")).allowed
    assert (await review(None, old=written(("", "Pod"), EVIL), operation="DELETE")).allowed
    assert (await review(written(("", "Pod"), EVIL), lookup=None)).allowed


@pytest.mark.parametrize("names", [[NS], [NS, "universe"], ["universe"]], ids=",".join)
async def test_no_term_names_namespaces(names: list[str]) -> None:
    """The quota of the namespace refuses a Pod that names its own, too: its template would be taken and never run."""
    spec = copy.deepcopy(EVIL)
    (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    term |= {"topologyKey": "kubernetes.io/hostname", "namespaces": []}
    del term["namespaceSelector"]
    assert (await review(written(("", "Pod"), spec))).allowed
    term["namespaces"] = names
    assert ".namespaces: " in (await review(written(("", "Pod"), spec))).message


async def test_what_admission_plugins_write_passes() -> None:
    assert (await review(written(("", "Pod"), AFTER_ADMISSION))).allowed


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"serviceAccountName": "builder"}, "spec.serviceAccountName"),
        ({"automountServiceAccountToken": True}, "spec.automountServiceAccountToken"),
        ({"volumes": [{**TOKEN_VOLUME, "name": "mine"}]}, "spec.volumes[0].projected.sources[0].serviceAccountToken"),
        ({"nodeName": "dpu1"}, "spec.nodeName"),
    ],
)
async def test_what_they_do_not_write_does_not(change: JSON, path: str) -> None:
    decision = await review(written(("", "Pod"), AFTER_ADMISSION | change))
    assert f"{path}: " in decision.message


async def test_token_for_another_audience_is_refused_in_the_volume_of_the_plugin() -> None:
    volume = copy.deepcopy(TOKEN_VOLUME)
    volume["projected"]["sources"][0]["serviceAccountToken"]["audience"] = "vault"
    assert "serviceAccountToken: " in (await review(written(("", "Pod"), {**GOOD, "volumes": [volume]}))).message


async def test_updates_that_change_something_else_pass_so_that_a_pod_from_before_can_end() -> None:
    old = written(("", "Pod"), EVIL | {"nodeName": "dpu1"})
    labeled = copy.deepcopy(old) | {"metadata": {"name": "o", "labels": {"a": "b"}}}
    assert (await review(labeled, old=old)).allowed
    changed = copy.deepcopy(old)
    changed["spec"]["containers"][0]["image"] = "nginx:2"
    assert not (await review(changed, old=old)).allowed


@pytest.mark.parametrize("kind", sorted({**TEMPLATES, **CLAIMS}), ids="/".join)
async def test_an_object_that_is_being_deleted_is_checked_like_others(kind: tuple[str, str]) -> None:
    """Its finalizers can be removed, and the API server can set how long its end takes."""
    old = written(kind, EVIL if kind in TEMPLATES else CLAIM_OF_A_CLASS)
    old["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/x"]}
    ended = copy.deepcopy(old)
    ended["metadata"] |= {"deletionGracePeriodSeconds": 0, "finalizers": []}
    assert (await review(ended, kind, old=old)).allowed
    harmless = written(kind, GOOD if kind in TEMPLATES else {})
    assert not (await review(ended, kind, old=harmless)).allowed


async def test_an_ephemeral_container_of_a_pod_that_is_being_deleted_is_checked() -> None:
    old = written(("", "Pod"), AFTER_ADMISSION | {"nodeName": "dpu1"})
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    new = copy.deepcopy(old)
    new["spec"]["ephemeralContainers"] = [{"name": "d", "image": "i", "securityContext": {"privileged": True}}]
    message = (await review(new, old=old, sub_resource="ephemeralcontainers")).message
    assert "spec.ephemeralContainers[0].securityContext.privileged: " in message


async def test_ephemeral_containers_are_added_to_a_pod_that_runs() -> None:
    old = written(("", "Pod"), AFTER_ADMISSION | {"nodeName": "dpu1"})
    new = copy.deepcopy(old)
    new["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "busybox"}]
    assert (await review(new, old=old, sub_resource="ephemeralcontainers")).allowed
    new["spec"]["ephemeralContainers"][0]["securityContext"] = {"privileged": True}
    message = (await review(new, old=old, sub_resource="ephemeralcontainers")).message
    assert "spec.ephemeralContainers[0].securityContext.privileged: " in message


async def test_only_a_kubelet_can_show_a_static_pod() -> None:
    static = written(("", "Pod"), EVIL | {"nodeName": "dpu1"})
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert (await review(static, user_info=NODE)).allowed
    assert not (await review(static)).allowed


@pytest.mark.parametrize("kind", sorted(CLAIMS), ids="/".join)
@pytest.mark.parametrize(
    ("request_", "path"),
    [
        ({"exactly": {"deviceClassName": "gpu"}}, "exactly.deviceClassName"),
        ({"firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}, "firstAvailable[0].deviceClassName"),
        ({"deviceClassName": "gpu"}, "deviceClassName"),
        ({"exactly": {"deviceClassName": "ok", "adminAccess": True}}, "exactly.adminAccess"),
    ],
)
async def test_claims_name_device_classes_that_are_allowed(kind: tuple[str, str], request_: JSON, path: str) -> None:
    obj = written(kind, {"devices": {"requests": [{"name": "r", **request_}]}})
    decision = await review(obj, kind, policy=parse_policy(["deviceClass=ok"]))
    assert f"{CLAIMS[kind]}.devices.requests[0].{path}: " in decision.message
    if path.endswith("deviceClassName"):  # a request needs one
        assert '"gpu" is not allowed for a tenant; use ok, or leave the request out' in decision.message
    allowed = await review(obj, kind, policy=parse_policy(["deviceClass=ok", "deviceClass=gpu"]))
    assert allowed.allowed is ("adminAccess" not in path)
    # It makes one where a Pod asks for the extended resource of a class (`extendedResourceName`), whatever its name.
    scheduler = UserInfo("system:kube-scheduler", ["system:authenticated"])
    assert not (await review(obj, kind, user_info=scheduler)).allowed


async def test_devices_as_an_extended_resource_need_the_class_too() -> None:
    spec = {"containers": [{"name": "c", "resources": {"limits": {"deviceclass.resource.kubernetes.io/gpu": "1"}}}]}
    message = (await review(written(("", "Pod"), spec))).message
    assert "spec.containers[0].resources.limits[deviceclass.resource.kubernetes.io/gpu]: " in message
    assert (await review(written(("", "Pod"), spec), policy=parse_policy(["deviceClass=gpu"]))).allowed


@pytest.mark.parametrize("obj", [7, "x", [], None, {"spec": 7}, {"spec": {"affinity": [], "volumes": {}}}, {}])
async def test_odd_objects_are_answered(obj: Any) -> None:
    decision = await review(obj)
    assert decision.allowed or decision.reason == "UnreadableObject"


async def test_a_thousand_problems_are_one_short_message() -> None:
    volumes = [{"name": f"v{number}", "nfs": {}} for number in range(1000)]
    message = (await review(written(("", "Pod"), {**GOOD, "volumes": volumes}))).message
    assert message.endswith("and 950 more problems")


async def test_a_namespace_that_cannot_be_read_is_no_decision() -> None:
    with pytest.raises(Transient):
        await review(written(("", "Pod"), GOOD), namespace="unknown")
    await asyncio.sleep(0)
