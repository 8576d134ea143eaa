"""Why rules have no companions: what they do not match, what no DPU takes, and the link to the gateway."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.doctor.model import Severity
from app.kube.resources import NAMESPACES, NODES, PODS, Resource
from app.placement.model import HOST_LABEL, TENANT_LABEL
from app.text import stamp
from app.why.model import State
from app.workloads.checks import RULES_CHECK
from app.workloads.model import (
    ADMIN_RULES,
    COMPANION,
    MIRROR,
    RULE_NAME,
    TENANT_RULES,
    UVS_CONFIG_MAPS,
    UVS_PODS,
    UVS_RESOURCES,
    WORKLOAD_ID,
    WORKLOAD_RULES,
    WORKLOADS,
)
from app.workloads.why.companions import CORRECT
from tests.integration.doctor.patient import HOME, JSON, Patient
from tests.integration.doctor.rmd_patient import deploy

TEMPLATE = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "app", "image": "app"}]}}
OF_RULE = "kubectl --namespace universe edit workloadrules.workload.universe.nvidia.com r"


def term(*expressions: tuple[str, str, str]) -> JSON:
    written = [
        {"key": key, "operator": operator, **({"values": value.split()} if value else {})}
        for key, operator, value in expressions
    ]
    return {"matchExpressions": written}


ANY = term(("metadata.id", "Exists", ""))


def spec(*terms: JSON, **more: object) -> JSON:
    return {"resourceType": "v1/Pod", "workloadTerms": [*terms] or [ANY], "template": TEMPLATE, **more}


def status(result: str = "success", *, matched: int = 0, running: int = 0, **conditions: tuple[str, str, str]) -> JSON:
    """`conditions` are status, reason and message."""
    ready = {"Ready": ("True", "AsDesired", f"{matched} of {matched} companions exist")}
    shown = [
        {"type": kind, "status": truth, "reason": reason, "message": message, "lastTransitionTime": stamp()}
        for kind, (truth, reason, message) in {**ready, **conditions}.items()
    ]
    counts = {"matched": matched, "created": matched, "running": running}
    return {"result": result, "message": "", "observedGeneration": 1, **counts, "conditions": shown}


NO_MATCH = status(Matched=("False", "NoWorkloadMatches", "no workload matches"))


async def rule(
    patient: Patient,
    wanted: JSON,
    shown: JSON | None,
    *,
    kind: Resource = WORKLOAD_RULES,
    home: str = "universe",
    **metadata: object,
) -> None:
    await patient.create(kind, "r", namespace=home, spec=wanted, metadata=metadata)
    if shown is not None:
        await patient.report(kind, "r", shown, namespace=home)


async def tenants(patient: Patient, *names: str) -> None:
    for name in names:
        await patient.create(NAMESPACES, f"tenant-{name}", metadata={"labels": {TENANT_LABEL: name}})


async def workload(patient: Patient, tenant: str, name: str, **rules: object) -> None:
    metadata = {"id": name, "resourceName": name, "resourceNamespace": "default"}
    wanted = {"metadata": metadata, "state": {"nodeName": "host-a", "ready": True}}
    where = f"tenant-{tenant}"
    await patient.create(WORKLOADS, f"workload-{name}", namespace=where, spec=wanted)
    if rules:
        await patient.report(
            WORKLOADS, f"workload-{name}", {"rules": {"tenant": None, "admin": None, **rules}}, namespace=where
        )


async def companion(patient: Patient, *, tenant: str = "a", **wanted: object) -> str:
    """Of rule r and workload w, on the DPU of host-a."""
    places = {HOST_LABEL: "host-a", TENANT_LABEL: tenant}
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in places.items()]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    marks = {
        RULE_NAME: "r",
        "berth.dev/workload": f"tenant-{tenant}/w",
        "berth.dev/rule": f"tenant-{tenant}/r",
        "berth.dev/spec-hash": "x",
        "berth.dev/injected-annotations": "[]",
    }
    name = "r-026ad823-27a8-4320-ba50-26f9f0ec6f1f"
    labels = {COMPANION: "tenant", WORKLOAD_ID: "w"}
    await patient.pod(
        name, namespace=f"tenant-{tenant}", labels=labels, annotations=marks, spec={"affinity": affinity, **wanted}
    )
    return name


async def test_a_rule_with_a_typo_names_the_nearest_workload_and_what_was_meant(patient: Patient) -> None:
    await patient.pod("tenant1-pod1", labels={"app": "web"})
    await patient.pod("other", namespace="berth-system", labels={"app": "web"})
    await patient.pod("db")
    keys = ("metadata.resourceNamespace", "In", "defualt"), ("state.extra.labels.app", "In", "web")
    await rule(patient, spec(term(*keys)), NO_MATCH)
    verdict = (await patient.why("workloadrule/r", namespace="universe")).verdict
    assert (verdict.state, verdict.text) == (State.waits, "no companions; matches 0 of 3 workloads")
    assert verdict.because == (
        "there is no namespace 'defualt' among those reported; there is 'default'",
        (
            "nearest is Pod default/tenant1-pod1: 1 of 2 expressions of workloadTerms[0] hold; "
            "metadata.resourceNamespace In defualt: is 'default'"
        ),
    )
    assert (verdict.fix, verdict.codes) == (OF_RULE, ("BERTH3005",))
    finding = next(one for one in await patient.examine(RULES_CHECK) if one.code == "BERTH3005")
    assert finding.severity is Severity.info
    assert finding.message == f"no workload matches; {'; '.join(verdict.because)}"
    assert finding.command == verdict.fix
    change = {"spec": spec(term(("metadata.resourceNamespace", "In", "default"), keys[1]))}
    await patient.client.patch(WORKLOAD_RULES, "r", change, patch_type="merge", namespace="universe")
    await patient.report(WORKLOAD_RULES, "r", {**NO_MATCH, "observedGeneration": 2}, namespace="universe")
    verdict = (await patient.why("workloadrule/r", namespace="universe")).verdict
    assert verdict.because == ("no workload matches",)  # it matches by now, and the status is to come


async def test_a_key_that_no_workload_can_have(patient: Patient) -> None:
    await patient.pod("p")
    text = "no workload can match: spec.workloadTerms[0].matchExpressions[0].key: use metadata.resourceNamespace"
    wanted = spec(term(("metadata.namespace", "In", "default")))
    await rule(patient, wanted, status(Matched=("False", "ImpossibleKey", text)))
    verdict = (await patient.why("workloadrule/r", namespace="universe")).verdict
    assert (verdict.state, verdict.because, verdict.codes) == (State.broken, (text,), ("BERTH3005",))
    assert verdict.fix == OF_RULE
    (finding,) = await patient.complaints(RULES_CHECK)
    assert (finding.code, finding.severity) == ("BERTH3005", Severity.error)


async def test_a_rule_of_the_infra_cluster_sees_its_tenants_workloads_alone(patient: Patient) -> None:
    await tenants(patient, "a", "b")
    await workload(patient, "a", "web-0")
    await workload(patient, "b", "wbe")
    keys = ("metadata.resourceName", "In", "wbe")
    labels = {"berth.dev/rule-owner": "agent"}
    await rule(patient, spec(term(keys)), NO_MATCH, kind=TENANT_RULES, home="tenant-a", labels=labels)
    verdict = (await patient.why("tenantworkloadrule/r", namespace="tenant-a")).verdict
    assert verdict.text == "no companions; matches 0 of 1 workload"
    (cause,) = verdict.because
    assert cause.startswith("nearest is Pod default/web-0 of tenant a: 0 of 1 expressions of workloadTerms[0] hold; ")
    # Nothing is near: what to type shows each workload.
    assert verdict.more.endswith(
        " tenantworkloadrules.workload.infra.universe.nvidia.com r --output yaml | berth explain -f -"
    )
    await rule(patient, spec(term(keys), tenantMatch=["c"]), NO_MATCH, kind=ADMIN_RULES)
    verdict = (await patient.why("adminworkloadrule/r", namespace="universe")).verdict
    assert verdict.because == ("there is no workload of its tenants",)


async def test_who_may_not_list_workloads_reads_what_the_status_says(patient: Patient) -> None:
    await patient.pod("p")
    await rule(patient, spec(term(("metadata.resourceName", "In", "q"))), NO_MATCH)
    reader = patient.kubeconfig_of("reader")
    granted = [{"apiGroups": ["*"], "resources": ["workloadrules"], "verbs": ["get", "list"]}]
    await patient.bind("reader", granted, namespace="universe", user=True)
    answer = await patient.why("workloadrule/r", namespace="universe", kubeconfig=reader)
    assert answer.verdict.because == ("no workload matches",)
    assert any("list pods in the whole cluster" in text for text in answer.unread)


async def test_a_companion_that_no_dpu_takes_is_named_in_full(patient: Patient) -> None:
    await tenants(patient, "a")
    for name, zone in (("dpu-a", "one"), ("dpu-b", "two")):
        labels = {TENANT_LABEL: "a", HOST_LABEL: "host-a", "bf": zone}
        await patient.create(NODES, name, metadata={"labels": labels})
    await workload(patient, "a", "w")
    name = await companion(patient, nodeSelector={"bf": "three"})
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes fit"}
    await patient.report(PODS, name, {"conditions": [unschedulable]}, namespace="tenant-a")
    shown = status(matched=1, Running=("False", "Unschedulable", "0 of 1 companions run: 1 Unschedulable"))
    await rule(patient, spec(), shown, kind=TENANT_RULES, home="tenant-a")
    verdict = (await patient.why("tenantworkloadrule/r", namespace="tenant-a")).verdict
    assert (verdict.state, verdict.text) == (State.stuck, "1 of 1 companion exist, 0 run")
    text = "node selector bf=three matches none of the host's 2 DPUs: they have bf=one, two"
    whose = "companion of TenantWorkloadRule tenant-a/r for Pod default/w of tenant a"
    assert verdict.because == (f"Pod tenant-a/{name}: Pending; {whose}", text, "0/2 nodes fit")
    assert verdict.fix == "kubectl --namespace tenant-a edit tenantworkloadrules.workload.infra.universe.nvidia.com r"
    answer = await patient.why(f"pod/{name}", namespace="tenant-a")
    assert answer.verdict.asks == "a DPU of host host-a, node selector bf=three"
    assert answer.verdict.because[0] == text
    patient.later = timedelta(minutes=10)
    assert "BERTH3103" in (await patient.why(f"pod/{name}", namespace="tenant-a")).verdict.codes


@pytest.mark.parametrize("trouble", ["no node", "another tenant's", "cordoned"])
async def test_a_companion_whose_dpu_is_missing_has_the_command(patient: Patient, trouble: str) -> None:
    await tenants(patient, "a")
    name = await companion(patient)
    if trouble != "no node":
        labels = {HOST_LABEL: "host-a", TENANT_LABEL: "b" if trouble == "another tenant's" else "a"}
        await patient.create(NODES, "dpu", metadata={"labels": labels}, spec={"unschedulable": trouble == "cordoned"})
    else:
        await patient.create(NODES, "dpu")
    verdict = (await patient.why(f"pod/{name}", namespace="tenant-a")).verdict
    assert verdict.state is State.stuck
    await patient.run(f"DPU=dpu; {verdict.fix}")
    assert (await patient.why(f"pod/{name}", namespace="tenant-a")).verdict.fix != verdict.fix


async def test_a_rule_whose_tenant_is_suspended(patient: Patient) -> None:
    since, cause = "2026-01-01T00:00:00Z", "the gateway refuses the agent: tenant a is suspended"
    message = f"not connected since {since} because {cause}"
    await rule(patient, spec(), status("", Ready=("Unknown", "NotConnected", message)))
    verdict = (await patient.why("workloadrule/r", namespace="universe")).verdict
    assert (verdict.state, verdict.text, verdict.because) == (State.stuck, "its agent is not connected", (cause,))
    assert verdict.since is not None
    assert verdict.since.isoformat() == "2026-01-01T00:00:00+00:00"
    assert verdict.fix == "berth tenant resume a --kubeconfig INFRA  # INFRA: the kubeconfig of the infra cluster"


async def test_a_rule_in_error_and_one_that_nobody_processed(patient: Patient) -> None:
    await rule(patient, spec(), status("error", Ready=("False", "InvalidRule", "spec.template: no containers")))
    verdict = (await patient.why("workloadrule/r", namespace="universe")).verdict
    assert (verdict.state, verdict.codes) == (State.broken, ("BERTH3001",))
    assert verdict.because == ("InvalidRule: spec.template: no containers",)
    assert verdict.fix == OF_RULE
    await patient.client.patch(
        WORKLOAD_RULES, "r", {"spec": {"dpuSelectionPolicy": "SameNode"}}, patch_type="merge", namespace="universe"
    )
    assert (await patient.why("workloadrule/r", namespace="universe")).verdict.state is State.waits
    patient.later = timedelta(minutes=6)
    verdict = (await patient.why("workloadrule/r", namespace="universe")).verdict
    assert (verdict.state, verdict.codes) == (State.broken, ("BERTH3002",))
    assert "no agent was found" in verdict.because[0]


@pytest.mark.parametrize(
    ("kind", "home"), [(WORKLOAD_RULES, "universe"), (ADMIN_RULES, "universe"), (UVS_CONFIG_MAPS, "universe")]
)
async def test_an_object_in_a_namespace_that_is_not_looked_at_is_moved(
    patient: Patient, kind: Resource, home: str
) -> None:
    body = spec(**({"tenantMatch": ["*"]} if kind == ADMIN_RULES else {}))
    if kind in UVS_RESOURCES:
        body = {"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}}
    await deploy(patient, "berth-agent", HOME, "agent")
    await rule(patient, body, None, kind=kind, home="default")
    verdict = (await patient.why(f"{kind.plural}/r")).verdict
    assert (verdict.state, verdict.text) == (State.stuck, "is ignored")
    (cause,) = verdict.because
    assert cause.startswith("it is in namespace default, and the ")
    assert cause.endswith(f" looks at namespace {home}")
    (finding,) = await patient.complaints(RULES_CHECK)
    assert (finding.code, finding.command, finding.message) == ("BERTH3002", verdict.fix, f"is ignored: {cause}")
    await patient.run(verdict.fix)
    assert (await patient.why(f"{kind.plural}/r", namespace=home)).verdict.text != "is ignored"
    assert (await patient.why(f"{kind.plural}/r")).verdict.because[0] == f"it is in namespace {home}"
    manifest = kind.body({"name": "r", "namespace": "default"}, spec=body)
    planned = (await patient.why(manifests=[manifest])).verdict
    assert (planned.text, planned.next) == ("would be ignored", f"create it in namespace {home}")


@pytest.mark.parametrize("others", [0, 2])
async def test_nothing_is_moved_where_it_is_not_known_whereto(patient: Patient, others: int) -> None:
    """Without an agent, and with several that look elsewhere."""
    for number in range(others):
        home = f"agent-{number}"
        await patient.create(NAMESPACES, home)
        await deploy(patient, f"berth-agent-{number}", home, "agent", f"--namespace={home}")
    await rule(patient, spec(), None, home="default")
    verdict = (await patient.why("workloadrule/r")).verdict
    looked_at = "agent-0 or agent-1" if others else "universe"
    assert (verdict.text, verdict.fix) == ("is ignored", "")
    assert verdict.next == f"create it in namespace {looked_at}"
    if others:
        await rule(patient, spec(), None, home="agent-1")
        assert (await patient.why("workloadrule/r", namespace="agent-1")).verdict.text != "is ignored"


async def test_no_verdict_on_its_namespace_where_agents_may_not_be_read(patient: Patient) -> None:
    await rule(patient, spec(), None, home="default")
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    await patient.bind("dev", rules, namespace="default", user=True)
    answer = await patient.why("workloadrule/r", kubeconfig=patient.kubeconfig_of("dev"))
    assert answer.verdict.text != "is ignored"
    assert "not checked: you have no right to list deployments.apps in the whole cluster" in answer.unread


async def test_the_agent_says_which_namespace_it_looks_at(patient: Patient) -> None:
    await deploy(patient, "berth-agent", HOME, "agent", f"--namespace={HOME}")
    await rule(patient, spec(), None, home="universe")
    (cause,) = (await patient.why("workloadrule/r", namespace="universe")).verdict.because
    assert cause == f"it is in namespace universe, and the agent looks at namespace {HOME}"
    await patient.report(WORKLOAD_RULES, "r", status(), namespace="universe")
    assert (await patient.why("workloadrule/r", namespace="universe")).verdict.text != "is ignored"


async def test_a_rule_of_a_tenant_outside_of_the_namespaces_of_tenants(patient: Patient) -> None:
    await rule(patient, spec(), None, kind=TENANT_RULES, home="default")
    verdict = (await patient.why("tenantworkloadrule/r")).verdict
    assert (verdict.state, verdict.fix) == (State.stuck, "")
    assert verdict.next == "create it in the namespaces of tenants, tenant-TENANT"


async def test_a_mirror_says_what_it_shows_and_what_can_be_changed_here(patient: Patient) -> None:
    """It has the whole Pod, and its rule counts what keeps companions from running."""
    places = [{"key": TENANT_LABEL, "operator": "In", "values": ["a"]}]
    terms = {"nodeSelectorTerms": [{"matchExpressions": places}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": "2"}}}
    wanted = {"containers": [container], "nodeSelector": {"bf": "three"}, "affinity": affinity}
    await patient.create(
        UVS_PODS,
        "r-1",
        namespace="universe",
        metadata={"labels": {MIRROR: "true"}, "annotations": {RULE_NAME: "r"}},
        spec={"object": {**TEMPLATE, "metadata": {"name": "r-1"}, "spec": wanted}},
    )
    shown = status(Ready=("True", "Mirrored", ""))
    await patient.report(UVS_PODS, "r-1", {**shown, "phase": "Pending"}, namespace="universe")
    verdict = (await patient.why("uvspod/r-1", namespace="universe")).verdict
    assert (verdict.state, verdict.because) == (State.waits, ("Pending",))
    message = "0 of 1 companions run: 1 Unschedulable"
    await rule(patient, spec(), status(matched=1, Running=("False", "Unschedulable", message)))
    verdict = (await patient.why("uvspod/r-1", namespace="universe")).verdict
    assert (verdict.state, verdict.fix) == (State.stuck, OF_RULE)
    wishes = "a DPU of tenant a, node selector bf=three, cpu 2"
    unfit = f"no DPU takes it: it asks for {wishes}"
    assert verdict.because == ("Pending", unfit, f"of all companions of the rule, {message}")
    assert verdict.asks == wishes
    assert verdict.next.endswith("or give the admin of the infra cluster the command of the last line")
    assert (
        verdict.more == "berth why pod/r-1 -n tenant-a --kubeconfig INFRA  # INFRA: the kubeconfig of the infra cluster"
    )
    verdict = (await patient.why("workloadrule/r", namespace="universe")).verdict
    assert (verdict.state, verdict.fix) == (State.stuck, OF_RULE)
    text = "mirrors companion tenant-a/r-1 of the infra cluster, by WorkloadRule universe/r, which does not run"
    assert verdict.because[:3] == (f"UVSPod universe/r-1: {text}", "Pending", unfit)
    assert verdict.next.startswith("have spec.template ask for less")
    waiting = status(matched=1, Running=("False", "ImagePullBackOff", "0 of 1 companions run: 1 ImagePullBackOff"))
    await patient.report(WORKLOAD_RULES, "r", waiting, namespace="universe")
    verdict = (await patient.why("uvspod/r-1", namespace="universe")).verdict
    assert (verdict.state, verdict.fix) == (State.stuck, OF_RULE)
    assert verdict.next.startswith("correct spec.template: its image")
    await patient.client.delete(UVS_PODS, "r-1", namespace="universe")
    verdict = (await patient.why("workloadrule/r", namespace="universe")).verdict
    assert (verdict.state, verdict.because) == (State.stuck, ("0 of 1 companions run: 1 ImagePullBackOff",))
    assert (verdict.fix, verdict.next) == (OF_RULE, CORRECT)


PULL = 'Back-off pulling image "app:typo": not found'
CRASH = "back-off 40s restarting failed container=app"


def failing(reason: str, message: str) -> JSON:
    """What a mirror shows of a Pod whose container does not come up."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "app", "restartCount": 3, "state": state}]}


