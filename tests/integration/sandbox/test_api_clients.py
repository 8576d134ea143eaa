"""The official Python client and kubectl against the sandbox: the same promises through every client that is there."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from typing import Any

import aiohttp
import kubernetes
import pytest
import urllib3
import yaml

from app.devtools.sandbox.server import Cluster
from tests.support.waiting import PATIENCE

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.clients.example.com}
spec:
  group: clients.example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, shortNames: [th]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, description: How large it is.}
"""
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "demo", "labels": {"app": "demo"}},
    "spec": {"containers": [{"name": "c", "image": "busybox"}]},
}


class PythonClient:
    def __init__(self, served: Any, namespace: str) -> None:
        config = yaml.safe_load(served.kubeconfig().read_text())
        self._api = kubernetes.config.new_client_from_config_dict(config)
        self.pods = kubernetes.client.CoreV1Api(self._api)
        self._namespace = namespace

    def close(self) -> None:
        self._api.close()

    def create(self, pod: Any) -> None:
        self.pods.create_namespaced_pod(self._namespace, pod)

    def label(self, name: str, **labels: str) -> None:
        self.pods.patch_namespaced_pod(name, self._namespace, {"metadata": {"labels": labels}})

    def names(self, selector: str) -> list[str]:
        return [
            pod.metadata.name for pod in self.pods.list_namespaced_pod(self._namespace, label_selector=selector).items
        ]

    def get(self, name: str) -> Any:
        return self._api.sanitize_for_serialization(self.pods.read_namespaced_pod(name, self._namespace))

    def delete(self, name: str) -> None:
        self.pods.delete_namespaced_pod(name, self._namespace)

    def allowed(self, user: str) -> bool:
        spec = {
            "user": user,
            "resourceAttributes": {"verb": "create", "resource": "pods", "namespace": self._namespace},
        }
        api = kubernetes.client.AuthorizationV1Api(self._api)
        return bool(api.create_subject_access_review({"spec": spec}).status.allowed)


class Kubectl:
    def __init__(self, served: Any, namespace: str) -> None:
        self._served = served
        self._namespace = namespace

    def close(self) -> None:
        return

    def run(self, *arguments: str, stdin: str = "", ok: bool = True) -> str:
        done = self._served.kubectl("-n", self._namespace, *arguments, stdin=stdin)
        assert not ok or done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def create(self, pod: Any) -> None:
        self.run("create", "-f", "-", stdin=json.dumps(pod))

    def label(self, name: str, **labels: str) -> None:
        self.run("label", "pod", name, *(f"{key}={value}" for key, value in labels.items()))

    def names(self, selector: str) -> list[str]:
        return [line.removeprefix("pod/") for line in self.run("get", "pods", "-l", selector, "-o", "name").split()]

    def get(self, name: str) -> Any:
        return json.loads(self.run("get", "pod", name, "-o", "json"))

    def delete(self, name: str) -> None:
        self.run("delete", "pod", name)

    def allowed(self, user: str) -> bool:
        return self.run("auth", "can-i", "create", "pods", "--as", user, ok=False).strip() == "yes"


@pytest.fixture
def clients(served: Any, namespace: str) -> Any:
    found: list[Any] = [PythonClient(served, namespace), Kubectl(served, namespace)]
    yield found
    for client in found:
        client.close()


def test_life_of_a_pod_through_every_client(clients: Any) -> None:
    for client in clients:
        client.create(POD)
        assert client.get("demo")["status"]["phase"] == "Pending"
        client.label("demo", tier="1")
        assert client.names("tier=1,app=demo") == ["demo"]
        assert client.names("tier=2") == []
        client.delete("demo")
        assert client.names("app=demo") == []
        assert client.allowed("bob") is False


def test_python_client_watches_and_meets_errors(served: Any, namespace: str) -> None:
    client = PythonClient(served, namespace)
    api = client.pods
    client.create(POD)
    watch = kubernetes.watch.Watch()
    for event in watch.stream(api.list_namespaced_pod, namespace, timeout_seconds=int(PATIENCE)):
        assert (event["type"], event["object"].metadata.name) == ("ADDED", "demo")
        watch.stop()
    with pytest.raises(kubernetes.client.ApiException) as refused:
        client.create(POD)
    assert (refused.value.status, json.loads(refused.value.body)["reason"]) == (409, "AlreadyExists")
    client.close()


