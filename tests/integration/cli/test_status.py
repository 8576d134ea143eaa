"""`berth status` as it is typed, in an infra cluster, in a tenant's, in an empty one, and where it may read little."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from app.appwrappers.model import APP_WRAPPERS
from app.definitions import GROUPS, INFRA, TENANT, read_definitions
from app.devtools.sandbox.pki import Authority
from app.devtools.sandbox.server import Cluster
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    SERVICES,
    Resource,
)
from app.kube.transport import connect
from app.placement.model import HOST_LABEL, TENANT_LABEL
from app.rmd.model import RMD_NODE_STATES
from app.text import stamp
from app.workloads.model import ADMIN_RULES, COMPANION, MIRROR, TENANTS, UVS_PODS, WORKLOAD_RULES
from tests.integration.doctor.installation import Place
from tests.integration.doctor.patient import HOME, Patient
from tests.support.forking import BerthProcess
from tests.support.waiting import PATIENCE

JSON = dict[str, Any]
pytestmark = pytest.mark.asyncio(loop_scope="module")
TEMPLATE = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "app", "image": "app"}]}}
RULE = {
    "resourceType": "v1/Pod",
    "workloadTerms": [{"matchExpressions": [{"key": "metadata.id", "operator": "Exists"}]}],
    "dpuSelectionPolicy": "Any",
    "template": TEMPLATE,
}
SINCE = "2026-01-01T00:00:00Z"


@asynccontextmanager
async def a_cluster(folder: Path, kinds: Sequence[Resource]) -> AsyncIterator[Patient]:
    async with Cluster("status") as cluster:
        path = folder / "kubeconfig"
        path.write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(path), deadline=PATIENCE) as client:
            for definition in read_definitions(kinds):
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            for name in (HOME, "universe", "tenant-tenant1"):
                await client.create(NAMESPACES, {"metadata": {"name": name}})
            yield Patient(cluster, client, path)


def condition(kind: str, status: str, reason: str, message: str) -> JSON:
    said = {"type": kind, "status": status, "reason": reason, "message": message}
    return {**said, "lastTransitionTime": SINCE, "observedGeneration": 1}


async def a_tenant(patient: Patient, name: str, host: str, connected: JSON) -> None:
    until = stamp(datetime.now(UTC) + timedelta(days=60, hours=1))
    identity = {"names": [f"{name}.tenant.local"], "certificates": [{"sha256": name[-1] * 64, "until": until}]}
    await patient.create(TENANTS, name, spec={"identity": identity, "hosts": [host]})
    status = {"result": "success", "observedGeneration": 1, "conditions": [connected]}
    if connected["status"] == "True":
        status["lastContact"] = stamp()
    await patient.report(TENANTS, name, status)


async def a_rule(patient: Patient, resource: Resource, matched: int, created: int, ready: JSON) -> None:
    spec = {**RULE, "tenantMatch": ["*"]} if resource == ADMIN_RULES else RULE
    await patient.create(resource, "one", namespace="universe", spec=spec)
    status = {"result": "success", "observedGeneration": 1, "matched": matched, "created": created}
    await patient.report(resource, "one", {**status, "conditions": [ready]}, namespace="universe")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def infra(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Patient]:
    """Two tenants, one of them refused; four companions are wanted, and one of three Pods waits."""
    folder = tmp_path_factory.mktemp("infra")
    async with a_cluster(folder, (*INFRA, NETWORK_ATTACHMENTS)) as patient:
        place = Place(patient, folder)
        for role in ("controller", "gateway"):
            await place.deploy(role)
        await place.report("gateway", replicas=2, ready=1)
        waits = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
        await place.pod("berth-gateway-1", "gateway", containerStatuses=[{"name": "gateway", "state": waits}])
        await place.lead("berth-controller")
        await patient.create(NODES, "dpu-a", metadata={"labels": {HOST_LABEL: "host-a", TENANT_LABEL: "tenant1"}})
        await patient.report(NODES, "dpu-a", {"allocatable": {"example.com/foo": "2"}})
        await a_tenant(patient, "tenant1", "host-a", condition("Connected", "True", "AgentConnected", "it is"))
        refused = condition("Connected", "False", "CertificateRefused", "the certificate is not pinned")
        await a_tenant(patient, "tenant2", "host-b", refused)
        await a_rule(patient, ADMIN_RULES, 4, 3, condition("Ready", "False", "Waiting", "3 of 4 companions exist"))
        for number, phase in enumerate(("Running", "Running", "Pending")):
            await patient.pod(f"companion-{number}", namespace="tenant-tenant1", labels={COMPANION: "admin"})
            unscheduled = condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available")
            unscheduled.pop("observedGeneration")
            conditions = [unscheduled] if phase == "Pending" else []
            said = {"phase": phase, "conditions": conditions}
            await patient.report(PODS, f"companion-{number}", said, namespace="tenant-tenant1")
        await patient.attachment("foo", resource="example.com/foo")
        await patient.attachment("nothing", resource="example.com/nothing")
        yield patient


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def empty(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Patient]:
    async with a_cluster(tmp_path_factory.mktemp("empty"), ()) as patient:
        yield patient


def start(kubeconfig: Path, *arguments: str, **options: Any) -> BerthProcess:
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "50"}
    return BerthProcess("status", "--kubeconfig", str(kubeconfig), *arguments, env=environment, **options)


@contextmanager
def watching(kubeconfig: Path, *arguments: str, **options: Any) -> Iterator[BerthProcess]:
    """It is ended where a test fails meanwhile."""
    with start(kubeconfig, "--watch", "--interval", "1", *arguments, **options) as process:
        try:
            yield process
        finally:
            process.kill()


async def berth(kubeconfig: Path, *arguments: str) -> tuple[int, str, str]:
    with start(kubeconfig, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out, err = await asyncio.to_thread(process.communicate)
    return process.returncode, out, err


async def test_an_infra_cluster(infra: Patient) -> None:
    code, out, err = await berth(infra.kubeconfig)
    assert (code, err) == (4, "")
    out = out.replace(str(infra.kubeconfig), "KUBECONFIG")
    assert max(map(len, out.splitlines())) <= 80
    text = re.sub(r"\d+ (s|min) +", "0 s      ", re.sub(r"release berth: .*Z", "release berth: NOW", out))
    screen, doctor = text.split("\nDOCTOR: ")
    assert screen.splitlines() == [
        "Berth in namespace berth-system, release berth: NOW",
        "",
        "ROLES: 2 roles, 1 ready",
        "  ROLE        READY  LEADER                 VERSION",
        "  gateway     1/2    -                      0.1.0",
        "    Pod berth-gateway-1: ImagePullBackOff: container gateway: no such image",
        "  controller  2/2    berth-controller-1_ab  0.1.0",
        "",
        "ATTACHMENTS: 2 attachments, 1 of them for a device that nothing offers",
        "  RESOURCE             ATTACHMENTS  EXAMPLE",
        "  example.com/nothing  1            default/nothing",
        "    nothing offers it",
        "",
        "COMPANIONS: 4 wanted, 2 running, 2 waiting, 0 ended",
        "  REASON         COUNT  EXAMPLE",
        "  Unschedulable  1      Pod tenant-tenant1/companion-2",
        "    0/1 nodes are available",
        "  Waiting        1      AdminWorkloadRule universe/one",
        "    3 of 4 companions exist",
        "",
        "TENANTS: 2 tenants, 1 connected",
        "  TENANT   AGENT               CONTACT  CERT  HOSTS  DPUS  STATE",
        "  tenant2  CertificateRefused  -        60    1      0/0   ready",
        "    the certificate is not pinned; no node is the DPU of host-b",
        "  tenant1  AgentConnected      0 s      60    1      1/1   ready",
    ]
    assert re.match(r"[1-9]\d* errors?, ", doctor)
    assert doctor.splitlines()[-2:] == [
        "  berth doctor --berth-namespace berth-system --release-name berth \\",
        "    --kubeconfig KUBECONFIG",
    ]


async def test_json_is_for_programs(infra: Patient) -> None:
    code, out, err = await berth(infra.kubeconfig, "--output", "json")
    assert (code, err) == (4, "")
    found = json.loads(out)
    assert (found["namespace"], found["release"], found["severity"]) == (HOME, "berth", "error")
    sections = found["sections"]
    assert list(sections) == ["roles", "attachments", "companions", "tenants"]
    assert sections["companions"]["totals"] == {"wanted": 4, "running": 2, "waiting": 2, "ended": 0}
    (controller,) = [one for one in sections["roles"]["items"] if one["role"] == "controller"]
    assert controller == {
        "role": "controller",
        "kind": "Deployment",
        "name": "berth-controller",
        "ready": 2,
        "wanted": 2,
        "leader": "berth-controller-1_ab",
        "version": "0.1.0",
        "message": None,
        "severity": "ok",
    }
    command = f"berth doctor --berth-namespace {HOME} --release-name berth --kubeconfig {infra.kubeconfig}"
    assert found["doctor"]["command"] == command
    # It counts as the doctor does: what follows from a finding is none of its own.
    process = BerthProcess(
        "doctor", "--kubeconfig", str(infra.kubeconfig), "-o", "json", stdout=subprocess.PIPE, text=True
    )
    with process:
        said, _ = await asyncio.to_thread(process.communicate)
    summary = json.loads(said)["summary"]
    assert {name: found["doctor"][name] for name in summary} == summary


async def test_findings_are_counted_as_the_doctor_counts_them(infra: Patient) -> None:
    """What follows from another is not."""
    await Place(infra, infra.kubeconfig.parent).deploy("webhook", replicas=0)
    try:
        _, out, _ = await berth(infra.kubeconfig, "-o", "json")
        with BerthProcess(
            "doctor", "--kubeconfig", str(infra.kubeconfig), "-o", "json", stdout=subprocess.PIPE, text=True
        ) as process:
            said, _ = await asyncio.to_thread(process.communicate)
    finally:
        await infra.client.delete(DEPLOYMENTS, "berth-webhook", namespace=HOME)
    found, counted = json.loads(said), json.loads(out)["doctor"]
    assert any(one["follows"] for one in found["findings"])
    assert {name: counted[name] for name in found["summary"]} == found["summary"]


async def test_a_tenants_cluster(tmp_path: Path) -> None:
    """It has no tenants and no DPUs; companions are known by rules and UVSPods."""
    async with a_cluster(tmp_path, TENANT) as patient:
        await Place(patient, tmp_path).deploy("agent")
        await Place(patient, tmp_path).lead("berth-agent", holder="berth-agent-1_ab")
        await a_rule(patient, WORKLOAD_RULES, 2, 2, condition("Ready", "True", "AsDesired", "2 of 2 companions exist"))
        for number, phase in enumerate(("Running", "Pending")):
            spec = {"object": {**TEMPLATE, "metadata": {"name": f"c{number}"}}}
            labels = {"labels": {MIRROR: "true"}}
            await patient.create(UVS_PODS, f"c{number}", namespace="universe", spec=spec, metadata=labels)
            said = {"result": "success", "phase": phase, "conditions": [condition("Ready", "True", "Mirrored", "")]}
            await patient.report(UVS_PODS, f"c{number}", said, namespace="universe")
        _, out, _ = await berth(patient.kubeconfig, "-o", "json")
        sections = json.loads(out)["sections"]
        assert list(sections) == ["roles", "companions", "agent"]
        assert sections["companions"]["totals"] == {"wanted": 2, "running": 1, "waiting": 1, "ended": 0}
        assert [one["connected"] for one in sections["agent"]["items"]] == ["yes"]
        assert [one["leader"] for one in sections["roles"]["items"]] == ["berth-agent-1_ab"]
        apart = condition("Ready", "Unknown", "NotConnected", "not connected since then because CertificateRefused")
        status = {"result": "", "conditions": [apart]}
        await patient.report(WORKLOAD_RULES, "one", status, namespace="universe")
        code, out, _ = await berth(patient.kubeconfig)
        assert code == 4
        assert "    not connected since then because CertificateRefused" in out.splitlines()


async def test_an_empty_cluster(empty: Patient) -> None:
    code, out, err = await berth(empty.kubeconfig)
    assert (code, err) == (3, "")
    lines = out.splitlines()
    assert lines[2:4] == [
        "ROLES: 0 roles, 0 ready",
        "  no Deployment here runs Berth; --berth-namespace names another namespace",
    ]
    assert lines[5].startswith("DOCTOR: 1 warning, ")


async def test_a_namespace_without_berth_is_an_error_where_another_has_leases(empty: Patient) -> None:
    """The agent's Lease is in `universe`, whichever namespace the user names."""
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 3600, "renewTime": stamp().replace("Z", ".000000Z")}
    await empty.create(LEASES, "berth-agent", namespace="universe", spec=spec)
    try:
        code, out, _ = await berth(empty.kubeconfig, "--berth-namespace", "nope")
        assert code == 4
        assert "no Deployment in namespace nope runs Berth: want the namespace of its release" in " ".join(out.split())
        # If the user names none, the Lease shows that the role runs.
        code, out, _ = await berth(empty.kubeconfig)
        assert (code, out.splitlines()[2]) == (3, "ROLES: 1 role, 1 ready")
    finally:
        await empty.client.delete(LEASES, "berth-agent", namespace="universe")


