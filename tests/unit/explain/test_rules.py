"""Rules are compared with the workloads of the manifests, term by term; UVS objects say what they make."""

from __future__ import annotations

import json
from typing import Any

from app.explain.answer import Answer, lines
from app.explain.explaining import explain
from app.explain.rehearsal import Rehearsal
from app.registry import settings_of
from tests.support.explaining import given

TEMPLATE = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}
ZEROS = "00000000-0000-0000-0000-000000000000"


async def answered(*objects: dict[str, Any]) -> Answer:
    settings = settings_of("webhook").load({"confine_tenants": True}, environment=False)
    return await explain(given(*objects), Rehearsal(settings, "kube-system"))


def text(answer: Answer) -> list[str]:
    return [line.text for line in lines(answer, "text")]


def pod(name: str, namespace: str = "default", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, **more.pop("metadata", {})}
    spec = {"containers": [{"name": "c", "image": "i"}], **more.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **more}


def rule(
    *terms: list[tuple[str, str, list[str]]], kind: str = "WorkloadRule", namespace: str = "universe", **spec: Any
) -> dict[str, Any]:
    written = [
        {"matchExpressions": [{"key": k, "operator": o, **({"values": v} if v else {})} for k, o, v in term]}
        for term in terms
    ]
    group = "workload.universe.nvidia.com" if kind == "WorkloadRule" else "workload.infra.universe.nvidia.com"
    return {
        "apiVersion": f"{group}/v1alpha1",
        "kind": kind,
        "metadata": {"name": "r", "namespace": namespace},
        "spec": {"resourceType": "v1/Pod", "workloadTerms": written, "template": TEMPLATE, **spec},
    }


NAMED = ("metadata.resourceName", "In", ["web"])


async def test_what_matches_and_what_keeps_the_others_out() -> None:
    answer = await answered(
        rule(
            [NAMED, ('state.extra.labels."app.io/tier"', "In", ["front", "back"])], [("state.nodeName", "Exists", [])]
        ),
        pod("web", metadata={"labels": {"app.io/tier": "back"}}),
        pod("web", "other", metadata={"labels": {"app.io/tier": "data"}}),
        pod("db"),
    )
    assert text(answer)[3:-1] == [
        "WorkloadRule universe/r (f:1): matches 1 of 3 workloads",
        "  Pod default/web (f:2): matches by workloadTerms[0]",
        f"    companion tenant-TENANT/r-{ZEROS} on any DPU of the tenant",
        "  Pod other/web (f:3): does not match",
        "    workloadTerms[0]: state.extra.labels.\"app.io/tier\" In back, front: is 'data'",
        "    workloadTerms[1]: state.nodeName Exists: has no value before it runs",
        "  Pod default/db (f:4): does not match",
        "    workloadTerms[0]: metadata.resourceName In web: is 'db'",
        '    workloadTerms[0]: state.extra.labels."app.io/tier" In back, front: has no value',
        "    workloadTerms[1]: state.nodeName Exists: has no value before it runs",
    ]
    assert not answer.failed


async def test_the_companion_of_a_pod_that_runs_is_on_the_dpu_of_its_host() -> None:
    injected = [
        {"workloadKey": "state.nodeName", "asAnnotation": {"name": "node"}},
        {"workloadKey": "state.extra.labels.none", "asAnnotation": {"name": "absent"}},
    ]
    running = pod("web", metadata={"uid": "u1"}, spec={"nodeName": "host-a"})
    answer = await answered(
        rule([NAMED], dpuSelectionPolicy="SameNode", workloadInfoInject=injected), running, pod("web", "ns")
    )
    assert text(answer)[2:-1] == [
        "WorkloadRule universe/r (f:1): matches 2 of 2 workloads",
        "  Pod default/web (f:2): matches by workloadTerms[0]",
        "    companion tenant-TENANT/r-u1 on a DPU of host host-a",
        "      annotation node: host-a",
        "      annotation absent: left out, its key has no value",
        "  Pod ns/web (f:3): matches by workloadTerms[0]",
        "    no companion (NoNode): the workload has no node yet",
    ]
    (one,) = answer.rules
    assert one.matches[0].outcome.manifest["metadata"]["annotations"]["node"] == "host-a"  # type: ignore[union-attr]


