"""From `helm install` to injection and to companions, by the commands of docs/install.md, and on by those of other pages.

On bare clusters: what the chart installs runs as processes with the rights of its ServiceAccounts, no more. So that it
works says that the chart's RBAC is enough.
"""

from __future__ import annotations

import base64
import json
import threading
from typing import Any, Self

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tests.e2e.pages import commands_of, headings_of
from tests.e2e.reader import PAGE, Reader
from tests.e2e.users import PythonClient
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE, Refused, wait_until

pytestmark = pytest.mark.e2e
UPGRADE = "docs/upgrade.md"
PEER = "docs/migrate-from-nri.md"
JSON = dict[str, Any]


def pod(name: str, **metadata: Any) -> JSON:
    spec = {"containers": [{"name": "c", "image": "busybox"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": spec,
    }


class Creating:
    """Creates Pods that ask for a network, one after the other, without keeping them; remembers what went wrong."""

    def __init__(self, python: PythonClient) -> None:
        self._python = python
        self._ended = threading.Event()
        self.injected = 0
        self.failed: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        body = pod("load", annotations={"k8s.v1.cni.cncf.io/networks": "foo-network"})
        while not self._ended.wait(0.04):  # more would be load for its own sake
            try:
                found = self._python.create(body, dry_run=True)
            except Refused as error:
                self.failed.append(str(error))
                continue
            if "example.com/foo" in str(found["spec"]["containers"][0].get("resources")):
                self.injected += 1
            else:
                self.failed.append("not injected")


def test_a_cluster_with_smart_nics(reader: Reader) -> None:
    """The first section: a Pod that asks for a network has what it needs, and the doctor finds nothing wrong."""
    printed = reader.follow("A cluster with SmartNICs", "tenant2")
    assert "example.com/foo" in printed
    # Where the sandbox has the nodes, they offer the device from the start.
    reader.kubectl("tenant2").run("wait", "--for=condition=Ready", "pod/webhook-demo", "--timeout=120s")


def test_the_quick_start_types_the_same() -> None:
    """What follows the making of a cluster there is the section above, so it works as well."""
    typed = [
        *commands_of("docs/quickstart-kind.md", "Berth"),
        *commands_of("docs/quickstart-kind.md", "A Pod that asks"),
    ]
    assert typed == commands_of(PAGE, "A cluster with SmartNICs")[:2]


def test_upgrade_rollback_and_new_certificates_stop_nobody(reader: Reader) -> None:
    """By the upgrade page, while Pods are created: not one fails or lacks its resources."""
    with Creating(reader.python("tenant2")) as load:
        reader.type("helm upgrade berth charts/berth --namespace berth-system --set logLevel=debug --wait", "tenant2")
        printed = reader.follow("Upgrade", "tenant2", page=UPGRADE)
        assert "logLevel: debug" in printed
        assert "--log-level=debug" in webhook(reader)  # it is kept, though the chart's default is another
        before = bundle(reader)
        reader.follow("Renew certificates", "tenant2", page=UPGRADE)
        wait_until(lambda: len(bundle(reader)) > len(before))
        trusted = bundle(reader)
        # To the first revision: the one before is what is there.
        (history, rollback) = commands_of(UPGRADE, "Roll back")[0].strip().splitlines()
        assert "superseded" in reader.type(history, "tenant2")
        reader.type(rollback.replace("rollback berth", "rollback berth 1"), "tenant2")
        reader.type("kubectl rollout status deployment/berth-webhook --namespace berth-system", "tenant2")
        assert "--log-level=info" in webhook(reader)
        assert_trusted(reader, since=trusted)
        done = load.injected
        wait_until(lambda: load.injected > done + 100 or load.failed)
    assert not load.failed
    assert load.injected > 100
    reader.find_nothing_wrong("tenant2")


def webhook(reader: Reader) -> str:
    """The Deployment of the webhook."""
    return reader.type("kubectl get deployment berth-webhook --namespace berth-system -o yaml", "tenant2")


def bundle(reader: Reader) -> str:
    """The caBundle of the registration."""
    text = reader.type("kubectl get mutatingwebhookconfiguration berth -o yaml", "tenant2")
    (found,) = {one["clientConfig"].get("caBundle", "") for one in yaml.safe_load(text)["webhooks"]}
    return str(found)


def assert_trusted(reader: Reader, *, since: str) -> None:
    """No CA has left the registration, unless the revocation that the page asks for is over; what signs is trusted."""
    found = authorities(bundle(reader))
    text = reader.type("kubectl --namespace berth-system get secret berth-webhook-tls -o yaml", "tenant2")
    secret = yaml.safe_load(text)
    marks = secret["metadata"].get("annotations", {})
    if "berth.dev/renew" in marks or marks.get("berth.dev/revoked") == "pending":
        assert authorities(since) <= found
    assert authorities(secret["data"]["ca.crt"]) <= authorities(bundle(reader))


def authorities(encoded: str) -> set[bytes]:
    """The certificates in a caBundle, or in a key of a Secret."""
    found = x509.load_pem_x509_certificates(base64.b64decode(encoded))
    return {certificate.public_bytes(serialization.Encoding.DER) for certificate in found}


def test_the_peer_can_be_put_aside_and_taken_back(reader: Reader) -> None:
    """By the page for its users: its configuration calls for no Pod, then for all again; the doctor knows it."""
    name = "network-resources-injector-mutating-config"
    peer = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"{name}.k8s.cni.cncf.io",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "clientConfig": {"url": "https://127.0.0.1:1/mutate"},  # nobody answers there
                "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
            }
        ],
    }
    python = reader.python("tenant2")
    asking = pod("asking", annotations={"k8s.v1.cni.cncf.io/networks": "foo-network"})
    python.create(peer)
    try:
        wait_until(lambda: is_refused(python, asking))
        reader.follow("Have the peer called for nothing", "tenant2", page=PEER)
        found = wait_until(lambda: python.create(asking, dry_run=True))
        assert "example.com/foo" in str(found["spec"]["containers"][0]["resources"])
        doctor = "berth doctor --only registrations --berth-namespace berth-system || true"
        assert f"kubectl delete mutatingwebhookconfigurations {name}" in reader.type(doctor, "tenant2")
        reader.follow("Look first", "tenant2", page=PEER)
        reader.follow("Back to the peer", "tenant2", page=PEER)
        wait_until(lambda: is_refused(python, asking))
    finally:
        reader.type(f"kubectl delete mutatingwebhookconfigurations {name}", "tenant2")


