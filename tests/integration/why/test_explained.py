"""`berth explain` with a cluster that has a release of Berth: its flags, its registrations, who is left out."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from app.appwrappers.kueue.model import CLUSTER_QUEUES, LOCAL_QUEUES
from app.appwrappers.model import APP_WRAPPERS, QUEUE_NAME
from app.definitions import read_definitions
from app.devtools.kueue.definitions import kueue_definitions
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    NODES,
    ROLE_BINDINGS,
    VALIDATING_WEBHOOKS,
)
from app.rmd.model import RMD_WORKLOADS
from app.why.model import State
from tests.integration.doctor.installation import Place
from tests.integration.doctor.patient import CLUSTER_ROLES, RBAC, Patient
from tests.integration.doctor.rmd_patient import acting
from tests.support.fake_apiserver import ApiServer, status, write_kubeconfig
from tests.support.forking import BerthProcess
from tests.support.rmd_cluster import RmdCluster, StandIn

NETWORKS = "k8s.v1.cni.cncf.io/networks"


KEYS = "/spec/template/spec/containers/0/args/-"
OTHER_KEYS = {"op": "add", "path": KEYS, "value": "--network-resource-name-keys=other.io/resource"}


async def explained(place: Place, folder: Path, *words: str, namespace: str = "default", **pod: Any) -> dict[str, Any]:
    """The one Pod, as JSON has it."""
    return (await document(place, folder, *words, namespace=namespace, **pod))["objects"][0]  # type: ignore[no-any-return]


async def document(place: Place, folder: Path, *words: str, namespace: str = "default", **pod: Any) -> dict[str, Any]:
    """The whole answer about one Pod."""
    metadata = {"name": "web", "namespace": namespace, "annotations": {NETWORKS: "default/net"}, **pod}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    (folder / "pod.json").write_text(json.dumps(body))
    command = ("explain", "-f", str(folder / "pod.json"), "-o", "json", *words)
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = os.environ | {"KUBECONFIG": str(place.patient.kubeconfig)}
    with BerthProcess(*command, env=environment, **pipes) as process:
        out, err = await asyncio.to_thread(process.communicate)
    assert out, err
    return json.loads(out)  # type: ignore[no-any-return]


async def test_a_pod_of_a_namespace_that_has_opted_out_is_not_injected(place: Place, tmp_path: Path) -> None:
    await place.patient.attachment("net")
    assert (await explained(place, tmp_path))["operations"]
    out = {"key": "berth.dev/inject", "operator": "NotIn", "values": ["false"]}
    await place.register("namespaceSelector", {"matchExpressions": [out]})
    quiet = {"metadata": {"name": "quiet", "labels": {"berth.dev/inject": "false"}}}
    await place.client.create(NAMESPACES, quiet)
    pod = await explained(place, tmp_path, namespace="quiet")
    assert pod["operations"] == []
    assert pod["message"] == (
        "Berth is not asked: Namespace quiet has the label berth.dev/inject=false (namespaceSelector of pods.berth.dev)"
    )


async def test_without_a_registration_nothing_is_injected(place: Place, tmp_path: Path) -> None:
    await place.patient.attachment("net")
    await place.client.delete(MUTATING_WEBHOOKS, "berth")
    pod = await explained(place, tmp_path)
    assert (pod["operations"], pod["message"]) == ([], "no MutatingWebhookConfiguration calls Berth")


async def test_flags_are_those_of_the_release_and_those_that_are_given_win(place: Place, tmp_path: Path) -> None:
    """The key of an attachment that names its resource."""
    await place.patient.attachment("net")
    await place.change(DEPLOYMENTS, "berth-webhook", OTHER_KEYS)
    assert "example.com/nic" not in json.dumps(await explained(place, tmp_path))
    given = ("--network-resource-name-keys", "k8s.v1.cni.cncf.io/resourceName")
    assert "example.com/nic" in json.dumps(await explained(place, tmp_path, *given))


async def test_pods_beside_berth_are_left_alone(place: Place, tmp_path: Path) -> None:
    await place.patient.attachment("net")
    pod = await explained(place, tmp_path, namespace="berth-system")
    assert (pod["operations"], "berth-system" in pod["message"]) == ([], True)


async def test_a_broken_attachment_of_the_cluster_is_a_warning(place: Place, tmp_path: Path) -> None:
    """It was there before Berth checked any."""
    await place.client.delete(VALIDATING_WEBHOOKS, "berth")
    await place.patient.create(NETWORK_ATTACHMENTS, "net", namespace="default", spec={"config": "{"})
    answer = await document(place, tmp_path)
    (finding,) = answer["findings"]
    assert (finding["severity"], finding["reason"], finding["name"]) == ("warning", "BrokenAttachment", "web")
    assert finding["message"].startswith(
        "NetworkAttachmentDefinition default/net of the cluster is broken: spec.config"
    )
    assert answer["summary"]["warnings"] == 1


async def test_a_resource_that_nothing_offers_is_a_warning(place: Place, tmp_path: Path) -> None:
    await place.patient.attachment("net")
    answer = await document(place, tmp_path)
    (finding,) = answer["findings"]
    assert (finding["severity"], finding["reason"], finding["message"]) == (
        "warning",
        "Unoffered",
        "example.com/nic: nothing offers it: the Pod would stay Pending",
    )
    assert answer["summary"]["warnings"] == 1
    node = await place.patient.create(NODES, "n1")
    await place.patient.report(NODES, node["metadata"]["name"], {"allocatable": {"example.com/nic": "1"}})
    assert (await document(place, tmp_path))["findings"] == []


async def test_of_two_releases_the_one_that_is_named_counts(place: Place, tmp_path: Path) -> None:
    """By its namespace, or by its name. Of a namespace without one it is said."""
    await place.patient.attachment("net")
    await place.client.create(NAMESPACES, {"metadata": {"name": "zz"}})
    for resource, name in ((DEPLOYMENTS, "berth-webhook"), (MUTATING_WEBHOOKS, "berth")):
        found = await place.client.get(resource, name, namespace="berth-system" if resource.namespaced else None)
        text = json.dumps({**found, "metadata": {"labels": found["metadata"]["labels"], "name": f"zz-{name}"}})
        copy = json.loads(text.replace('"berth-system"', '"zz"').replace('instance": "berth"', 'instance": "other"'))
        await place.client.create(resource, copy, namespace="zz" if resource.namespaced else None)
    await place.client.patch(DEPLOYMENTS, "zz-berth-webhook", [OTHER_KEYS], patch_type="json", namespace="zz")
    for words, keys in (
        ((), True),
        (("--berth-namespace", "berth-system"), True),
        (("--berth-namespace", "zz"), False),
        (("--release-name", "other"), False),
    ):
        answer = await document(place, tmp_path, *words)
        assert ("example.com/nic" in json.dumps(answer["objects"])) is keys, words
        release = "berth in namespace berth-system" if keys else "other in namespace zz"
        assert f"flags and registrations are those of release {release}" in answer["notes"]
    answer = await document(place, tmp_path, "--berth-namespace", "default")
    assert "there is no release of Berth in namespace default: flags are defaults" in answer["notes"]


async def warned(patient: Patient, folder: Path, *objects: dict[str, Any]) -> list[str]:
    """The warnings about these objects, by explain; those of `berth why -f` are about the same ones."""
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    command = ("explain", "-f", str(folder / "objects.yaml"), "-o", "json", "--kubeconfig", str(patient.kubeconfig))
    with BerthProcess(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out, err = await asyncio.to_thread(process.communicate)
    assert process.returncode == 0, out + err
    findings = [finding for finding in json.loads(out)["findings"] if finding["reason"] == "WouldNotRun"]
    assert {finding["severity"] for finding in findings} <= {"warning"}
    for obj in objects:
        stuck = (await patient.why(manifests=[obj])).verdict.state > State.waits
        assert stuck == any(finding["name"] == obj["metadata"]["name"] for finding in findings)
    return [finding["message"] for finding in findings]


async def test_an_app_wrapper_that_would_not_run_is_a_warning(patient: Patient, tmp_path: Path) -> None:
    """Its queue is missing, or its ClusterQueue has less than it asks for, in all flavors and without a cohort."""
    for body in (*read_definitions((APP_WRAPPERS,)), *kueue_definitions()):
        if body["metadata"]["name"].startswith("clusterqueues."):
            for version in body["spec"]["versions"]:  # as the Kueue of a cluster has it
                version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["cohortName"] = {
                    "type": "string"
                }
        await patient.client.create(CUSTOM_RESOURCE_DEFINITIONS, body)
    flavors = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": "2"}]} for name in ("a", "b")]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    for name, cohort in (("all", {}), ("shared", {"cohortName": "team"})):
        wanted = {"resourceGroups": groups, "namespaceSelector": {}} | cohort
        await patient.create(CLUSTER_QUEUES, name, spec=wanted)
        await patient.create(LOCAL_QUEUES, f"{name}-queue", namespace="default", spec={"clusterQueue": name})

    def wrapper(name: str, queue: str, cpu: str) -> dict[str, Any]:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
        spec = {"restartPolicy": "Never", "containers": [container]}
        pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{name}-{i}"}, "spec": spec} for i in (0, 1)]
        metadata = {"name": name, "namespace": "default", "labels": {QUEUE_NAME: queue}}
        return APP_WRAPPERS.body(metadata, spec={"components": [{"template": pod} for pod in pods]})

    assert await warned(
        patient,
        tmp_path,
        wrapper("lost", "al-queue", "1"),
        wrapper("large", "all-queue", "2100m"),
        wrapper("exact", "all-queue", "2"),
        wrapper("borrows", "shared-queue", "2100m"),
    ) == [
        "would wait in queue al-queue: there is no LocalQueue al-queue in default; there is all-queue",
        (
            "would never be admitted by queue all-queue: asks for cpu 4200m; ClusterQueue all has 4 in all; "
            "have the ClusterQueue offer what it asks for, or have it ask for less"
        ),
    ]


async def test_an_rmd_workload_that_would_not_be_reserved_is_a_warning(
    patient: Patient, rmd: RmdCluster, tmp_path: Path
) -> None:
    """A node is not there, or has no daemon."""
    await patient.create(NODES, "host-b")
    spec = {"coreIds": ["1"], "rdt": {"cache": {"max": 1, "min": 1}}}
    missing, without, good = (
        RMD_WORKLOADS.body({"name": name, "namespace": "default"}, spec={**spec, "nodes": [node]})
        for name, node in (("missing", "host-z"), ("without", "host-b"), ("good", "host-a"))
    )
    async with rmd.node("host-a", StandIn(), rdt="true"), acting(rmd):
        await rmd.show("host-a")
        found = await warned(patient, tmp_path, missing, without, good)
    assert len(found) == 2
    assert found[0].startswith("would not be reserved: there is no Node host-z; there ")
    assert found[1] == "would not be reserved: Node host-b has no RMD daemon; daemons run on host-a"


async def test_a_user_without_rights_to_the_release_is_told_that_flags_are_defaults(
    place: Place, tmp_path: Path
) -> None:
    await place.patient.attachment("net")
    attachments = {
        "apiGroups": [NETWORK_ATTACHMENTS.group],
        "resources": [NETWORK_ATTACHMENTS.plural],
        "verbs": ["get"],
    }
    await place.patient.create(CLUSTER_ROLES, "attachments", rules=[attachments])
    for role in ("view", "attachments"):
        subjects = [{"kind": "User", "apiGroup": RBAC, "name": "ann"}]
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
        await place.patient.create(ROLE_BINDINGS, role, namespace="default", roleRef=reference, subjects=subjects)
    kubeconfig = str(place.patient.kubeconfig_of("ann"))
    answer = await document(place, tmp_path, "--kubeconfig", kubeconfig)
    assert (
        "the release could not be read: flags and registrations are defaults; that takes the right to list "
        "deployments.apps in namespace berth-system, and to list mutatingwebhookconfigurations."
        "admissionregistration.k8s.io in the whole cluster"
    ) in answer["notes"]
    assert answer["objects"][0]["operations"]
    # What could not be read is a note, and no judgement.
    assert "nothing offers it" not in json.dumps(answer)
    assert "what offers it could not be read" in json.dumps(answer["objects"][0])
    (note,) = [note for note in answer["notes"] if "could not be listed" in note]
    assert note.startswith("nodes, deviceclasses, resourceslices could not be listed, so that it is not known")
    opted_out = await document(place, tmp_path, "--kubeconfig", kubeconfig, labels={"berth.dev/inject": "false"})
    assert opted_out["objects"][0]["operations"] == []


async def test_what_may_not_be_read_costs_its_own_object_alone(place: Place, tmp_path: Path) -> None:
    """The attachment is in a namespace that the user may not read: another Pod is explained."""
    await place.patient.attachment("net", namespace="universe")
    rule = {"apiGroups": [NETWORK_ATTACHMENTS.group], "resources": [NETWORK_ATTACHMENTS.plural], "verbs": ["get"]}
    await place.patient.bind("ann", [rule], namespace="default", user=True)
    await place.patient.attachment("net")
    pods = "\n---\n".join(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "annotations": {NETWORKS: f"{name}/net"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
        )
        for name in ("universe", "default")
    )
    (tmp_path / "pods.yaml").write_text(pods)
    kubeconfig = str(place.patient.kubeconfig_of("ann"))
    texts = dict[str, str]()
    for form in ("text", "json", "pod", "patch"):
        command = ("explain", "-f", str(tmp_path / "pods.yaml"), "--kubeconfig", kubeconfig, "-o", form)
        with BerthProcess(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            out, err = await asyncio.to_thread(process.communicate)
        assert process.returncode == 3, (form, err)
        texts[form] = out
        if form != "json":
            said = next(line for line in (out + err).splitlines() if line.startswith("Pod default/universe"))
            assert "not explained: could not read network attachment definition 'universe/net'" in said, form
    document = json.loads(texts["json"])
    unread, explained = document["objects"]
    assert (unread["allowed"], unread["reason"], unread["pod"], unread["operations"]) == (None, "NotRead", None, [])
    assert unread["message"].endswith("'universe/net': you have no right to get it")
    assert (explained["allowed"], bool(explained["operations"])) == (True, True)
    assert "): would be injected" in texts["text"]
    assert "name: universe" not in texts["pod"]


async def test_a_release_that_the_api_server_fails_to_list_is_not_taken_for_none(tmp_path: Path) -> None:
    async def fail(_server: ApiServer, request: web.Request) -> web.StreamResponse | None:
        failing = "mutatingwebhookconfigurations" in request.path
        return web.json_response(status(500, "InternalError", "etcd"), status=500) if failing else None

    (tmp_path / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: []}}")
    server = ApiServer()
    await server.start()
    try:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.url)
        server.fault = fail
        command = ("explain", "-f", str(tmp_path / "pod.yaml"), "--kubeconfig", str(kubeconfig))
        with BerthProcess(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            out, err = await asyncio.to_thread(process.communicate)
    finally:
        await server.stop()
    assert (process.returncode, out) == (3, "")
    assert "the cluster could not be asked" in err
    assert "HTTP 500" in err