async def test_templates_and_wrapped_pods_are_workloads_too() -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": template}}
    ray = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ray"},
        "spec": {"headGroupSpec": {"template": template}},
    }
    finished = pod("done", metadata={"labels": {"app": "x"}}, status={"phase": "Succeeded"})
    answer = await answered(rule([("state.extra.labels.app", "In", ["x"])]), web, ray, finished)
    (one,) = answer.rules
    assert [match.seen.title for match in one.matches] == [
        "Deployment default/web (f:2)",
        "RayCluster default/ray spec.headGroupSpec.template (f:3)",
    ]
    assert one.missed == 0


async def test_rules_of_the_infra_cluster_see_workloads_of_their_tenants() -> None:
    workloads = [
        {
            "apiVersion": "workload.infra.universe.nvidia.com/v1alpha1",
            "kind": "Workload",
            "metadata": {"name": f"workload-{tenant}", "namespace": f"tenant-{tenant}"},
            "spec": {"metadata": {"id": tenant, "resourceName": "web"}, "state": {"ready": True}},
        }
        for tenant in ("t1", "t2")
    ]
    of_tenant = rule([NAMED], kind="TenantWorkloadRule", namespace="tenant-t1")
    of_admin = rule([NAMED], kind="AdminWorkloadRule", tenantMatch=["t2"])
    of_all = rule([NAMED], kind="AdminWorkloadRule", tenantMatch=["*"])
    answer = await answered(of_tenant, of_admin, of_all, *workloads)
    assert [[match.seen.reference["namespace"] for match in one.matches] for one in answer.rules] == [
        ["tenant-t1"],
        ["tenant-t2"],
        ["tenant-t1", "tenant-t2"],
    ]
    said = text(answer)
    assert "    companion tenant-t1/r-t1 on any DPU of the tenant" in said
    assert "    companion universe/r-tenant-t2-t2 on any node that its template allows" in said


async def test_a_workload_that_cannot_be_used_is_a_finding() -> None:
    broken = {
        "apiVersion": "workload.infra.universe.nvidia.com/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "tenant-t1"},
        "spec": {"metadata": {"id": "x"}},
    }
    answer = await answered(rule([NAMED]), broken)
    (finding,) = [one for one in answer.findings if one.severity == "error"]
    assert (finding.reason, finding.manifest and finding.manifest.name) == ("InvalidWorkload", "w")
    assert "must be named workload-x" in finding.message


async def test_a_rule_without_workloads_says_how_it_gets_some() -> None:
    said = text(await answered(rule([NAMED])))
    assert said[0] == (
        "WorkloadRule universe/r (f:1): was compared with no workload: give Pods with -f, or a cluster that has some"
    )


async def test_of_a_rule_that_matches_nothing_the_nearest_workload_comes_first() -> None:
    """Before the workloads that it does not match, of which it is the eleventh."""
    expressions = [("metadata.resourceName", "In", ["web-sevrer"]), ("state.extra.labels.app", "In", ["x"])]
    far = [pod(f"p{number}") for number in range(10)]
    answer = await answered(
        rule([("state.nodeName", "Exists", []), *expressions], expressions), *far, pod("web-server")
    )
    said = text(answer)
    assert said[said.index("WorkloadRule universe/r (f:1): matches 0 of 11 workloads") + 1 :][:3] == [
        "  no workload has 'web-sevrer' as metadata.resourceName; there is 'web-server'",
        (
            "  nearest is Pod default/web-server: 0 of 2 expressions of workloadTerms[1] hold; "
            "metadata.resourceName In web-sevrer: is 'web-server'; state.extra.labels.app In x: has no value"
        ),
        "  Pod default/p0 (f:2): does not match",
    ]
    assert not answer.failed  # it may be to come
    document = json.loads("\n".join(line.text for line in lines(answer, "json")))
    nearest = next(member["nearest"] for member in document["objects"] if member["kind"] == "WorkloadRule")
    assert (nearest["name"], nearest["term"], nearest["held"]) == ("web-server", 1, 0)
    assert [(failed["because"], failed["meant"]) for failed in nearest["failed"]] == [
        ("is 'web-server'", "web-server"),
        ("has no value", ""),
    ]
    matching = await answered(rule([NAMED]), pod("web"), pod("db"))
    assert not any("nearest" in line for line in text(matching))