def the_peers_objects(name: str) -> list[JSON]:
    """All that the manifests of the peer and its installer make, by their names."""
    roles = [f"{name}{part}" for part in ("", "-secrets", "-webhook-configs", "-service", "-configmaps")]
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": name}]}}
    selector = {"matchLabels": {"app": name}}
    rbac = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    account = {"kind": "ServiceAccount", "name": f"{name}-sa", "namespace": "kube-system"}
    parts: list[tuple[str, str, str, JSON]] = [
        ("apps/v1", "Deployment", name, {"spec": {"replicas": 0, "selector": selector, "template": template}}),
        ("v1", "Service", f"{name}-service", {"spec": {"ports": [{"port": 443}]}}),
        ("policy/v1", "PodDisruptionBudget", f"{name}-pdb", {"spec": {"minAvailable": 1, "selector": selector}}),
        ("v1", "Secret", name, {}),
        ("v1", "Secret", f"{name}-sa-secret", {}),
        ("v1", "ServiceAccount", f"{name}-sa", {}),
        *(("rbac.authorization.k8s.io/v1", "ClusterRole", role, {"rules": []}) for role in roles),
        *(
            (
                "rbac.authorization.k8s.io/v1",
                "ClusterRoleBinding",
                f"{role}-role-binding",
                {"roleRef": {**rbac, "name": role}, "subjects": [account]},
            )
            for role in roles
        ),
    ]
    return [
        {"apiVersion": version, "kind": kind, "metadata": {"name": object_name, "namespace": "kube-system"}, **body}
        for version, kind, object_name, body in parts
    ]


