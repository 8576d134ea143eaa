"""`berth status`, `doctor` and `why` for one who has the ClusterRole `view` in one namespace, and no other right."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import helm_python
import pytest
import pytest_asyncio
import yaml

from app.appwrappers.model import APP_WRAPPERS
from app.definitions import ALL, read_definitions
from app.devtools.sandbox.server import Cluster
from app.devtools.sandbox.standins.standins import StandIns
from app.doctor.objects import labels
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NETWORK_ATTACHMENTS, PODS, ROLE_BINDINGS
from app.kube.transport import connect
from app.registry import CONTROLLERS
from app.users import AGGREGATE
from tests.integration.doctor.patient import CLUSTER_ROLES, RBAC, Patient
from tests.support import chart_combinations
from tests.support.chart import CHART, rendering
from tests.support.forking import BerthProcess
from tests.support.running import running
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
MINE, OTHER = "mine", "other"
LACKING = {"requests": {"example.com/foo": "1"}, "limits": {"example.com/foo": "1"}}
WRAPPER = {"components": [{"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}}]}
UNSCHEDULED = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}],
}


async def _bind(patient: Patient, user: str, role: str, namespace: str) -> None:
    await patient.create(
        ROLE_BINDINGS,
        f"{user}-{role}",
        namespace=namespace,
        roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        subjects=[{"kind": "User", "apiGroup": RBAC, "name": user}],
    )


def _has(role: dict[str, Any], others: list[dict[str, Any]]) -> bool:
    return all(rule in role["rules"] for other in others for rule in other["rules"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def patient(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Patient]:
    """All kinds of Berth; in each of two namespaces a Pod that lacks a resource, and an AppWrapper that waits."""
    folder = tmp_path_factory.mktemp("namespaced")
    values = {**chart_combinations.ALL, "controller": {"enabled": True, "args": {"controllers": [*CONTROLLERS]}}}
    rendered = rendering(helm_python.Chart.load(CHART))(values)
    viewers = [role for role in rendered.of("ClusterRole") if f"{AGGREGATE}view" in labels(role)]
    async with Cluster("namespaced") as cluster:
        path = folder / "kubeconfig"
        path.write_text(cluster.kubeconfig())
        async with (
            await connect(kubeconfig=str(path), deadline=PATIENCE) as client,
            running(StandIns(client, []).run()),
        ):
            for definition in read_definitions((*ALL, NETWORK_ATTACHMENTS)):
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            patient = Patient(cluster, client, path)
            for role in viewers:
                await client.create(CLUSTER_ROLES, role)
            for namespace in (MINE, OTHER):
                await client.create(NAMESPACES, {"metadata": {"name": namespace}})
                container = {"name": "app", "image": "app", "resources": LACKING}
                await patient.pod("waits", namespace=namespace, spec={"containers": [container]})
                await patient.report(PODS, "waits", UNSCHEDULED, namespace=namespace)
                await patient.create(APP_WRAPPERS, "wrapped", namespace=namespace, spec=WRAPPER)
            await _bind(patient, "ann", "view", MINE)
            await _bind(patient, "bob", "system:aggregate-to-view", MINE)
            await eventually(lambda: client.get(CLUSTER_ROLES, "view"), lambda role: _has(role, viewers))
            yield patient


async def berth(kubeconfig: Path, command: str, *arguments: str) -> tuple[int, str, str]:
    words = [*command.split(), *arguments, "--kubeconfig", str(kubeconfig)]
    with BerthProcess(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out, err = await asyncio.to_thread(process.communicate)
    return process.returncode, out, err


async def test_the_screen_has_the_objects_of_the_namespace(patient: Patient) -> None:
    code, out, err = await berth(patient.kubeconfig_of("ann"), f"status -n {MINE} -o json")
    status = json.loads(out)
    assert (status["scope"], err) == (MINE, "")
    assert status["leftOut"] == ["roles", "tenants", "agent"]
    assert status["sections"]["appWrappers"]["totals"]["all"] == 1
    assert [text for section in status["sections"].values() for text in section["unread"]] == []
    assert all(text.endswith("in the whole cluster") for text in status["beyond"])
    assert code == {"warning": 3, "error": 4}.get(status["severity"], 0)
    assert "berth-system --release-name berth --kubeconfig" in status["doctor"]["command"]
    assert status["doctor"]["command"].startswith(f"berth doctor --namespace {MINE} ")


async def test_the_screen_says_once_what_is_left_out(patient: Patient) -> None:
    _, out, _ = await berth(patient.kubeconfig_of("ann"), f"status -n {MINE}")
    assert out.startswith(f"Namespace {MINE}: ")
    assert out.count("no right to") == 0
    assert out.count("left out, for the whole cluster: roles, tenants, agent. No right to list") == 1


async def test_mine_is_the_namespace_of_the_context(patient: Patient) -> None:
    path = patient.kubeconfig_of("ann")
    config = yaml.safe_load(path.read_text())
    config["contexts"][0]["context"]["namespace"] = MINE
    path = path.with_name("mine.kubeconfig")
    path.write_text(yaml.safe_dump(config))
    for command in ("status", "doctor"):
        _, out, err = await berth(path, f"{command} --mine -o json")
        assert err == ""
        assert json.loads(out) if command == "doctor" else json.loads(out)["scope"] == MINE
    code, _, err = await berth(path, f"status --mine -n {OTHER}")
    assert (code, err) == (
        2,
        "Error: --mine is the namespace of the context, and --namespace names one: use one of them\n",
    )
    # `why` looks there, too.
    _, out, _ = await berth(path, "why pod/waits")
    assert out.startswith(f"Pod {MINE}/waits: ")


async def test_the_doctor_finds_what_is_wrong_in_the_namespace_alone(patient: Patient) -> None:
    code, out, err = await berth(patient.kubeconfig, f"doctor -n {MINE} -o json")
    findings = json.loads(out)["findings"]
    bad = [finding for finding in findings if finding["severity"] in ("error", "warning")]
    assert (code, err) == (4, "")
    assert {finding["code"] for finding in bad} == {"BERTH1207"}
    assert all(f" {MINE}/" in finding["subject"] for finding in bad)
    left_out = {finding["check"] for finding in findings if finding["message"].startswith("left out")}
    assert {"clock", "definitions", "registrations", "permissions", "tenants", "agent"} <= left_out
    assert not left_out & {"pods", "attachments", "rules", "companions", "appwrappers", "rmd", "claims"}


async def test_rights_that_only_the_whole_cluster_has_are_no_warning(patient: Patient) -> None:
    code, out, _ = await berth(patient.kubeconfig_of("ann"), f"doctor -n {MINE} -o json")
    lacking = [finding for finding in json.loads(out)["findings"] if finding.get("code") == "BERTH0001"]
    assert [finding["severity"] for finding in lacking] == ["info"]
    assert f"in namespace {MINE}" not in lacking[0]["message"]
    assert lacking[0]["command"] == ""
    assert code in (0, 3, 4)


async def test_a_right_that_is_missing_in_the_namespace_is_a_warning(patient: Patient) -> None:
    """Bob has what `view` has without Berth."""
    path = patient.kubeconfig_of("bob")
    code, out, _ = await berth(path, f"doctor -n {MINE} -o json --only attachments")
    (lacking,) = [finding for finding in json.loads(out)["findings"] if finding.get("code") == "BERTH0001"]
    assert (code, lacking["severity"]) == (3, "warning")
    assert lacking["command"].startswith(f"kubectl --kubeconfig {shlex.quote(str(path))} auth can-i list network-att")


async def test_a_pod_that_waits_for_a_device_is_named(patient: Patient) -> None:
    """Nodes may not be read: the scheduler has said why."""
    code, out, _ = await berth(patient.kubeconfig_of("ann"), f"doctor -n {MINE} -o json")
    (waits,) = [finding for finding in json.loads(out)["findings"] if finding.get("code") == "BERTH1208"]
    assert (code, waits["code"], waits["severity"], waits["subject"]) == (
        3,
        "BERTH1208",
        "warning",
        f"Pod {MINE}/waits",
    )
    assert waits["message"].startswith("Pending: no nodes available to schedule pods")
    assert waits["consequence"] == "no node takes it until one has what it asks for"
    code, out, _ = await berth(patient.kubeconfig_of("ann"), f"status -n {MINE}")
    assert (code, out.count(f"Pod {MINE}/waits")) == (3, 1)


async def test_a_namespace_that_is_not_there_is_a_mistake(patient: Patient) -> None:
    """A typing error in a monitoring job would be green for ever."""
    for command in ("status -n nope", "doctor -n nope"):
        code, out, err = await berth(patient.kubeconfig, command)
        assert (code, out) == (2, "")
        assert err.startswith("Error: --namespace: there is no namespace nope in the cluster (kubeconfig ")


async def test_why_names_the_cluster_in_its_commands(patient: Patient) -> None:
    _, out, _ = await berth(patient.kubeconfig, f"why pod/wait -n {MINE} -o yaml")
    assert yaml.safe_load(out)["fix"] == f"berth why pod/waits -n {MINE} --kubeconfig {patient.kubeconfig}"