def test_kubectl_commands(served: Any, namespace: str) -> None:
    kubectl = Kubectl(served, namespace)
    text = json.dumps(POD)
    assert "pod/demo created" in kubectl.run("apply", "-f", "-", stdin=text)
    assert "pod/demo unchanged" in kubectl.run("apply", "-f", "-", stdin=text)
    assert "pod/demo serverside-applied" in kubectl.run(
        "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text
    )
    header, row = kubectl.run("get", "pods").splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["demo", "0/1", "Pending", "0"]
    assert "demo" in kubectl.run("get", "pods", "-A", "--field-selector", "status.phase=Pending", "-o", "wide")
    assert kubectl.run("get", "pod", "demo", "-o", "jsonpath={.spec.containers[0].image}") == "busybox"
    assert "annotated" in kubectl.run("annotate", "pod", "demo", "a=b")
    assert "patched" in kubectl.run(
        "patch", "pod", "demo", "--type=json", "-p", '[{"op":"remove","path":"/metadata/labels"}]'
    )
    assert "created" in kubectl.run("create", "configmap", "cm", "--from-literal=a=b")
    assert kubectl.run("get", "cm", "cm", "-o", "jsonpath={.data.a}") == "b"
    assert "yes" in kubectl.run("auth", "can-i", "create", "pods")
    assert "bob" in kubectl.run("auth", "whoami", "--as", "bob")
    forbidden = kubectl.run("get", "pods", "--as", "bob", ok=False)
    assert 'User "bob" cannot list resource "pods"' in forbidden
    assert "pods" in kubectl.run("api-resources")
    strict = kubectl.run("create", "-f", "-", stdin=text.replace('"image"', '"imago"'), ok=False)
    assert 'unknown field "spec.containers[0].imago"' in strict
    assert "deleted" in kubectl.run("delete", "pod", "demo")
    assert "NotFound" in kubectl.run("get", "pod", "demo", ok=False)


def test_kubectl_and_custom_resources(served: Any, namespace: str) -> None:
    created = served.request(
        "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD.encode(), content_type="application/yaml"
    )
    assert created.status == 201, created.body
    kubectl = Kubectl(served, namespace)
    kubectl.run("wait", "--for=condition=Established", "crd/things.clients.example.com", f"--timeout={PATIENCE:.0f}s")
    thing = "apiVersion: clients.example.com/v1\nkind: Thing\nmetadata: {name: t}\nspec: {size: 1}\n"
    assert "thing.clients.example.com/t created" in kubectl.run("create", "-f", "-", stdin=thing)
    assert "How large it is." in kubectl.run("explain", "thing.spec.size")
    assert kubectl.run("get", "th", "-o", "jsonpath={.items[*].spec.size}") == "1"
    assert "patched" in kubectl.run("patch", "thing", "t", "--type=merge", "-p", '{"spec":{"size":2}}')
    assert "deleted" in kubectl.run("delete", "thing", "t")


def test_kubectl_watches_waits_and_proxies(served: Any, namespace: str) -> None:
    kubectl = Kubectl(served, namespace)
    kubectl.create(POD)
    base = ["kubectl", "--kubeconfig", str(served.kubeconfig()), "-n", namespace]
    with subprocess.Popen([*base, "get", "pods", "-w", "-o", "name"], stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "pod/demo\n"
        status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        path = f"/api/v1/namespaces/{namespace}/pods/demo/status"
        served.request("PATCH", path, status, content_type="application/merge-patch+json")
        assert watching.stdout.readline() == "pod/demo\n"
        watching.terminate()
    assert "condition met" in kubectl.run("wait", "--for=condition=Ready", "pod/demo", f"--timeout={PATIENCE:.0f}s")
    with subprocess.Popen([*base, "proxy", "--port=0"], stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdout is not None
        port = proxy.stdout.readline().rsplit(":", 1)[1].strip()
        node = {"metadata": {"name": "proxied"}, "status": {"capacity": {"cpu": "1"}}}
        served.request("POST", "/api/v1/nodes", node)
        patch = [{"op": "add", "path": "/status/capacity/example.com~1foo", "value": "4"}]
        done = urllib3.request(
            "PATCH",
            f"http://127.0.0.1:{port}/api/v1/nodes/proxied/status",
            body=json.dumps(patch),
            headers={"Content-Type": "application/json-patch+json"},
        )
        proxy.terminate()
    assert done.json()["status"]["capacity"]["example.com/foo"] == "4"


async def test_several_clusters_in_one_process_keep_apart() -> None:
    async with Cluster("one") as one, Cluster("two") as two:
        assert one.url != two.url
        one.storage.create(("", "nodes"), {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}})
        assert two.storage.list(("", "nodes")) == []
        assert yaml.safe_load(one.kubeconfig())["clusters"][0]["cluster"]["server"] == one.url


async def test_stop_ends_open_watches() -> None:
    """A cluster with a client that watches stops at once; it does not wait for the watch's own end."""
    cluster = Cluster("one")
    await cluster.start()
    cluster.add_token("t", "admin", ("system:masters",))
    context = ssl.create_default_context(cadata=cluster.ca_pem)
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer t"}) as session:
        async with session.get(f"{cluster.url}/api/v1/nodes?watch=true", ssl=context) as answer:
            assert answer.status == 200
            stopping = asyncio.create_task(cluster.stop())
            assert await asyncio.wait_for(answer.content.read(), PATIENCE) == b""
        await asyncio.wait_for(stopping, PATIENCE)


def test_kubectl_creates_lists_and_says_which_kind_is_unknown(served: Any, namespace: str) -> None:
    """Neither is in a document of OpenAPI v3, so kubectl asks for v2 too."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "b"}}
    several = json.dumps({"apiVersion": "v1", "kind": "List", "items": [config]})
    done = served.kubectl("-n", namespace, "apply", "-f", "-", stdin=several)
    assert (done.returncode, done.stdout) == (0, "configmap/one created\n"), done.stderr
    wrong = json.dumps(config | {"kind": "ConfigMop"})
    failed = served.kubectl("-n", namespace, "apply", "-f", "-", stdin=wrong)
    assert failed.returncode == 1
    assert 'no matches for kind "ConfigMop" in version "v1"' in failed.stderr