def test_nothing_of_the_peer_is_left(reader: Reader) -> None:
    name = "network-resources-injector"
    objects = {"apiVersion": "v1", "kind": "List", "items": the_peers_objects(name)}
    kubectl = reader.kubectl("tenant2")
    kubectl.run("create", "-f", "-", stdin=json.dumps(objects))
    kinds = "deployments,services,poddisruptionbudgets,secrets,serviceaccounts,clusterroles,clusterrolebindings"
    assert kubectl.run("get", kinds, "-n", "kube-system", "-o", "name").count(name) == 16
    reader.follow("Delete the peer", "tenant2", page=PEER)
    assert name not in kubectl.run("get", kinds, "-n", "kube-system", "-o", "name")
    reader.find_nothing_wrong("tenant2")


def is_refused(python: PythonClient, body: JSON) -> bool:
    try:
        python.create(body, dry_run=True)
    except Refused:
        return True
    return False


def test_uninstalling_wedges_nothing(reader: Reader) -> None:
    """Even with every Pod of Berth gone: the registration goes first, and Pods can be created."""
    reader.type("helm uninstall berth --namespace berth-system --wait", "tenant2")
    python = reader.python("tenant2")
    found = python.create(pod("after", annotations={"k8s.v1.cni.cncf.io/networks": "foo-network"}), dry_run=True)
    assert "example.com/foo" not in str(found["spec"]["containers"][0].get("resources"))
    assert "berth" not in reader.type("kubectl get mutatingwebhookconfiguration -o name", "tenant2")


COMMIT = "git init --quiet; cp {ignored} .; git add .; git -c user.name=a -c user.email=a@b.c commit --quiet -m clone"
EMPTY = """kubectl create -f - 2>&1 <<EOF || true
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: empty}
spec: {components: []}
EOF
"""
RELEASES = {"berth": "berth-system", "berth-appwrappers": "berth-appwrappers"}
HOSTS = {"host-a": "host-c", "host-b": "host-d"}
"""The nodes that stand for DPUs of the tenant's hosts."""


def test_the_page_from_top_to_bottom_in_one_cluster(reader: Reader) -> None:
    """Every block but that of uninstalling, in its order, in a clone that git keeps clean, and the doctor is content.

    One release has webhook, controller, gateway and agent; the one of AppWrappers is beside it.
    """
    reader.type("kubectl delete pod webhook-demo --ignore-not-found", "tenant2")
    reader.type(COMMIT.format(ignored=ROOT / ".gitignore"), "tenant2")
    for host, node in HOSTS.items():
        reader.type(f"kubectl label node {node} provisioning.dpu.nvidia.com/host={host}", "tenant2")
    printed = {heading: reader.follow(heading, "tenant2") for heading in headings_of(PAGE) if heading != "Uninstall"}
    assert "example.com/foo" in printed["A cluster with SmartNICs"]
    assert "condition met" in printed["An infra cluster"]
    assert "condition met" in printed["A cluster with AppWrappers"]
    rules = "kubectl get tenantworkloadrules --namespace tenant-tenant1 -o name"
    wait_until(lambda: "tenant1-rule1" in reader.type(rules, "tenant2"))
    assert "want at least one podSet" in reader.type(EMPTY, "tenant2")
    reader.type("kubectl delete appwrapper sample --timeout 60s", "tenant2")
    assert "not found" in reader.type("kubectl get pod sample 2>&1 || true", "tenant2")
    for release, namespace in RELEASES.items():
        reader.find_nothing_wrong("tenant2", f"--berth-namespace {namespace} --release-name {release}")
    assert reader.type("git status --porcelain -- . ':!bin'", "tenant2") == ""


POD = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "busybox"}]}}
UVS = {
    "UVSPod": POD,
    "UVSDaemonSet": {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]},
        },
    },
    "UVSSecret": {"apiVersion": "v1", "kind": "Secret", "data": {}},
    "UVSConfigMap": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}},
}
OURS = "--selector app.kubernetes.io/part-of=berth"
KINDS = f"kubectl get customresourcedefinition {OURS} -o name"
SUSPENDED = """kubectl create -f - <<EOF
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: stays, finalizers: [workload.codeflare.dev/finalizer]}
spec: {suspend: true, components: [{template: {apiVersion: v1, kind: ConfigMap, metadata: {name: stays}}}]}
EOF
"""