async def uvs_pod(patient: Patient, phase: str, pod: JSON, *, node: str = "dpu-a", **marks: JSON) -> None:
    wanted = {"object": {**TEMPLATE, "metadata": {"name": "r-1"}}}
    await patient.create(UVS_PODS, "r-1", namespace="universe", metadata=marks, spec=wanted)
    shown = status(Ready=("True", "Mirrored", ""))
    shown = {**shown, "phase": phase, "nodeName": node, "pod": pod}
    await patient.report(UVS_PODS, "r-1", shown, namespace="universe")


@pytest.mark.parametrize(
    ("phase", "reason", "message"),
    [
        ("Running", "CrashLoopBackOff", CRASH),
        ("Pending", "ImagePullBackOff", PULL),
        ("Pending", "CreateContainerConfigError", 'secret "absent" not found'),
    ],
)
async def test_a_companion_that_fails_is_known_in_the_cluster_of_its_tenant(
    patient: Patient, phase: str, reason: str, message: str
) -> None:
    marks = {"labels": {MIRROR: "true"}, "annotations": {RULE_NAME: "r"}}
    await uvs_pod(patient, phase, failing(reason, message), **marks)
    await rule(patient, spec(), status(matched=1, Running=("False", reason, f"0 of 1 companions run: 1 {reason}")))
    verdict = (await patient.why("uvspod/r-1", namespace="universe")).verdict
    assert verdict.state > State.waits
    assert verdict.text.endswith(f"which does not run: {reason}")
    assert message in verdict.because[0]
    assert (verdict.fix, verdict.next) == (OF_RULE, CORRECT)
    verdict = (await patient.why("workloadrule/r", namespace="universe")).verdict
    assert verdict.state > State.waits
    assert any(message in cause for cause in verdict.because)
    assert (verdict.fix, verdict.next) == (OF_RULE, CORRECT)
    (finding,) = await patient.complaints(RULES_CHECK)
    assert (finding.code, finding.command) == ("BERTH3006", OF_RULE)


