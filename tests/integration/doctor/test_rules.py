"""Rules, UVS objects, tenants, nodes and companions that are not as they should be, as their statuses tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.doctor.model import Check, Finding, Severity, error, roots, topic, with_causes
from app.kube.resources import DEPLOYMENTS, NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, SERVICE_ACCOUNTS, Resource
from app.networks.checks.pods import CHECK as PODS_CHECK
from app.placement.checks import Dpus
from app.placement.model import HOST_LABEL, TENANT_LABEL
from app.tenancy.checks import TENANTS_CHECK, nodes_and_hosts
from app.tenancy.namespace import bounds_of, ensure_bounds
from app.text import stamp
from app.workloads.checks import COMPANIONS_CHECK, RULES_CHECK
from app.workloads.model import (
    ADMIN_RULES,
    COMPANION,
    TENANT_RULES,
    TENANTS,
    UVS_CONFIG_MAPS,
    UVS_PODS,
    WORKLOAD_RULES,
)
from app.workloads.settings import parse_quota
from tests.integration.doctor.patient import HOME, JSON, Patient

TEMPLATE = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "app", "image": "app"}]}}
SPEC: JSON = {
    "resourceType": "v1/Pod",
    "workloadTerms": [{"matchExpressions": [{"key": "metadata.id", "operator": "Exists"}]}],
    "dpuSelectionPolicy": "Any",
    "template": TEMPLATE,
}


async def rule(patient: Patient, resource: Resource, status: JSON | None, **metadata: JSON) -> None:
    namespace = "tenant-a" if resource == TENANT_RULES else "universe"
    if resource == TENANT_RULES:
        await patient.create(NAMESPACES, "tenant-a", metadata={"labels": {TENANT_LABEL: "a"}})
    spec = {**SPEC, "tenantMatch": ["*"]} if resource == ADMIN_RULES else SPEC
    await patient.create(resource, "one", namespace=namespace, spec=spec, metadata=metadata)
    if status is not None:
        await patient.report(resource, "one", status, namespace=namespace)


def said(result: str, reason: str, message: str = "", **more: object) -> JSON:
    ready = {
        "type": "Ready",
        "status": {"success": "True", "error": "False"}.get(result, "Unknown"),
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        **more,
    }
    return {"result": result, "message": message, "observedGeneration": 1, "conditions": [ready]}


async def one(patient: Patient, check: Check) -> Finding:
    (found,) = await patient.complaints(check)
    return found


async def test_rules_that_do_what_they_say_are_well(patient: Patient) -> None:
    for resource in (ADMIN_RULES, WORKLOAD_RULES):
        await rule(patient, resource, said("success", "AsDesired"))
    (found,) = await patient.examine(RULES_CHECK)
    assert (found.severity, found.message) == (Severity.ok, "2 objects checked: no problem found")


@pytest.mark.parametrize(
    ("resource", "reason", "consequence", "command"),
    [
        (
            ADMIN_RULES,
            "InvalidRule",
            "no workload gets a companion by it",
            "kubectl --namespace universe edit adminworkloadrules.workload.infra.universe.nvidia.com one",
        ),
        (
            TENANT_RULES,
            "QuotaExceeded",
            "workloads that match it are without their companions",
            "kubectl --namespace tenant-a edit resourcequota",
        ),
        (
            WORKLOAD_RULES,
            "InvalidArgument",
            "the infra cluster does not follow the rule as it is written: it has an older one, or none",
            "kubectl --namespace universe edit workloadrules.workload.universe.nvidia.com one",
        ),
    ],
)
async def test_a_rule_in_error(
    patient: Patient, resource: Resource, reason: str, consequence: str, command: str
) -> None:
    await rule(patient, resource, said("error", reason, "spec.template: is\n\x1b[31mwrong"))
    found = await one(patient, RULES_CHECK)
    namespace = "tenant-a" if resource == TENANT_RULES else "universe"
    assert (found.severity, found.subject) == (Severity.error, f"{resource.kind} {namespace}/one")
    assert found.message == f"{reason}: spec.template: is \\u001b[31mwrong"
    assert (found.consequence, found.command) == (consequence, command)


@pytest.mark.parametrize("result", ["error", ""])
async def test_objects_of_an_agent_that_is_cut_off_are_one_finding(patient: Patient, result: str) -> None:
    """It follows from what the check `agent` finds. No change of the objects would help."""
    message = "not connected since 2026-01-01T00:00:00Z because the gateway refuses the agent: no pin"
    await rule(patient, WORKLOAD_RULES, said(result, "NotConnected", message))
    await patient.create(WORKLOAD_RULES, "two", namespace="universe", spec=SPEC)
    await patient.report(WORKLOAD_RULES, "two", said(result, "NotConnected", message), namespace="universe")
    found = await one(patient, RULES_CHECK)
    assert (found.severity, found.code, found.message) == (Severity.error, "BERTH3001", message)
    assert found.subject == "WorkloadRule universe/one, and 1 other"
    assert found.command == f"berth doctor --berth-namespace {HOME} --only agent"
    refused = error("BERTH2101", "Secret a/b", "the gateway refuses", explains=(topic("link", "agent"),))
    assert roots(with_causes([found, refused])) == [refused]


async def test_a_rule_that_an_agent_keeps_is_mended_in_the_tenants_cluster(patient: Patient) -> None:
    await rule(patient, TENANT_RULES, said("error", "InvalidRule", "no"), labels={"berth.dev/rule-owner": "agent"})
    assert (await one(patient, RULES_CHECK)).command == (
        "kubectl --namespace universe edit workloadrules.workload.universe.nvidia.com one --kubeconfig TENANT"
    )


async def test_workloads_that_an_admin_rule_cannot_serve_are_a_warning(patient: Patient) -> None:
    text = "1 of 40 workloads cannot have a companion: QuotaExceeded: tenant a has 2 of 2"
    status = said("success", "AsDesired", text)
    status["conditions"][0]["message"] = f"39 of 40 companions exist; {text}"
    await rule(patient, ADMIN_RULES, status)
    found = await one(patient, RULES_CHECK)
    assert (found.severity, found.subject) == (Severity.warning, "AdminWorkloadRule universe/one")
    assert found.message == text
    assert found.consequence == "these workloads are without their companions; the rule serves the others"
    assert found.command.startswith(
        "kubectl get workloads.workload.infra.universe.nvidia.com --all-namespaces --output "
    )


async def test_a_rule_that_waits_is_information(patient: Patient) -> None:
    await rule(patient, ADMIN_RULES, said("success", "Waiting", "1 of 2 companions exist", status="False"))
    (found,) = await patient.examine(RULES_CHECK)
    assert (found.severity, found.message) == (
        Severity.info,
        "1 of 2 companions exist, since 2026-01-01 00:00 UTC",
    )


async def test_a_rule_that_nobody_looks_at(patient: Patient) -> None:
    await rule(patient, ADMIN_RULES, None)
    assert await patient.complaints(RULES_CHECK) == []
    patient.later = timedelta(minutes=6)
    found = await one(patient, RULES_CHECK)
    assert "has a change that the controller has not processed: no controller was found" in found.message
    assert "--selector app.kubernetes.io/component=controller" in found.command
    labels = {"app": "berth"}
    container = {"name": "controller", "image": "berth", "args": ["controller"]}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    await patient.create(DEPLOYMENTS, "berth-controller", namespace=HOME, spec=spec)
    assert (await one(patient, RULES_CHECK)).command == (
        f"kubectl --namespace {HOME} rollout restart deployment/berth-controller"
    )


async def test_a_rule_that_was_changed_just_now_is_not_late(patient: Patient) -> None:
    """However old it is, and although the manager of the fields and the set of its fields stay the same."""
    storage = patient.cluster.storage
    storage.clock = lambda: datetime.now(UTC) - timedelta(days=1)
    await rule(patient, ADMIN_RULES, said("success", "AsDesired"))
    storage.clock = lambda: datetime.now(UTC)
    change = {"spec": {"dpuSelectionPolicy": "SameNode"}}
    await patient.client.patch(ADMIN_RULES, "one", change, patch_type="merge", namespace="universe")
    assert await patient.complaints(RULES_CHECK) == []
    patient.later = timedelta(minutes=6)
    message = (await one(patient, RULES_CHECK)).message
    assert "has a change that the controller has not processed" in message


def shown(**conditions: tuple[str, str]) -> JSON:
    """The status of a rule that is in order, with these conditions: their reasons and messages, with status False."""
    status = said("success", "AsDesired")
    for kind, (reason, message) in conditions.items():
        condition = {"type": kind, "status": "False", "reason": reason, "message": message}
        status["conditions"].append({**condition, "lastTransitionTime": stamp()})
    return status


@pytest.mark.parametrize("resource", [ADMIN_RULES, TENANT_RULES, WORKLOAD_RULES])
async def test_a_rule_that_matches_nothing(patient: Patient, resource: Resource) -> None:
    """The workload may be to come; a key that no workload can have is a mistake."""
    await rule(patient, resource, shown(Matched=("NoWorkloadMatches", "no workload matches")))
    namespace = "tenant-a" if resource == TENANT_RULES else "universe"
    (found,) = await patient.examine(RULES_CHECK)
    assert (found.code, found.severity, found.message) == ("BERTH3005", Severity.info, "no workload matches")
    text = 'no workload can match: spec.workloadTerms[0]: quote labels with dots: metadata.labels["a.b/c"]'
    status = {**shown(Matched=("ImpossibleKey", text)), "message": text}
    await patient.report(resource, "one", status, namespace=namespace)
    found = await one(patient, RULES_CHECK)
    assert (found.severity, found.message) == (Severity.error, text)
    plural = f"{resource.plural}.{resource.group}"
    assert found.command == f"kubectl --namespace {namespace} edit {plural} one"


async def test_companions_that_do_not_run(patient: Patient) -> None:
    """A while after they were made; that there are none to run is another finding."""
    await rule(patient, ADMIN_RULES, shown(Running=("Unschedulable", "0 of 2 companions run: 2 Unschedulable")))
    assert not await patient.complaints(RULES_CHECK)
    patient.later = timedelta(minutes=6)
    found = await one(patient, RULES_CHECK)
    assert (found.code, found.severity) == ("BERTH3006", Severity.warning)
    assert found.message == "0 of 2 companions run: 2 Unschedulable"
    plural = f"{ADMIN_RULES.plural}.{ADMIN_RULES.group}"
    assert found.command == f"kubectl --namespace universe describe {plural} one"
    await patient.report(ADMIN_RULES, "one", shown(Running=("NoCompanion", "no companions")), namespace="universe")
    assert not await patient.complaints(RULES_CHECK)


async def test_what_is_not_shown_is_as_bad_as_it_is(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rules that wait are no error; one that is wrong comes before them."""
    monkeypatch.setattr("app.workloads.checks._MOST", 2)
    spec = {**SPEC, "tenantMatch": ["*"]}
    for name in ("a", "b", "c"):
        await patient.create(ADMIN_RULES, name, namespace="universe", spec=spec)
        status = said("success", "Waiting", "no workload yet", status="False")
        await patient.report(ADMIN_RULES, name, status, namespace="universe")
    assert {found.severity for found in await patient.examine(RULES_CHECK)} == {Severity.info}
    await patient.report(ADMIN_RULES, "c", said("error", "InvalidRule", "no"), namespace="universe")
    assert [found.severity for found in await patient.examine(RULES_CHECK)] == [
        *(Severity.error, Severity.info, Severity.info)
    ]


