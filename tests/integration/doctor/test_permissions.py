"""The permissions of each role, by access reviews of an API server with RBAC."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from app.certs.permissions import WEBHOOK_SECRET
from app.doctor.access import needed_by
from app.doctor.installed import read_deployment
from app.doctor.model import Severity, follow_from, roots, with_causes
from app.doctor.permissions import CHECK, Grant, grant_of
from app.kube.resources import DEPLOYMENTS, NAMESPACES, ROLE_BINDINGS, SECRETS, SERVICE_ACCOUNTS
from app.permissions import permissions_of
from app.registry import BY_NAME
from app.tenancy.model import tenants_role
from app.tenancy.permissions import TENANT_GRANTS
from tests.integration.doctor.patient import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, HOME, JSON, RBAC, Patient, rule_of
from tests.integration.doctor.rmd_patient import with_rmd

TABLES = {role: permissions_of(role) for role in BY_NAME}


async def tenant_with_bindings(patient: Patient, *roles: str) -> None:
    labels = {"berth.dev/tenant": "a"}
    await patient.client.create(NAMESPACES, {"metadata": {"name": "tenant-a", "labels": labels}})
    for role in roles:
        await patient.create(
            ROLE_BINDINGS,
            tenants_role(role),
            namespace="tenant-a",
            roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": tenants_role(role)},
            subjects=[{"kind": "ServiceAccount", "name": f"berth-{role}", "namespace": HOME}],
        )


@pytest.mark.parametrize("role", BY_NAME)
async def test_a_role_with_the_rights_of_the_table_is_well(patient: Patient, role: str) -> None:
    await patient.enroll(role, TABLES[role])
    await tenant_with_bindings(patient, *({role} & set(TENANT_GRANTS)))
    (found,) = await patient.examine(CHECK)
    assert (found.severity, found.subject) == (Severity.ok, f"ServiceAccount {HOME}/berth-{role}"), found


async def test_a_missing_right_names_what_breaks_and_its_command_gives_it(patient: Patient) -> None:
    attachments, *others = permissions_of("webhook")
    await patient.enroll("webhook", [replace(attachments, verbs=("get",)), *others])
    (found,) = await patient.examine(CHECK)
    assert found.severity is Severity.error
    assert found.message == (
        "role webhook may not list, watch network-attachment-definitions.k8s.cni.cncf.io in the whole cluster"
    )
    # Replicas that are ready stay so.
    assert "a new Pod of the webhook does not get ready" in found.consequence
    await patient.run(found.command)
    assert not await patient.complaints(CHECK)


async def test_node_agents_for_rmd_have_their_account_beside_the_daemons(patient: Patient) -> None:
    """It is looked for where the controller rmd has its daemons."""
    await with_rmd(patient)
    await patient.enroll("controller", permissions_of("controller", controllers=("rmd",)))
    pods, *others = permissions_of("rmd-node")
    await patient.create(SERVICE_ACCOUNTS, "rmd-agent", namespace="default", metadata={"labels": OF_NODE})
    rules = [rule_of(one) for one in (pods, *others) if one is not pods]
    await patient.bind("rmd-agent", rules, home="default")
    (found,) = await patient.complaints(CHECK)
    assert found.subject == "ServiceAccount default/rmd-agent"
    assert found.message == "role rmd-node may not list, watch pods in the whole cluster"
    assert found.consequence == "the Pods of the node are not seen: none of them gets cache ways"
    await patient.run(found.command)
    assert not await patient.complaints(CHECK)


OF_NODE = {"app.kubernetes.io/part-of": "berth", "app.kubernetes.io/component": "rmd-node"}


async def test_a_missing_right_in_a_namespace_is_given_there(patient: Patient) -> None:
    granted = [one for one in permissions_of("webhook") if one.scope != "release"]
    await patient.enroll("webhook", granted)
    (found,) = await patient.complaints(CHECK)
    assert found.message == (
        f"role webhook may not get, list, watch configmaps/nri-control-switches in namespace {HOME}"
    )
    await patient.run(found.command)
    assert not await patient.complaints(CHECK)


async def test_missing_events_are_a_warning(patient: Patient) -> None:
    await patient.enroll("webhook", permissions_of("webhook", events=False))
    (found,) = await patient.complaints(CHECK)
    assert (found.severity, found.message) == (
        Severity.warning,
        "role webhook may not create, patch events in the whole cluster",
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["webhook", "--confine-tenants"], ["role webhook may not get, list, watch namespaces in the whole cluster"]),
        (["webhook", "--no-events"], []),
    ],
)
async def test_what_a_deployment_is_told_decides_what_it_needs(
    patient: Patient, arguments: list[str], expected: list[str]
) -> None:
    await patient.enroll("webhook", permissions_of("webhook", events="--no-events" not in arguments))
    labels = {"app": "berth"}
    container = {"name": "webhook", "image": "berth", "args": arguments}
    spec: JSON = {"containers": [container], "serviceAccountName": "berth-webhook"}
    template: JSON = {"metadata": {"labels": labels}, "spec": spec}
    whole: JSON = {"selector": {"matchLabels": labels}, "template": template}
    await patient.create(DEPLOYMENTS, "berth-webhook", namespace=HOME, spec=whole)
    assert [one.message for one in await patient.complaints(CHECK)] == expected


async def test_a_tenants_namespace_without_the_binding(patient: Patient) -> None:
    """The command is what the controller would have written: with its mark, so that it goes on keeping it."""
    await patient.enroll("controller", permissions_of("controller"))
    await tenant_with_bindings(patient)
    (found,) = await patient.complaints(CHECK)
    assert found.severity is Severity.error
    assert "may not act for the tenant in namespace tenant-a: get pods, create pods" in found.message
    await patient.run(found.command)
    assert not await patient.complaints(CHECK)
    kept = await patient.client.get(ROLE_BINDINGS, "berth-controller-tenants", namespace="tenant-a")
    assert kept["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "berth"}


async def test_a_controller_needs_the_rights_of_the_controllers_that_it_runs(patient: Patient) -> None:
    await patient.enroll("controller", permissions_of("controller", controllers=("tenants",)))
    assert any("workloads" in one.message for one in await patient.complaints(CHECK))
    labels = {"app": "berth"}
    container = {"name": "c", "image": "berth", "args": ["controller", "--controllers=tenants"]}
    template = {
        "metadata": {"labels": labels},
        "spec": {"serviceAccountName": "berth-controller", "containers": [container]},
    }
    whole: JSON = {"selector": {"matchLabels": labels}, "template": template}
    await patient.create(DEPLOYMENTS, "berth-controller", namespace=HOME, spec=whole)
    assert not await patient.complaints(CHECK)


async def test_secrets_of_the_whole_cluster_are_too_much(patient: Patient) -> None:
    await patient.enroll("webhook", permissions_of("webhook"))
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}
    await patient.bind("berth-webhook", [rule], name="too-much")
    (found,) = await patient.complaints(CHECK)
    assert found.severity is Severity.warning
    assert "by ClusterRoleBinding too-much: get, list secrets in the whole cluster" in found.message
    assert found.command == "kubectl delete clusterrolebindings.rbac.authorization.k8s.io too-much"
    await patient.run(found.command)
    assert not await patient.complaints(CHECK)


async def test_everything_is_told_in_one_finding_and_others_keep_their_binding(patient: Patient) -> None:
    await patient.enroll("webhook", permissions_of("webhook"))
    await patient.create(
        CLUSTER_ROLE_BINDINGS,
        "admins",
        roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        subjects=[
            {"kind": "User", "name": "ada", "apiGroup": RBAC},
            {"kind": "ServiceAccount", "name": "berth-webhook", "namespace": HOME},
        ],
    )
    (found,) = await patient.examine(CHECK)
    assert (found.severity, found.consequence) == (Severity.warning, "who gets hold of its token owns the cluster")
    await patient.run(found.command)
    assert [one["name"] for one in (await patient.client.get(CLUSTER_ROLE_BINDINGS, "admins"))["subjects"]] == ["ada"]
    assert not await patient.complaints(CHECK)


async def test_every_verb_and_writes_that_a_webhook_does_not_need(patient: Patient) -> None:
    await patient.enroll("webhook", permissions_of("webhook"))
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]},
    ]
    await patient.bind("berth-webhook", rules, name="too-much")
    (found,) = await patient.complaints(CHECK)
    assert "do anything (`*`) with, create, update, patch, delete configmaps in the whole cluster" in found.message
    assert "patch pods in the whole cluster" in found.message


async def as_viewer(patient: Patient, *more: JSON) -> Path:
    """A user who may read what the check reads, and nothing else but `more`."""
    rules = [
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["list"]},
        *more,
    ]
    await patient.create(CLUSTER_ROLES, "viewer", rules=rules)
    await patient.create(
        CLUSTER_ROLE_BINDINGS,
        "viewer",
        roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "viewer"},
        subjects=[{"kind": "User", "name": "viewer", "apiGroup": RBAC}],
    )
    return patient.kubeconfig_of("viewer")


async def test_who_may_ask_needs_no_right_to_impersonate(patient: Patient) -> None:
    await patient.enroll("webhook", TABLES["webhook"])
    asks = {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}
    kubeconfig = await as_viewer(patient, asks)
    (found,) = await patient.examine(CHECK, kubeconfig=kubeconfig)
    assert (found.severity, found.message) == (
        Severity.ok,
        "role webhook has all permissions that it needs, and no dangerous one that the doctor knows",
    )


async def test_who_may_not_ask_gets_one_finding(patient: Patient) -> None:
    for role in ("webhook", "agent"):
        await patient.enroll(role, TABLES[role])
    (found,) = await patient.examine(CHECK, kubeconfig=await as_viewer(patient))
    assert (found.severity, found.code, found.message) == (
        Severity.warning,
        "BERTH0001",
        "not checked: you have no right to create subjectaccessreviews.authorization.k8s.io in the whole cluster",
    )
    assert found.command == "kubectl auth can-i create subjectaccessreviews.authorization.k8s.io -A"


@pytest.mark.parametrize("role", ["controller", "webhook"])
async def test_one_binding_that_is_missing_is_one_error(patient: Patient, role: str) -> None:
    """What the role may not do follows from it; the command of the cause writes the binding again."""
    await patient.enroll(role, TABLES[role])
    await patient.client.delete(CLUSTER_ROLE_BINDINGS, f"berth-{role}")
    found = with_causes(await patient.examine(CHECK))
    (cause,) = roots(found)
    assert (cause.severity, cause.code, cause.subject) == (
        Severity.error,
        "BERTH0801",
        f"ServiceAccount {HOME}/berth-{role}",
    )
    assert cause.message.endswith("resources: no ClusterRoleBinding names it")
    assert len(follow_from(cause, found)) > 1
    assert {one.code for one in follow_from(cause, found)} == {"BERTH0802"}
    await patient.run(cause.command)
    assert not await patient.complaints(CHECK)


async def test_a_binding_to_a_role_that_is_missing(patient: Patient) -> None:
    await patient.enroll("agent", TABLES["agent"])
    await patient.client.delete(CLUSTER_ROLES, "berth-agent")
    (cause,) = roots(with_causes(await patient.examine(CHECK)))
    assert cause.message.endswith("ClusterRoleBinding berth-agent names ClusterRole berth-agent, which is missing")


async def test_a_role_that_should_be_here_and_is_not(patient: Patient) -> None:
    (found,) = await patient.examine(CHECK, roles=frozenset({"gateway"}))
    assert found.message == f"no ServiceAccount of role gateway was found in namespace {HOME}"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (
            'RBAC: allowed by ClusterRoleBinding "x" of ClusterRole "y" to ServiceAccount "z/ns"',
            Grant("ClusterRoleBinding", "x"),
        ),
        ('RBAC: allowed by RoleBinding "x/ns" of Role "y" to User "z"', Grant("RoleBinding", "x", "ns")),
        ("allowed by the house", Grant()),
    ],
)
def test_whence_a_right_comes(reason: str, expected: Grant) -> None:
    assert grant_of(reason) == expected


def test_the_keeper_needs_the_secret_that_it_was_told_to_keep() -> None:
    """Each release names its own; the default is that of a release `berth`."""
    for arguments, secret in (
        ([], WEBHOOK_SECRET),
        (["--webhook-secret=prod-webhook-tls"], "prod-webhook-tls"),
    ):
        container = {"name": "keeper", "args": ["certificates", *arguments]}
        metadata = {"name": "keeper", "namespace": HOME}
        running = read_deployment({"metadata": metadata, "spec": {"template": {"spec": {"containers": [container]}}}})
        assert running is not None
        wanted = needed_by("certificates", running.deployed, release="prod", gateway_here=False)
        assert [one.names for one in wanted if one.resources == ("secrets",) and one.names] == [(secret,)]


UPGRADE = f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values"
ROLLBACK, UNINSTALL = f"helm rollback berth 2 --namespace {HOME}", f"helm uninstall berth --namespace {HOME}"


@pytest.mark.parametrize(
    ("states", "command"),
    [
        (["superseded", "deployed"], None),
        (["deployed", "failed"], UPGRADE),
        (["superseded", "deployed", "pending-upgrade"], ROLLBACK),
        (["superseded", "superseded", "pending-rollback"], ROLLBACK),
        (["pending-install"], UNINSTALL),
        (["deployed", "uninstalling"], UNINSTALL),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
async def test_a_release_that_helm_has_not_finished(patient: Patient, states: list[str], command: str | None) -> None:
    for number, state in enumerate(states, start=1):
        name = f"sh.helm.release.v1.berth.v{number}"
        given = {"owner": "helm", "name": "berth", "status": state, "version": str(number)}
        await patient.create(SECRETS, name, namespace=HOME, metadata={"labels": given}, data={"release": "Ym9v"})
    under_way = [finding for finding in await patient.examine(CHECK) if finding.code == "BERTH0806"]
    patient.later += timedelta(hours=1)
    found = [finding for finding in await patient.examine(CHECK) if finding.code == "BERTH0806"]
    assert [finding.command for finding in found] == ([command] if command else [])
    if command and command != UPGRADE:
        assert [(finding.severity, finding.command) for finding in under_way] == [(Severity.info, "")]
        assert found[0].severity is Severity.error
        assert found[0].message.startswith(f"revision {len(states)} is {states[-1]}")


async def test_what_is_in_secrets_of_helm_is_not_read(patient: Patient) -> None:
    given = {"owner": "helm", "name": "berth", "status": "failed", "version": "1"}
    await patient.create(
        SECRETS, "sh.helm.release.v1.berth.v1", namespace=HOME, metadata={"labels": given}, data={"release": "Ym9v"}
    )
    (secret,) = await patient.client.metadata(SECRETS, namespace=HOME, label_selector="owner=helm")
    assert secret["metadata"]["labels"] == given
    assert "data" not in secret