async def test_a_companion_that_is_not_there_for_long_is_no_finding(patient: Patient) -> None:
    await rule(patient, spec(), status(matched=1, Running=("False", "Pending", "0 of 1 companions run: 1 Pending")))
    assert await patient.complaints(RULES_CHECK) == []


async def test_a_companion_for_which_dpus_are_cordoned_is_not_to_ask_for_less(patient: Patient) -> None:
    message = "1 node(s) were unschedulable"
    unfit = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    marks = {"labels": {MIRROR: "true"}, "annotations": {RULE_NAME: "r"}}
    await uvs_pod(patient, "Pending", {"conditions": [unfit]}, node="", **marks)
    await rule(patient, spec(), status(matched=1, Running=("False", "Unschedulable", "0 of 1 companions run")))
    verdict = (await patient.why("uvspod/r-1", namespace="universe")).verdict
    assert (verdict.state, verdict.because, verdict.fix) == (State.stuck, (message,), "")
    assert verdict.next == "ask the admin of the infra cluster to uncordon a DPU: those that fit are cordoned"


async def test_a_pod_that_a_tenant_wrote_and_that_fails(patient: Patient) -> None:
    await uvs_pod(patient, "Running", failing("CrashLoopBackOff", CRASH))
    verdict = (await patient.why("uvspod/r-1", namespace="universe")).verdict
    assert (verdict.state, verdict.because) == (State.broken, (f"container app: {CRASH}",))
    assert verdict.text == "is in the infra cluster: Running: runs, and is not ready: CrashLoopBackOff"
    assert verdict.fix == "kubectl --namespace universe edit uvspods.resource.universe.nvidia.com r-1"