def of_each_kind() -> list[JSON]:
    """Objects of the kinds of which the page itself makes none."""
    rule = yaml.safe_load((ROOT / "examples" / "workload-api" / "tenant1-rule1.yaml").read_text())
    admin = {
        "apiVersion": "workload.infra.universe.nvidia.com/v1alpha1",
        "kind": "AdminWorkloadRule",
        "spec": rule["spec"] | {"tenantMatch": ["*"]},
    }
    uvs = [
        {
            "apiVersion": "resource.universe.nvidia.com/v1alpha1",
            "kind": kind,
            "spec": {"object": body | {"metadata": {"name": kind.lower()}}},
        }
        for kind, body in UVS.items()
    ]
    return [body | {"metadata": {"name": body["kind"].lower(), "namespace": "universe"}} for body in (admin, *uvs)]


def test_remove_leaves_nothing_behind(reader: Reader) -> None:
    """With an object of each kind there, by the page; nothing waits for what is gone."""
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": of_each_kind()})
    reader.kubectl("tenant2").run("create", "-f", "-", stdin=body)
    reader.type(commands_of(PAGE, "A cluster with AppWrappers")[1].splitlines()[0], "tenant2")
    kinds = [line.partition("/")[2] for line in reader.type(KINDS, "tenant2").split()]
    assert len(kinds) == 10
    wait_until(lambda: all(reader.type(f"kubectl get {kind} --all-namespaces -o name", "tenant2") for kind in kinds))
    reader.follow("Remove", "tenant2", page=UPGRADE)
    assert commands_of(PAGE, "Uninstall")[0] in "".join(commands_of(UPGRADE, "Remove"))
    assert reader.type(KINDS, "tenant2") == ""
    wait_until(lambda: not left(reader))


def left(reader: Reader) -> str:
    """What is labeled as ours, of any kind, and our namespaces."""
    kinds = ",".join(reader.type("kubectl api-resources --verbs=list -o name", "tenant2").split())
    labeled = reader.type(f"kubectl get {kinds} --all-namespaces {OURS} -o name", "tenant2")
    namespaces = reader.type("kubectl get namespaces -o name", "tenant2").split()
    ours = {f"namespace/{name}" for name in (*RELEASES.values(), "universe", "tenant-tenant1")}
    return labeled + "".join(sorted(ours & set(namespaces)))


def test_definitions_can_be_removed_after_their_controllers(reader: Reader) -> None:
    """By what the page says for that case: no finalizer holds them."""
    reader.type("berth crds appwrappers | kubectl apply --server-side -f -", "tenant2")
    name = "customresourcedefinition appwrappers.workload.codeflare.dev"
    reader.type(f"kubectl wait --for=condition=Established {name} --timeout 60s", "tenant2")
    reader.type(SUSPENDED, "tenant2")
    reader.type(f"kubectl delete {name} --wait=false", "tenant2")
    assert reader.type("kubectl get appwrappers -o name", "tenant2")
    reader.follow("If the controllers are gone already", "tenant2", page=UPGRADE)
    reader.type(f"kubectl wait --for=delete {name} --timeout 60s", "tenant2")


def test_companions_across_clusters(reader: Reader) -> None:
    """Both sections about the Workload API: a tenant's rule puts a Pod on a DPU, and a mirror shows it."""
    assert "condition met" in reader.follow("An infra cluster", "icp")
    reader.follow("A tenant's cluster", "tenant1")
    companions = "kubectl get pods --namespace tenant-tenant1 -o name"
    wait_until(lambda: "tenant1-rule1-" in reader.type(companions, "icp"))
    mirrors = "kubectl get uvspods --namespace universe -o name"
    wait_until(lambda: "tenant1-rule1-" in reader.type(mirrors, "tenant1"))
    for cluster in ("icp", "tenant1"):
        reader.find_nothing_wrong(cluster)