async def test_uvs_objects_in_error_but_no_mirrors(patient: Patient) -> None:
    content = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "b"}}
    await patient.create(UVS_CONFIG_MAPS, "one", namespace="universe", spec={"object": content})
    await patient.report(UVS_CONFIG_MAPS, "one", said("error", "PermissionDenied", "no"), namespace="universe")
    await patient.create(
        UVS_PODS,
        "mirror",
        namespace="universe",
        metadata={"labels": {"berth.dev/mirror": "true"}},
        spec={"object": {**TEMPLATE, "metadata": {"name": "mirror"}}},
    )
    patient.later = timedelta(hours=1)
    found = await one(patient, RULES_CHECK)
    assert (found.subject, found.message) == ("UVSConfigMap universe/one", "PermissionDenied: no")
    assert found.consequence == "the infra cluster has not what the object describes"


async def tenant(patient: Patient, status: JSON | None, **spec: object) -> None:
    await patient.create(TENANTS, "a", spec={"identity": {"names": ["a.tenant.local"]}, **spec})
    if status is not None:
        await patient.report(TENANTS, "a", {"namespace": "tenant-a", **status})


async def test_a_tenant_that_is_ready_is_well(patient: Patient) -> None:
    await tenant(patient, said("success", "AsWanted"), hosts=["host-a"])
    await patient.create(NODES, "dpu-a", metadata={"labels": {HOST_LABEL: "host-a", TENANT_LABEL: "a"}})
    (found,) = await patient.examine(TENANTS_CHECK)
    assert found.severity is Severity.ok