async def test_a_rule_that_a_finalizer_of_another_holds_says_whose_it_is(patient: Patient) -> None:
    await rule(patient, spec(), status(), finalizers=["example.com/held"])
    await patient.client.delete(WORKLOAD_RULES, "r", namespace="universe")
    assert (await patient.why("workloadrule/r", namespace="universe")).verdict.fix == ""
    patient.later = timedelta(hours=1)
    verdict = (await patient.why("workloadrule/r", namespace="universe")).verdict
    assert (verdict.state, verdict.because) == (State.stuck, ("finalizer example.com/held holds it",))
    assert (verdict.fix, verdict.next) == ("", "example.com/held is of the controller of example.com")


async def test_a_companion_that_a_finalizer_of_kubernetes_holds_is_not_released(patient: Patient) -> None:
    await tenants(patient, "a")
    name = await companion(patient)
    body = {"metadata": {"finalizers": ["foregroundDeletion"]}}
    await patient.client.patch(PODS, name, body, patch_type="merge", namespace="tenant-a")
    await patient.client.delete(PODS, name, namespace="tenant-a", grace_period_seconds=0)
    patient.later = timedelta(hours=1)
    verdict = (await patient.why(f"pod/{name}", namespace="tenant-a")).verdict
    assert "BERTH3102" in verdict.codes
    assert "finalizers" not in verdict.fix
    assert any("foregroundDeletion is of the garbage collector of Kubernetes" in cause for cause in verdict.because)