async def test_a_key_that_no_workload_can_have_is_an_error_with_the_right_one() -> None:
    answer = await answered(rule([("state.extra.labels.app.kubernetes.io/name", "Exists", [])]), pod("web"))
    assert answer.failed  # / is no key
    impossible = ("state.extra.labels.app.kubernetes.io", "Exists", [])
    answer = await answered(rule([impossible]), pod("web"))
    why = 'quote labels with dots: state.extra.labels."app.kubernetes.io"'
    assert f"    workloadTerms[0]: state.extra.labels.app.kubernetes.io Exists: has no value; {why}" in text(answer)
    (finding,) = answer.findings
    assert (finding.severity, finding.reason, finding.message) == (
        "error",
        "ImpossibleKey",
        f"no workload can match: {why}",
    )
    assert finding.field == "spec.workloadTerms[0].matchExpressions[0].key"
    assert answer.failed
    assert answer.rules[0].verdict == f"no workload can match: {finding.field}: {why}"


async def test_a_term_that_holds_for_no_workload_beside_one_that_may_is_a_warning() -> None:
    impossible = ("state.extra.labels.app.kubernetes.io", "Exists", [])
    answer = await answered(rule([NAMED], [impossible]), pod("db"))
    assert not answer.failed
    (finding,) = answer.findings
    assert (finding.severity, finding.message) == (
        "warning",
        (
            "spec.workloadTerms[1].matchExpressions[0].key: Exists holds for no workload: "
            'quote labels with dots: state.extra.labels."app.kubernetes.io"'
        ),
    )


async def test_a_rule_that_would_be_refused_is_compared_with_nothing() -> None:
    answer = await answered(rule([("metadata.resourceName", "Is", ["web"])]), pod("web"))
    (one,) = answer.rules
    assert one.refused.startswith("spec.workloadTerms[0].matchExpressions[0].operator: must be one of")
    assert (one.matched, one.missed, answer.failed, answer.summary["refused"]) == (0, 0, True, 1)
    assert sum("must be one of" in line for line in text(answer)) == 1


async def test_many_workloads_are_counted_and_shown_in_part() -> None:
    answer = await answered(rule([NAMED]), *(pod(f"p{number}") for number in range(30)))
    said = text(answer)
    assert "WorkloadRule universe/r (f:1): matches 0 of 30 workloads" in said
    assert "  … and 20 more that do not match" in said


def uvs(kind: str, manifest: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.universe.nvidia.com/v1alpha1",
        "kind": f"UVS{kind}",
        "metadata": {"name": "x", "namespace": "universe", **metadata},
        "spec": {"object": {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, **manifest}},
    }


async def test_a_uvs_object_says_what_it_makes() -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    applied = {"kubectl.kubernetes.io/last-applied-configuration": '{"stringData":{"a":"secret-value"}}'}
    secret = {"metadata": {"name": "x", "annotations": applied}, "stringData": {"a": "secret-value"}}
    answer = await answered(uvs("Pod", {"spec": spec}), uvs("Secret", secret))
    said = text(answer)
    assert said[0] == ("UVSPod universe/x (f:1): makes Pod tenant-TENANT/x in the infra cluster, on DPUs of the tenant")
    assert any("key: berth.dev/tenant" in line for line in said)
    assert "UVSSecret universe/x (f:2): makes Secret tenant-TENANT/x in the infra cluster" in said
    document = "\n".join(line.text for line in lines(answer, "json"))
    assert '"nodeAffinity"' in document
    assert "secret-value" not in document


async def test_uvs_objects_that_would_be_refused_and_mirrors() -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    answer = await answered(
        uvs("Pod", {"spec": {**spec, "hostNetwork": True}}),
        uvs("Pod", {"metadata": {"name": "y"}, "spec": spec}),
        uvs(
            "Pod",
            {"spec": spec},
            labels={"berth.dev/mirror": "true"},
            annotations={"workloadrule.workload.universe.nvidia.com/name": "r"},
        ),
    )
    refused, renamed, mirror = (one.verdict for one in answer.requests)
    assert "would be refused: spec.object.spec.hostNetwork" in refused
    assert renamed == "would be refused: spec.object.metadata.name: 'y' must be equal to metadata.name, 'x'"
    assert mirror == "shows a companion; nothing is made of it"
    assert (answer.summary["refused"], answer.failed) == (2, True)
    assert sum("hostNetwork" in line for line in text(answer)) == 1


async def test_a_field_that_is_misspelt_is_said_once_with_what_was_meant() -> None:
    """The webhook warns of it too, and knows less."""
    template = {**TEMPLATE, "spec": {"containers": [{"name": "c", "image": "i", "comand": []}]}}
    (finding,) = (await answered(rule([NAMED], template=template))).findings
    assert (finding.severity, finding.meant) == ("error", "command")
    assert finding.field == "spec.template.spec.containers[0].comand"