@pytest.mark.parametrize(
    ("reason", "command"),
    [
        ("IdentityShared", "kubectl edit tenants.workload.infra.universe.nvidia.com a"),
        (
            "CertificatesExpired",
            (
                f"berth tenant rotate a --agent-namespace {HOME} && "
                "kubectl --kubeconfig TENANT apply -f tenant-a/secret.yaml"
            ),
        ),
        ("ForeignNamespace", "kubectl label namespace tenant-a berth.dev/tenant=a --overwrite"),
    ],
)
async def test_a_tenant_that_is_not_ready(patient: Patient, reason: str, command: str) -> None:
    await tenant(patient, said("error", reason, "for this reason"))
    found = await one(patient, TENANTS_CHECK)
    assert (found.severity, found.subject) == (Severity.error, "Tenant a")
    assert found.message == f"is not ready ({reason}): for this reason"
    assert found.command == command
    assert found.consequence


@pytest.mark.parametrize("own", [True, False], ids=["suspended", "no tenant"])
async def test_a_namespace_that_is_labeled_for_another_tenant(patient: Patient, *, own: bool) -> None:
    """Of one whose Tenant is in force the controller says so itself."""
    await tenant(patient, said("", "Suspended", "suspended", status="False"), suspended=True)
    name = "a" if own else "c"
    await patient.create(NAMESPACES, f"tenant-{name}", metadata={"labels": {TENANT_LABEL: "b"}})
    found = await one(patient, TENANTS_CHECK)
    assert (found.severity, found.subject) == (Severity.error, f"Namespace tenant-{name}")
    assert found.message == f"is named for tenant {name}, and its label berth.dev/tenant says b"
    assert found.consequence == "its Pods are placed on DPUs of tenant b"
    await patient.run(found.command)
    assert not await patient.complaints(TENANTS_CHECK)