async def test_a_uvs_object_in_error(patient: Patient) -> None:
    content = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
    await patient.create(UVS_CONFIG_MAPS, "c", namespace="universe", spec={"object": content})
    shown = status("error", Ready=("False", "PermissionDenied", "no"))
    await patient.report(UVS_CONFIG_MAPS, "c", shown, namespace="universe")
    verdict = (await patient.why("uvsconfigmap/c", namespace="universe")).verdict
    assert (verdict.state, verdict.because) == (State.broken, ("PermissionDenied: no",))
    assert verdict.so == "the infra cluster has not what the object describes"


async def test_a_workload_says_which_rule_does_not_serve_it(patient: Patient) -> None:
    await tenants(patient, "a")
    full = {"result": "error", "message": "tenant a has 2 of 2", "reason": "QuotaExceeded"}
    await workload(patient, "a", "w", admin=[{"id": "universe/r", "status": full}])
    verdict = (
        await patient.why("workload.workload.infra.universe.nvidia.com/workload-w", namespace="tenant-a")
    ).verdict
    assert (verdict.state, verdict.text) == (State.stuck, "Pod default/w of tenant a on host-a; 1 rule matches")
    assert verdict.because == ("AdminWorkloadRule universe/r: tenant a has 2 of 2",)


async def test_a_rule_that_does_not_exist_yet_is_compared_with_what_is_there(patient: Patient) -> None:
    await patient.pod("web-server")
    manifest = {"apiVersion": WORKLOAD_RULES.api_version, "kind": "WorkloadRule", "metadata": {"name": "r"}}
    for value, text in (("web-server", "would match 1 of 1 workload"), ("web-sevrer", "would match 0 of 1 workload")):
        wanted = spec(term(("metadata.resourceName", "In", value)))
        answer = await patient.why(manifests=[{**manifest, "spec": wanted}], namespace="universe")
        assert answer.verdict.text == text
    assert answer.verdict.because[0] == "no workload has 'web-sevrer' as metadata.resourceName; there is 'web-server'"
    answer = await patient.why(manifests=[{**manifest, "spec": {**spec(), "template": {}}}], namespace="universe")
    assert answer.verdict.state is State.broken
    assert answer.verdict.because[0].startswith("InvalidTemplate: ")
    wanted = spec(term(("metadata.namespace", "In", "default")))
    answer = await patient.why(manifests=[{**manifest, "spec": wanted}], namespace="universe")
    assert (answer.verdict.state, answer.verdict.text) == (State.broken, "would never match")
    (cause,) = answer.verdict.because
    assert cause.startswith("no workload can match: spec.workloadTerms[0].matchExpressions[0].key: ")
    assert "use metadata.resourceNamespace" in cause
    wanted = spec(term(("metadata.id[", "Exists", "")))
    answer = await patient.why(manifests=[{**manifest, "spec": wanted}], namespace="universe")
    assert (answer.verdict.state, answer.verdict.text) == (State.broken, "would be refused")
