"""`pods/proxy`: the API server sends a request on to a Pod."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest

from app.devtools.sandbox.processes import PodLog
from tests.support.sandbox import Sandboxed

MERGE = "application/merge-patch+json"
JSON = dict[str, Any]


def own_address() -> str:
    """An address of this machine that API servers connect to: not that of loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect(("198.51.100.1", 9))  # nothing is sent
        return str(asked.getsockname()[0])


class Server(BaseHTTPRequestHandler):
    """Answers with what it was asked: HTTP 503, as a role that is not ready, to GET."""

    def do_GET(self) -> None:
        self.answer(503)

    def do_POST(self) -> None:
        self.answer(200)

    def answer(self, code: int) -> None:
        body = f'{{"path": "{self.path}"}}'.encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Where the server listens, at each address of this machine: a real API server does not connect to loopback."""
    server = ThreadingHTTPServer(("0.0.0.0", 0), Server)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as held:
        held.bind(("", 0))
        yield held.getsockname()[1]


def made(served: Any, namespace: str, address: str, port: int = 8444) -> str:
    """The path of a Pod with this address, which is a process where the API server is the sandbox's."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    container = {"name": "c", "image": "x", "ports": [{"containerPort": port}]}
    answer = served.request("POST", path, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    assert answer.status == 201, answer.body
    if address:
        status = {"podIP": address, "podIPs": [{"ip": address}]}
        served.request("PATCH", f"{path}/p/status", {"status": status}, content_type=MERGE)
    if isinstance(served, Sandboxed):
        served.cluster.state.processes[answer.body["metadata"]["uid"]] = PodLog("127.0.0.1", Path("none"))
    return path


@pytest.mark.parametrize(
    ("method", "target", "status", "path"),
    [
        ("GET", "p:PORT/proxy/readyz", 503, "/readyz"),
        ("GET", "p/proxy/readyz", 503, "/readyz"),
        ("GET", "http:p:PORT/proxy/a/b?c=d", 503, "/a/b?c=d"),
        ("POST", "p:PORT/proxy/", 200, "/"),
    ],
)
def test_the_answer_of_the_pod_is_given_back_as_it_is(
    served: Any, namespace: str, port: int, method: str, target: str, status: int, path: str
) -> None:
    """Its HTTP status too; without a port in the path, the first one of the Pod is meant."""
    pods = made(served, namespace, own_address(), port)
    answer = served.request(method, f"{pods}/{target.replace('PORT', str(port))}", {} if method == "POST" else None)
    assert (answer.status, answer.body) == (status, {"path": path})


def test_a_pod_that_takes_no_connection(served: Any, namespace: str, closed_port: int) -> None:
    address = own_address()
    pods = made(served, namespace, address)
    answer = served.request("GET", f"{pods}/p:{closed_port}/proxy/readyz")
    assert (answer.status, answer.body["kind"], answer.body["reason"]) == (503, "Status", "ServiceUnavailable")
    refused = f"dial tcp {address}:{closed_port}: connect: connection refused"
    assert answer.body["message"] == f"error trying to reach service: {refused}"


@pytest.mark.parametrize("address", ["", "127.0.0.1", "169.254.1.1"])
def test_a_pod_without_an_address_of_its_own_is_not_asked(served: Any, namespace: str, address: str) -> None:
    answer = served.request("GET", f"{made(served, namespace, address)}/p:8444/proxy/readyz")
    assert (answer.status, answer.body["message"]) == (400, "address not allowed")


@pytest.mark.parametrize("port", ["x@127.0.0.1", "@127.0.0.1", "http", "0", "65536", "-1", "٣"])
def test_what_is_no_port_reaches_no_other_address(sandboxed: Sandboxed, port: str) -> None:
    """A real API server breaks the connection at most of these."""
    pods = made(sandboxed, sandboxed.namespace(), "10.244.0.2")
    answer = sandboxed.request("GET", f"{pods}/p:{quote(port)}/proxy/readyz")
    assert (answer.status, answer.body["reason"]) == (503, "ServiceUnavailable")
    assert answer.body["message"] == f"error trying to reach service: dial tcp: address {port}: invalid port"


def test_no_pod_and_no_permission(served: Any, namespace: str) -> None:
    """The name in a refusal has the port, as the path has."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    missing = served.request("GET", f"{pods}/none:80/proxy/readyz")
    assert (missing.status, missing.body["message"]) == (404, 'pods "none" not found')
    refused = served.request("GET", f"{pods}/p:80/proxy/readyz", user="joe", groups=())
    assert (refused.status, refused.body["details"]) == (403, {"name": "p:80", "kind": "pods"})
    assert 'cannot get resource "pods/proxy"' in refused.body["message"]
    allowed = {one["name"]: one for one in served.request("GET", "/api/v1").body["resources"]}["pods/proxy"]
    assert (allowed["kind"], sorted(allowed["verbs"])) == (
        "PodProxyOptions",
        ["create", "delete", "get", "patch", "update"],
    )


def test_a_stand_in_refuses_the_connection(sandboxed: Sandboxed) -> None:
    """It runs nothing, so nothing listens."""
    pods = made(sandboxed, sandboxed.namespace(), "10.244.0.2")
    sandboxed.cluster.state.processes.clear()
    answer = sandboxed.request("GET", f"{pods}/p:8444/proxy/readyz")
    assert answer.status == 503
    assert answer.body["message"].endswith("dial tcp 10.244.0.2:8444: connect: connection refused")
