"""Logs of containers and connections to them, as kubectl asks for them; and what it says of metrics."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.sandbox import Sandboxed

JSON = dict[str, Any]
MERGE = "application/merge-patch+json"


def made(served: Any, namespace: str, *names: str, **spec: Any) -> str:
    """The path of a Pod with these containers."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    containers = [{"name": name, "image": "busybox"} for name in names]
    answer = served.request("POST", path, {"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}})
    assert answer.status == 201, answer.body
    return f"{path}/p"


def test_a_pod_without_a_node_has_an_empty_log_and_takes_no_connection(served: Any, namespace: str) -> None:
    path = made(served, namespace, "a", initContainers=[{"name": "i", "image": "busybox"}])
    answer = served.request("GET", f"{path}/log")
    assert (answer.status, answer.body) == (204, b"")
    for subresource in ("exec", "attach", "portforward"):
        for method in ("GET", "POST"):
            refused = served.request(method, f"{path}/{subresource}")
            assert (refused.status, refused.body["message"]) == (400, "pod p does not have a host assigned")
    for rest, code in (("log", 405), ("other", 404)):
        assert served.request("POST", f"{path}/{rest}").status == code


@pytest.mark.parametrize(
    ("rest", "code", "message"),
    [
        ("log", 400, "a container name must be specified for pod p, choose one of: [i a b]"),
        ("log?container=c", 400, "container c is not valid for pod p"),
        ("exec?container=c", 400, "container c is not valid for pod p"),
        (
            "log?container=a&tailLines=-1",
            422,
            'PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0',
        ),
        (
            "log?container=a&limitBytes=0",
            422,
            'PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than 0',
        ),
    ],
)
def test_the_container_of_a_log_has_to_be_one(served: Any, namespace: str, rest: str, code: int, message: str) -> None:
    path = made(served, namespace, "a", "b", initContainers=[{"name": "i", "image": "busybox"}])
    answer = served.request("GET", f"{path}/{rest}")
    assert (answer.status, answer.body["message"]) == (code, message)


def test_kubectl_says_that_there_are_no_metrics(served: Any, namespace: str) -> None:
    for what in ("pods", "nodes"):
        done = served.kubectl("-n", namespace, "top", what)
        assert (done.returncode, done.stderr) == (1, "error: Metrics API not available\n")


@pytest.fixture
def stand_in(sandboxed: Sandboxed) -> str:
    """The namespace of a Deployment and a Pod of it that runs as the kubelets of the sandbox say."""
    namespace = sandboxed.namespace()
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "busybox"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    assert sandboxed.request("POST", path, {"metadata": {"name": "web"}, "spec": spec}).status == 201
    pods = f"/api/v1/namespaces/{namespace}/pods"
    body = {"metadata": {"name": "web-1", "labels": labels}, "spec": {**template["spec"], "nodeName": "n"}}
    assert sandboxed.request("POST", pods, body).status == 201
    return namespace


def begun(sandboxed: Sandboxed, namespace: str) -> None:
    status = {"phase": "Running", "containerStatuses": [{"name": "a", "ready": True, "restartCount": 0}]}
    path = f"/api/v1/namespaces/{namespace}/pods/web-1/status"
    assert sandboxed.request("PATCH", path, {"status": status}, content_type=MERGE).status == 200


def test_the_log_of_a_stand_in_says_what_it_is(sandboxed: Sandboxed, stand_in: str) -> None:
    waits = sandboxed.kubectl("-n", stand_in, "logs", "web-1")
    assert 'container "a" in pod "web-1" is waiting to start: ContainerCreating' in waits.stderr
    begun(sandboxed, stand_in)
    line = "web-1 is a stand-in of the sandbox: it runs nothing, so container a has no output.\n"
    for arguments in (["web-1"], ["deploy/web"], ["web-1", "-f", "-c", "a"], ["web-1", "--tail=5"]):
        done = sandboxed.kubectl("-n", stand_in, "logs", *arguments)
        assert (done.returncode, done.stdout) == (0, line), done.stderr
    before = sandboxed.kubectl("-n", stand_in, "logs", "web-1", "--previous")
    assert before.stderr == (
        'Error from server (BadRequest): previous terminated container "a" in pod "web-1" not found\n'
    )


@pytest.mark.parametrize(
    ("arguments", "wish"),
    [
        (["exec", "web-1", "--", "ls"], "run a command in"),
        (["exec", "deploy/web", "-it", "--", "sh"], "run a command in"),
        (["attach", "web-1"], "attach to"),
        (["port-forward", "web-1", ":80"], "forward a port to"),
        (["cp", "web-1:/etc/hosts", "hosts"], "run a command in"),
    ],
)
def test_kubectl_says_why_a_stand_in_takes_no_connection(
    sandboxed: Sandboxed, stand_in: str, arguments: list[str], wish: str
) -> None:
    begun(sandboxed, stand_in)
    done = sandboxed.kubectl("-n", stand_in, *arguments)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(
        f"pod web-1 is a stand-in of the sandbox: it runs nothing, so one cannot {wish} it"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get", "--raw", "/api/v1/nodes/n/proxy/"], "the sandbox does not have nodes/proxy"),
        (["get", "--raw", "/apis/autoscaling/v2/x"], "the sandbox does not have the API group autoscaling"),
        (
            ["debug", "web-1", "--image=busybox"],
            "spec.ephemeralContainers: Forbidden: the sandbox runs no containers, so there is none to debug",
        ),
    ],
)
def test_what_the_sandbox_does_not_have_is_said(
    sandboxed: Sandboxed, stand_in: str, arguments: list[str], message: str
) -> None:
    done = sandboxed.kubectl("-n", stand_in, *arguments)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(message)


def test_a_request_for_another_protocol_logs_no_advice(
    sandboxed: Sandboxed, stand_in: str, caplog: pytest.LogCaptureFixture
) -> None:
    """uvicorn would log which package to install for WebSockets."""
    with caplog.at_level("DEBUG"):
        sandboxed.kubectl("-n", stand_in, "exec", "web-1", "--", "ls")
    assert not [one for one in caplog.messages if "upgrade" in one.lower() or "websocket" in one.lower()]
