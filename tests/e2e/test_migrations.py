"""The pages for users of AppWrapper and of Universe, typed: of the former from the manifests of its own release, and back."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
import yaml

from tests.e2e.reader import Reader
from tests.e2e.users import Kubectl
from tests.support.go_modules import module_folder
from tests.support.waiting import Refused, wait_until

JSON = dict[str, Any]
pytestmark = pytest.mark.e2e
UNIVERSE = "docs/migrate-from-universe.md"
PAGE, CLUSTER = "docs/migrate-from-appwrapper.md", "tenant1"
MODULE, VERSION = "github.com/project-codeflare/appwrapper", "v1.2.2"
OPERATOR, NAME, KIND = "appwrapper-system", "appwrapper-controller-manager", "appwrapper.workload.codeflare.dev"
HOOKS = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
CONFIG = "appwrapper-operator-config"
DEFINITION = "appwrappers.workload.codeflare.dev"


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> str:
    """`install.yaml` of the release: what kustomize builds of its `config/default`."""
    folder = module_folder(MODULE, VERSION, at=tmp_path_factory.mktemp("module"))
    built = subprocess.run(["kubectl", "kustomize", folder / "config" / "default"], capture_output=True, check=True)
    return built.stdout.decode()


def pod(name: str) -> JSON:
    container = {"name": "c", "image": "busybox", "command": ["sleep", "inf"]}
    spec = {"terminationGracePeriodSeconds": 0, "restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def wrapper(name: str, **spec: Any) -> JSON:
    body = {"components": [{"template": pod(name)}], **spec}
    metadata = {"name": name, "namespace": "default", "finalizers": ["workload.codeflare.dev/finalizer"]}
    return {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "metadata": metadata, "spec": body}


def what_it_runs(kubectl: Kubectl) -> None:
    """An AppWrapper that runs, as the operator leaves it: its Pod has no mark of Berth; and one that is suspended."""
    made = kubectl.create(wrapper("taken"))
    owner = {"apiVersion": made["apiVersion"], "kind": "AppWrapper", "name": "taken", "controller": True}
    owner |= {"uid": made["metadata"]["uid"], "blockOwnerDeletion": True}
    running = pod("taken")
    running["metadata"] |= {"labels": {"workload.codeflare.dev/appwrapper": "taken"}, "ownerReferences": [owner]}
    kubectl.create(running)
    at = {"message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    said = {"QuotaReserved": "True", "ResourcesDeployed": "True", "PodsReady": "True", "Unhealthy": "False"}
    component: JSON = {"name": "taken", "kind": "Pod", "apiVersion": "v1"}
    component["podSets"] = [{"path": "template", "replicas": 1}]
    component["conditions"] = [
        at | {"type": "ResourcesDeployed", "status": "True", "reason": "ComponentCreatedSuccessfully"}
    ]
    conditions = [at | {"type": kind, "status": value, "reason": "Resuming"} for kind, value in said.items()]
    status = {"phase": "Running", "conditions": conditions, "componentStatus": [component]}
    body = json.dumps({"status": status})
    kubectl.run("patch", KIND, "taken", "--subresource=status", "--type=merge", "--patch", body)
    kubectl.create(wrapper("suspended", suspend=True))


def the_operator(reader: Reader, manifests: str) -> None:
    """Installed as its page says, with AppWrappers that it has run."""
    kubectl = reader.kubectl(CLUSTER)
    definitions = [one for one in yaml.safe_load_all(manifests) if one["kind"] == "CustomResourceDefinition"]
    (definition,) = definitions
    kubectl.run("apply", "--server-side", "-f", "-", stdin=json.dumps(definition))
    kubectl.run("wait", "--for=condition=Established", f"customresourcedefinition/{DEFINITION}", "--timeout=60s")
    what_it_runs(kubectl)
    reader.put("install.yaml", manifests)
    reader.type("kubectl apply --server-side -f install.yaml", CLUSTER)


def identities(kubectl: Kubectl) -> dict[str, str]:
    """The UIDs of what has to outlive each step: the AppWrappers, and the Pod that runs."""
    found = {name: kubectl.get(KIND, name)["metadata"]["uid"] for name in ("taken", "suspended")}
    return found | {"pod": kubectl.get("pod", "taken")["metadata"]["uid"]}


def hooks(kubectl: Kubectl) -> str:
    return kubectl.run("get", HOOKS, "--output", "name")


def has_our_definition(kubectl: Kubectl) -> bool:
    (version,) = kubectl.get("customresourcedefinition", DEFINITION)["spec"]["versions"]
    return "reclaimablePods" in version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]


def runs(kubectl: Kubectl, name: str) -> bool:
    return (kubectl.get(KIND, name).get("status") or {}).get("phase") == "Running"


def take_over(reader: Reader) -> None:
    for heading in ("Stop the operator", "Take over"):
        reader.follow(heading, CLUSTER, page=PAGE)


def test_there_and_back_and_there(reader: Reader, manifests: str) -> None:
    kubectl = reader.kubectl(CLUSTER)
    the_operator(reader, manifests)
    before = identities(kubectl)
    assert "taken" in reader.follow("Look first", CLUSTER, page=PAGE)

    take_over(reader)
    assert kubectl.get("deployment", NAME, OPERATOR)["spec"]["replicas"] == 0
    theirs, ours = (kubectl.get("configmap", CONFIG, namespace)["data"] for namespace in (OPERATOR, "berth-system"))
    assert yaml.safe_load(ours["config.yaml"]) == yaml.safe_load(theirs["config.yaml"])
    assert "appwrapper-" not in hooks(kubectl)
    assert "berth" in hooks(kubectl)
    assert has_our_definition(kubectl)
    kubectl.run("patch", KIND, "suspended", "--type=merge", "--patch", '{"spec": {"suspend": false}}')
    kubectl.create(wrapper("new"))
    for name in ("suspended", "new", "taken"):
        wait_until(lambda name=name: runs(kubectl, name))
    assert identities(kubectl) == before

    reader.follow("Go back", CLUSTER, page=PAGE)
    assert "berth" not in hooks(kubectl)
    assert hooks(kubectl).count("appwrapper-") == 2
    assert kubectl.get("deployment", NAME, OPERATOR)["spec"]["replicas"] == 1
    assert not has_our_definition(kubectl)
    assert runs(kubectl, "new")
    assert identities(kubectl) == before

    take_over(reader)
    reader.follow("Remove the operator", CLUSTER, page=PAGE)
    with pytest.raises(Refused, match="not found"):
        kubectl.get("namespace", OPERATOR)
    left = kubectl.run(
        "get", "clusterroles,clusterrolebindings", "--selector=app.kubernetes.io/name=appwrapper", "-oname"
    )
    assert {line.rpartition("/")[2] for line in left.split()} == {
        f"appwrapper-{role}-role" for role in ("editor", "viewer", "user")
    }
    assert identities(kubectl) == before
    reader.find_nothing_wrong(CLUSTER)
    kubectl.delete(KIND, "taken")
    with pytest.raises(Refused, match="not found"):
        kubectl.get("pod", "taken")


def test_what_universe_has_left_makes_room(reader: Reader) -> None:
    """Universe is not to be had: its definition of Workloads has other contents than ours, and a tenant's are stale."""
    kubectl = reader.kubectl("icp")
    group = "workload.infra.universe.nvidia.com"
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"other": {"type": "string"}}}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    names = {"plural": "workloads", "kind": "Workload"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    kubectl.create({**definition, "metadata": {"name": f"workloads.{group}"}, "spec": spec})
    reader.follow("The definition of Workloads", "icp", page=UNIVERSE)
    with pytest.raises(Refused, match="not found"):
        kubectl.get("customresourcedefinition", f"workloads.{group}")
    kubectl.run("create", "namespace", "tenant-tenant1")
    reader.follow("A namespace of a tenant that is there already", "icp", page=UNIVERSE)
    assert kubectl.get("namespace", "tenant-tenant1")["metadata"]["labels"]["berth.dev/tenant"] == "tenant1"
    tenant = reader.kubectl("tenant2")
    for stale in yaml.safe_load_all(reader.type("berth crds tenant", "tenant2")):
        for version in stale["spec"]["versions"]:
            version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        tenant.create(stale)
    reader.follow("Definitions in a tenant's cluster", "tenant2", page=UNIVERSE)
    found = json.loads(tenant.run("get", "customresourcedefinitions", "--output", "json"))["items"]
    (rules,) = [one for one in found if one["spec"]["names"]["kind"] == "WorkloadRule"]
    assert all("properties" in one["schema"]["openAPIV3Schema"] for one in rules["spec"]["versions"])