async def test_a_lease_that_is_left_behind_is_no_role(empty: Patient, tmp_path: Path) -> None:
    """After an uninstallation, or where the process that held it is gone."""
    await Place(empty, tmp_path).lead("berth-controller", ago=timedelta(minutes=1), good_for=15)
    try:
        code, out, _ = await berth(empty.kubeconfig)
    finally:
        await empty.client.delete(LEASES, "berth-controller", namespace=HOME)
    assert code == 3
    lines = out.splitlines()
    assert lines[2] == "ROLES: 0 roles, 0 ready"
    note = "left behind, no Deployment here runs the role: Lease berth-system/berth-controller was last renewed at"
    assert note in " ".join(" ".join(lines).split())


async def test_wings_are_there_where_their_kinds_or_roles_are(tmp_path: Path) -> None:
    """And a role that runs as a process of its own is known by its Lease."""
    kinds = (*GROUPS["appwrappers"], *GROUPS["rmd"])
    async with a_cluster(tmp_path, kinds) as patient:
        place = Place(patient, tmp_path)
        await place.deploy("controller", "--controllers=claims,network-services", "--no-leader-elect")
        await place.lead("berth-agent", holder="host-a_12")

        def store(resource: Resource, name: str, **fields: Any) -> None:
            metadata = {"namespace": "default", "name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
            body = resource.body(metadata, **fields)
            patient.cluster.storage.create((resource.group, resource.plural), body)

        for number, phase in enumerate(("Running", "Running", "Suspended", None)):
            store(APP_WRAPPERS, f"w{number}", status={"phase": phase} if phase else {})
        for name, said in (("n1", condition("Connected", "True", "Answered", "")), ("n2", None)):
            store(RMD_NODE_STATES, name, spec={"node": name}, status={"conditions": [said] if said else []})
        results = [{"request": "r", "driver": "d", "pool": "p", "device": "a"}]
        entry = {"driver": "d", "pool": "p", "device": "a", "networkData": {"ips": ["10.0.0.1/24"]}}
        for name, devices in (("c1", [entry]), ("c2", [])):
            status = {"allocation": {"devices": {"results": results}}, "devices": devices}
            store(RESOURCE_CLAIMS, name, spec={}, status=status)
        store(RESOURCE_CLAIMS, "c3", spec={}, status={})
        for name, annotations in (
            ("usual", {}),
            ("db", {"berth.dev/network": "net", "berth.dev/selector": "app=x"}),
            ("odd", {"berth.dev/network": "net"}),
        ):
            spec = {"clusterIP": "None", "ports": [{"port": 80}]}
            await patient.create(SERVICES, name, namespace="default", metadata={"annotations": annotations}, spec=spec)
        code, out, err = await berth(patient.kubeconfig)
        assert (code in (3, 4), err) == (True, "")
        assert [line for line in out.partition("DOCTOR:")[0].splitlines() if not line.startswith("Berth ")] == [
            "",
            "ROLES: 2 roles, 2 ready",
            "  ROLE        READY  LEADER     VERSION",
            "  controller  2/2    -          0.1.0",
            "  agent       -      host-a_12  -",
            "",
            "APPWRAPPERS: 4 AppWrappers, 1 New, 1 Suspended, 2 Running",
            "  REASON                  COUNT  EXAMPLE",
            "  Running, not ready yet  2      AppWrapper default/w0",
            "    its Pods are not ready yet",
            "  New                     1      AppWrapper default/w3",
            "    its controller has not looked at it yet",
            "  Suspended               1      AppWrapper default/w2",
            "",
            "RMD: 2 nodes, 1 ready, 0 workloads",
            "  NODE  REASON  COUNT  EXAMPLE",
            "  n2    -       -      -",
            "    the controller has not asked the daemon yet",
            "",
            "CLAIMS: 2 allocated, 1 with network data",
            "  REASON           COUNT  EXAMPLE",
            "  held for no Pod  2      default/c1",
            "",
            "SERVICES: 2 services, 2 of them without endpoints",
            "  REASON       COUNT  EXAMPLE",
            "  BadSelector  1      default/odd",
            "  NoEndpoints  1      default/db",
            "",
        ]


async def test_what_may_not_be_read_is_said_and_hides_nothing(infra: Patient) -> None:
    """One who may list Tenants alone. Neither a section nor a line of one asks for Secrets."""
    rules = [{"apiGroups": [TENANTS.group], "resources": ["tenants"], "verbs": ["get", "list"]}]
    await infra.bind("reader", rules)
    path = infra.kubeconfig.with_name("reader")
    path.write_text(infra.cluster.kubeconfig(f"system:serviceaccount:{HOME}:reader", ()))
    code, out, err = await berth(path, "--berth-namespace", HOME, "-o", "json")
    assert (code, err) == (4, "")
    sections = json.loads(out)["sections"]
    tenants = sections["tenants"]
    assert [(one["tenant"], one["hosts"], one["dpus"]) for one in tenants["items"]] == [
        ("tenant1", 1, None),
        ("tenant2", 1, None),
    ]
    assert tenants["unread"] == ["not checked: you have no right to list nodes in the whole cluster"]
    assert sections["roles"]["unread"] == [
        f"not checked: you have no right to list deployments.apps in namespace {HOME}",
        f"not checked: you have no right to list daemonsets.apps in namespace {HOME}",
    ]
    for name in ("roles", "companions", "attachments"):
        assert sections[name]["unread"]
        assert not any(sections[name]["totals"].values()), "what was not read is not counted as 0"
    assert not [text for one in sections.values() for text in one["unread"] if "secret" in text]


async def test_a_user_without_any_right(empty: Patient) -> None:
    code, out, err = await berth(empty.kubeconfig_of("nobody"))
    assert (code, err) == (3, "")
    assert "  not checked: you have no right to list deployments.apps in namespace" in out
    assert "Traceback" not in out


async def test_credentials_that_are_not_accepted_are_one_line(empty: Patient, tmp_path: Path) -> None:
    """No section would say more."""
    path = tmp_path / "kubeconfig"
    found = yaml.safe_load(empty.kubeconfig.read_text())
    found["users"][0]["user"] = {"token": "not-a-token"}
    path.write_text(yaml.safe_dump(found))
    code, out, err = await berth(path)
    assert (code, out) == (1, "")
    assert re.fullmatch(r"Error: the API server could not be asked: .*HTTP 401.*\n", err)


async def test_companions_are_counted_over_all_pages(tmp_path: Path) -> None:
    async with a_cluster(tmp_path, ()) as patient:
        for number in range(1200):
            metadata = {"namespace": "default", "name": f"c{number}", "labels": {COMPANION: "admin"}}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": "Running"}}
            patient.cluster.storage.create(("", "pods"), body)
        _, out, _ = await berth(patient.kubeconfig, "-o", "json")
        assert json.loads(out)["sections"]["companions"]["totals"]["running"] == 1200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--context", "nowhere"], "kubeconfig "),
        (["-n", "A B"], "--namespace: "),
        (["--berth-namespace", "A B"], "--berth-namespace: "),
        (["--interval", "0"], ""),
    ],
)
async def test_a_wrong_command_line_is_one_line(empty: Patient, arguments: list[str], message: str) -> None:
    code, out, err = await berth(empty.kubeconfig, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"Error: {message}")
    assert err.count("\n") == 1


