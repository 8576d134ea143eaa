"""In the sandbox the roles are what they are in any cluster: objects, by which status, doctor and why know Berth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.users import Kubectl
from tests.support.chart import Render
from tests.support.command_line import berth
from tests.support.waiting import Refused, wait_until

pytestmark = pytest.mark.e2e
ROLES = {
    "icp": {"controller", "gateway", "webhook"},
    "tenant1": {"agent", "controller", "webhook"},
    "tenant2": {"agent", "webhook"},
}
LED = {"agent", "controller"}
HOME = "berth-system"


def status(sandbox: Path, context: str) -> dict[str, Any]:
    done = berth("status", "--kubeconfig", str(sandbox / "kubeconfig"), "--context", context, "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("context", ROLES)
def test_status_lists_the_roles_as_ready_with_versions_and_leaders(sandbox: Path, context: str) -> None:
    rows = status(sandbox, context)["sections"]["roles"]["items"]
    assert {row["role"] for row in rows} == ROLES[context]
    for row in rows:
        assert (row["kind"], row["ready"], row["message"]) == ("Deployment", row["wanted"], None)
        assert row["version"]
        assert (row["leader"] or "").startswith(f"berth-{row['role']}-") is (row["role"] in LED)


@pytest.mark.parametrize("context", ROLES)
def test_the_doctor_has_nothing_to_complain_of(sandbox: Path, context: str) -> None:
    """But for one replica of a role, which it only mentions. Rights and Leases are those of the roles."""
    named = ("--kubeconfig", str(sandbox / "kubeconfig"), "--context", context)
    done = berth("doctor", *named, "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert {finding["code"] for finding in findings if finding["severity"] not in ("ok", "skipped")} <= {"BERTH0307"}
    assert {"permissions", "leases"} <= {finding["check"] for finding in findings if finding["severity"] == "ok"}


REGISTERED = {
    "icp": {"confineTenants": True},
    "tenant1": {"appwrappers": True, "claims": True, "rmdBackend": "daemon"},
    "tenant2": {},
}
"""With which values of `webhook.args` the chart registers what the webhook of each cluster serves."""
_ELSEWHERE = ("clientConfig", "timeoutSeconds")
"""Another address, and a machine that all of the sandbox shares."""


@pytest.mark.parametrize("context", REGISTERED)
@pytest.mark.parametrize("kind", ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
def test_the_webhooks_are_registered_as_by_the_chart(sandbox: Path, render: Render, context: str, kind: str) -> None:
    rendered = render({"webhook": {"args": REGISTERED[context]}}, namespace=HOME).one(kind)
    kubectl = Kubectl(sandbox / f"{context}.kubeconfig")
    # An API server fills in the defaults of both.
    charted = kubectl.create({**rendered, "metadata": {"name": "charted"}}, dry_run=True)["webhooks"]
    ours = kubectl.get(kind, "berth")["webhooks"]
    assert [without(webhook) for webhook in ours] == [without(webhook) for webhook in charted]


def without(webhook: dict[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in webhook.items() if field not in _ELSEWHERE}


def test_why_judges_a_role(sandbox: Path) -> None:
    done = berth("why", "deployment/berth-webhook", "-n", HOME, "--kubeconfig", str(sandbox / "tenant1.kubeconfig"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2" in done.stdout


@pytest.mark.parametrize(
    ("context", "kinds"),
    [
        ("icp", ("network-attachment-definitions", "workloads.workload.infra.universe.nvidia.com")),
        ("tenant1", ("network-attachment-definitions", "workloadrules", "uvspods", "appwrappers", "rmdworkloads")),
        ("tenant2", ("network-attachment-definitions", "workloadrules", "uvspods")),
    ],
)
def test_who_has_view_in_a_namespace_reads_the_kinds_of_berth_there(
    sandbox: Path, context: str, kinds: tuple[str, ...]
) -> None:
    kubectl = Kubectl(sandbox / f"{context}.kubeconfig")
    user = "system:serviceaccount:default:reader"
    kubectl.run("create", "serviceaccount", "reader")
    kubectl.run("create", "rolebinding", "reader", "--clusterrole", "view", "--serviceaccount", "default:reader")
    try:
        for kind in kinds:
            assert kubectl.run("auth", "can-i", "list", kind, "--as", user).strip() == "yes", kind
        with pytest.raises(Refused):  # kubectl says no by its exit status
            kubectl.run("auth", "can-i", "delete", kinds[0], "--as", user)
    finally:
        kubectl.run("delete", "rolebinding/reader", "serviceaccount/reader")


def test_a_role_ends_and_begins_with_its_pods(sandbox: Path) -> None:
    """The webhook that is scaled to 0 answers no more."""
    kubectl = Kubectl(sandbox / "tenant2.kubeconfig")
    attachment = {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "asked-for"},
        "spec": {"config": '{"cniVersion": "0.3.1", "type": "bridge"}'},
    }
    text = json.dumps(attachment)

    def admitted() -> bool:
        try:
            kubectl.run("apply", "--dry-run=server", "-f", "-", stdin=text)
        except Refused as refused:
            if "failed calling webhook" not in str(refused):
                raise
            return False
        return True

    assert admitted()
    try:
        kubectl.run("scale", "-n", HOME, "deployment/berth-webhook", "--replicas=0")
        wait_until(lambda: not admitted())
    finally:
        kubectl.run("scale", "-n", HOME, "deployment/berth-webhook", "--replicas=2")
        kubectl.run("rollout", "status", "-n", HOME, "deployment/berth-webhook", "--timeout=60s")
    wait_until(admitted)