async def test_a_namespace_that_the_controller_calls_foreign_is_found_once(patient: Patient) -> None:
    status = said("error", "ForeignNamespace", "for this reason")
    status["conditions"].append({**status["conditions"][0], "type": "NamespaceReady"})
    await tenant(patient, status)
    await patient.create(NAMESPACES, "tenant-a", metadata={"labels": {TENANT_LABEL: "b"}})
    assert (await one(patient, TENANTS_CHECK)).subject == "Tenant a"


async def walled(patient: Patient, quota: tuple[str, ...] = ()) -> None:
    """A tenant whose namespace has what the controller keeps there."""
    await tenant(patient, said("success", "AsWanted"))
    await patient.create(NAMESPACES, "tenant-a", metadata={"labels": {TENANT_LABEL: "a"}})
    await ensure_bounds(patient.client, "tenant-a", bounds_of(parse_quota(quota)))


@pytest.mark.parametrize(
    ("resource", "name", "severity", "change", "message"),
    [
        (RESOURCE_QUOTAS, "berth-isolation", Severity.error, None, "is missing"),
        (RESOURCE_QUOTAS, "berth-objects", Severity.warning, None, "is missing"),
        (SERVICE_ACCOUNTS, "default", Severity.warning, None, "is missing"),
        (
            RESOURCE_QUOTAS,
            "berth-isolation",
            Severity.error,
            {"spec": {"hard": {"pods": "9"}}},
            "differs from what the controller keeps there",
        ),
        (
            SERVICE_ACCOUNTS,
            "default",
            Severity.warning,
            {"automountServiceAccountToken": True},
            "differs from what the controller keeps there",
        ),
    ],
)
async def test_a_tenants_namespace_without_its_walls(
    patient: Patient, resource: Resource, name: str, severity: Severity, change: JSON | None, message: str
) -> None:
    await walled(patient)
    assert await patient.complaints(TENANTS_CHECK) == []
    if change is None:
        await patient.client.delete(resource, name, namespace="tenant-a")
    else:
        await patient.client.patch(resource, name, change, patch_type="merge", namespace="tenant-a")
    found = await one(patient, TENANTS_CHECK)
    assert (found.severity, found.subject) == (severity, f"{resource.kind} tenant-a/{name}")
    assert found.message == message
    assert found.consequence
    assert found.command.startswith("kubectl get deployments --all-namespaces")
    await controller_with(patient)
    found = await one(patient, TENANTS_CHECK)
    assert found.command == f"kubectl --namespace {HOME} rollout restart deployment/berth-controller"


async def test_a_quota_that_nobody_has_counted_is_told(patient: Patient) -> None:
    await walled(patient)
    quota = await patient.client.get(RESOURCE_QUOTAS, "berth-objects", namespace="tenant-a")
    quota["status"]["used"].pop("secrets")
    await patient.client.replace(RESOURCE_QUOTAS, "berth-objects", quota, namespace="tenant-a", subresource="status")
    assert (
        await one(patient, TENANTS_CHECK)
    ).message == "does not hold: kube-controller-manager has not counted secrets"