async def test_a_server_that_is_away_is_one_line(tmp_path: Path) -> None:
    async with a_cluster(tmp_path, ()) as patient:
        pass
    code, out, err = await berth(patient.kubeconfig)
    assert (code, out) == (1, "")
    assert err.startswith("Error: the API server could not be asked: ")
    assert err.count("\n") == 1


async def until(read: Callable[[], bytes], wanted: str) -> str:
    """What is read until it has the text."""
    found = b""
    async with asyncio.timeout(PATIENCE):
        while wanted not in found.decode(errors="replace"):
            found += await asyncio.to_thread(read)
    return found.decode()


def screens(process: BerthProcess) -> Callable[[], bytes]:
    assert process.stdout is not None
    return process.stdout.readline


async def test_a_watch_on_a_pipe_shows_each_change_and_survives_the_server(tmp_path: Path) -> None:
    """Cluster: stopped, then another one at its place."""
    authority = Authority("status")
    first = Cluster("first", authority=authority)
    await first.start()
    path = tmp_path / "kubeconfig"
    path.write_text(first.kubeconfig())
    with watching(path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        read = screens(process)
        shown = await until(read, "DOCTOR: 1 warning")
        assert shown.startswith("Berth in namespace berth-system, release berth: 20")
        assert "ATTACHMENTS" not in shown
        await first.stop()
        await until(read, ": the API server could not be asked: ")
        second = Cluster("second", authority=authority, port=int(first.url.rpartition(":")[2]))
        async with second:
            path.write_text(second.kubeconfig())
            async with await connect(kubeconfig=str(path), deadline=PATIENCE) as client:
                for definition in read_definitions((NETWORK_ATTACHMENTS,)):
                    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
                shown = await until(read, "ATTACHMENTS: 0 attachments")
                assert "could not be asked" not in shown
                process.send_signal(signal.SIGINT)
                _, err = await asyncio.to_thread(process.communicate)
    assert (process.returncode, err) == (130, b"")


async def test_a_watch_in_json_is_a_document_a_line(empty: Patient) -> None:
    with watching(empty.kubeconfig, "-o", "json", stdout=subprocess.PIPE) as process:
        line = await until(screens(process), "\n")
        process.send_signal(signal.SIGINT)
        await asyncio.to_thread(process.wait)
    assert process.returncode == 130
    assert json.loads(line)["sections"]["roles"]["totals"] == {"roles": 0, "ready": 0}


async def test_a_watch_in_a_terminal_draws_over_itself(empty: Patient) -> None:
    """It never clears what is there, gives the terminal back on Ctrl-C, and leaves the last screen in it."""
    leader, follower = pty.openpty()

    def read() -> bytes:
        try:
            return os.read(leader, 65536)
        except OSError:  # Linux reports the closed far end as an error
            return b""

    with watching(empty.kubeconfig, stdout=follower) as process:
        os.close(follower)
        shown = await until(read, "DOCTOR: 1 warning")
        process.send_signal(signal.SIGINT)
        while more := await asyncio.to_thread(read):
            shown += more.decode()
        await asyncio.to_thread(process.wait)
    os.close(leader)
    assert process.returncode == 130
    assert shown.startswith("\x1b[?1049h")
    assert "\x1b[2J" not in shown
    assert shown.count("\x1b[H") >= 2
    drawn, given_back = shown.split("\x1b[?1049l")
    assert "\x1b[?25h" in drawn
    assert "Berth in namespace berth-system" in given_back


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("berth sta", {"status"}),
        ("berth status --", {"--output", "--watch", "--interval", "--namespace", "--kubeconfig", "--context"}),
        ("berth status --output ", {"text", "json"}),
    ],
)
async def test_a_shell_completes_it(words: str, wanted: set[str]) -> None:
    typed = words.split(" ")
    environment = {"_BERTH_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(typed) - 1)}
    with BerthProcess(env=os.environ | environment, stdout=subprocess.PIPE, text=True) as process:
        out, _ = await asyncio.to_thread(process.communicate)
    assert wanted <= set(out.split())