async def test_bounds_are_those_that_the_controller_was_told(patient: Patient) -> None:
    await walled(patient, ("secrets=7", "configmaps="))
    assert (await one(patient, TENANTS_CHECK)).subject == "ResourceQuota tenant-a/berth-objects"
    await controller_with(patient, "--tenant-quota=secrets=7,configmaps=")
    assert await patient.complaints(TENANTS_CHECK) == []


async def controller_with(patient: Patient, *arguments: str) -> None:
    container = {"name": "controller", "image": "berth", "args": ["controller", *arguments]}
    labels = {"app": "controller"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    await patient.create(DEPLOYMENTS, "berth-controller", namespace=HOME, spec=spec)


async def test_a_suspended_tenant_is_information_and_the_command_frees_it(patient: Patient) -> None:
    await tenant(patient, said("", "Suspended", "suspended", status="False"), suspended=True)
    found, _ = await patient.examine(TENANTS_CHECK)
    assert (found.severity, found.message) == (Severity.info, "is suspended")
    assert found.command.startswith("berth tenant resume ")
    await patient.run(found.command)
    assert all(one.message != "is suspended" for one in await patient.examine(TENANTS_CHECK))


async def test_a_tenant_that_nobody_looks_at(patient: Patient) -> None:
    await tenant(patient, None)
    assert await patient.complaints(TENANTS_CHECK) == []
    patient.later = timedelta(minutes=3)
    assert "has a change that the controller has not processed" in (await one(patient, TENANTS_CHECK)).message


async def test_nodes_of_a_tenant_without_a_host(patient: Patient) -> None:
    await tenant(patient, said("success", "AsWanted"), hosts=["host-a"])
    await patient.create(NODES, "dpu-a", metadata={"labels": {TENANT_LABEL: "a"}})
    node, host = await patient.complaints(TENANTS_CHECK)
    assert (node.subject, host.subject) == ("Node dpu-a", "Tenant a")
    assert node.command.startswith(f'kubectl label node dpu-a {HOST_LABEL}="$HOST"')
    assert f"no node has label {HOST_LABEL} for its 1 host host-a" in host.message
    await patient.run(f"HOST=host-a; {node.command}")
    assert not await patient.complaints(TENANTS_CHECK)


def test_names_that_others_chose_are_quoted_in_commands() -> None:
    """A command is pasted into the shell of an administrator."""
    found = {"metadata": {"name": "a"}, "spec": {"hosts": ["h; reboot"]}}
    (finding,) = nodes_and_hosts([found], Dpus([], HOST_LABEL, TENANT_LABEL))
    assert f"'{HOST_LABEL}=h; reboot'" in finding.command


MARKS = {
    "workloadrule.workload.universe.nvidia.com/name": "one",
    "berth.dev/workload": "tenant-a/w1",
    "berth.dev/rule": "tenant-a/one",
    "berth.dev/spec-hash": "x",
    "berth.dev/injected-annotations": "[]",
}


async def companion(patient: Patient, **spec: object) -> None:
    await patient.create(NAMESPACES, "tenant-a", metadata={"labels": {TENANT_LABEL: "a"}})
    expressions = [
        {"key": HOST_LABEL, "operator": "In", "values": ["host-a"]},
        {"key": TENANT_LABEL, "operator": "In", "values": ["a"]},
    ]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    await patient.pod(
        "one-w1",
        namespace="tenant-a",
        labels={"berth.dev/companion": "tenant", "berth.dev/workload-id": "w1"},
        annotations=MARKS,
        spec={"affinity": affinity, **spec},
    )


async def test_a_resource_that_nothing_offers_is_the_cause_of_what_its_companions_do_not_do(patient: Patient) -> None:
    asks = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"example.com/none": "1"}}}]}
    await companion(patient, **asks)
    await patient.create(TENANT_RULES, "one", namespace="tenant-a", spec=SPEC)
    status = shown(Running=("Unschedulable", "0 of 1 companions run"))
    await patient.report(TENANT_RULES, "one", status, namespace="tenant-a")
    patient.later = timedelta(minutes=10)
    found = [
        finding for check in (PODS_CHECK, COMPANIONS_CHECK, RULES_CHECK) for finding in await patient.complaints(check)
    ]
    (cause,) = roots(with_causes(found))
    assert (cause.code, cause.subject) == ("BERTH1207", "Pod tenant-a/one-w1")
    assert sorted(one.code for one in found) == ["BERTH1207", "BERTH3006", "BERTH3103"]
    assert all(one.command for one in found)


async def test_the_command_on_companions_is_not_that_of_another_finding_on_the_rule(patient: Patient) -> None:
    await patient.create(NAMESPACES, "tenant-a", metadata={"labels": {TENANT_LABEL: "a"}})
    await patient.create(TENANT_RULES, "one", namespace="tenant-a", spec=SPEC)
    status = {
        **shown(Running=("Unschedulable", "0 of 1 companions run")),
        "result": "error",
        "message": "no such field",
    }
    await patient.report(TENANT_RULES, "one", status, namespace="tenant-a")
    patient.later = timedelta(minutes=10)
    found = {finding.code: finding.command for finding in await patient.complaints(RULES_CHECK)}
    assert " edit " in found["BERTH3001"]
    assert " describe " in found["BERTH3006"]


async def test_a_companion_whose_dpu_is_not_known_not_the_tenants_or_cordoned(patient: Patient) -> None:
    """Each command brings it to the next trouble, and the last to none but the scheduler's."""
    await companion(patient)
    (found,) = await patient.examine(COMPANIONS_CHECK)
    assert found.severity is Severity.ok
    patient.later = timedelta(minutes=10)
    found = await one(patient, COMPANIONS_CHECK)
    assert (found.severity, found.subject) == (Severity.error, "Pod tenant-a/one-w1")
    assert found.message == (
        f"is Pending for 10 minutes: no node is the DPU of host host-a: none has label {HOST_LABEL}=host-a"
    )
    await patient.create(NODES, "dpu-a", spec={"unschedulable": True})
    await patient.run(f"DPU=dpu-a; {found.command}")
    found = await one(patient, COMPANIONS_CHECK)
    assert found.message.endswith("node dpu-a, the DPU of host host-a, is not tenant a's")
    await patient.run(found.command)
    found = await one(patient, COMPANIONS_CHECK)
    assert found.message.endswith("node dpu-a, the DPU of host host-a, is cordoned")
    await patient.run(found.command)
    found = await one(patient, COMPANIONS_CHECK)
    assert found.message.endswith("the scheduler has not said why")
    assert found.command == "kubectl --namespace tenant-a describe pod one-w1"


async def test_a_companion_whose_image_is_not_there(patient: Patient) -> None:
    await companion(patient, nodeName="dpu-a")
    waiting = {"reason": "ImagePullBackOff", "message": "not found"}
    container = {"name": "app", "image": "app", "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": "Pending", "containerStatuses": [{**container, "state": {"waiting": waiting}}]}
    await patient.report(PODS, "one-w1", status, namespace="tenant-a")
    patient.later = timedelta(minutes=10)
    found = await one(patient, COMPANIONS_CHECK)
    assert found.message.endswith("container app: ImagePullBackOff: not found")


async def test_a_companion_that_does_not_end(patient: Patient) -> None:
    await companion(patient, nodeName="dpu-a")
    await patient.client.delete(PODS, "one-w1", namespace="tenant-a")
    assert not await patient.complaints(COMPANIONS_CHECK)
    patient.later = timedelta(minutes=20)
    found = await one(patient, COMPANIONS_CHECK)
    assert found.message.startswith("should have ended ")
    await patient.run(found.command)
    assert await patient.examine(COMPANIONS_CHECK) == []


async def test_a_pod_that_only_looks_like_a_companion(patient: Patient) -> None:
    await patient.pod("false", labels={"berth.dev/companion": "tenant"})
    found = await one(patient, COMPANIONS_CHECK)
    assert (found.severity, found.subject) == (Severity.warning, "Pod default/false")
    assert "has label berth.dev/companion, but is not a companion" in found.message
    await patient.run(found.command)
    assert await patient.examine(COMPANIONS_CHECK) == []


async def test_more_than_are_told_one_by_one_are_counted_by_how_bad_they_are(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only looks like companions is a warning, however many there are."""
    monkeypatch.setattr("app.workloads.checks._MOST", 1)
    for name in ("a", "b", "c"):
        await patient.pod(name, labels={COMPANION: "x"})
    told, more = await patient.complaints(COMPANIONS_CHECK)
    assert told.severity is more.severity is Severity.warning
    assert more.message == "2 more companions with similar findings: fix the above, then run the doctor again"
