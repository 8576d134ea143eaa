"""`berth health` as a container engine runs it: a process that asks, and an exit status."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import uvicorn

from app.cli.main import run
from app.serving.health import health_app
from tests.support.waiting import PATIENCE


class Role:
    """What every role serves on its plain port; `waiting` is what it waits for."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        api = health_app(readiness=lambda: self.waiting, metrics=lambda: (b"", "text/plain"))
        self._server = uvicorn.Server(uvicorn.Config(api, port=0, log_config=None, lifespan="off"))
        self._server.config.load()
        self.socket = self._server.config.bind_socket()
        self.socket.listen()  # connections wait until the server has started
        self.port = self.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self.socket]})
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self.socket.close()


@pytest.fixture(scope="module")
def role() -> Iterator[Role]:
    serving = Role()
    yield serving
    serving.stop()


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch, role: Role) -> None:
    role.waiting = []
    for name in ("BERTH_HEALTH_CHECK_PORT", "BERTH_BIND_ADDRESS"):
        monkeypatch.delenv(name, raising=False)


def test_a_role_that_lives_is_silent_and_zero(role, capfd):
    assert run(["health", "--port", str(role.port)]) == 0
    assert capfd.readouterr() == ("", "")


def test_a_role_that_waits_lives_but_is_not_ready_and_says_for_what(role, capfd):
    role.waiting = ["cache of Pods:\n not loaded", "Lease"]
    assert run(["health", "--port", str(role.port)]) == 0
    assert run(["health", "--port", str(role.port), "--ready"]) == 1
    assert capfd.readouterr().err == "Error: not ready: cache of Pods: not loaded, Lease\n"


def test_nobody_there_is_one(role, capfd):
    assert run(["health", "--port", "1"]) == 1
    assert "no answer from port 1 of 127.0.0.1" in capfd.readouterr().err


def test_the_variables_of_the_role_say_where(role, monkeypatch):
    monkeypatch.setenv("BERTH_HEALTH_CHECK_PORT", str(role.port))
    for address in ("0.0.0.0", "127.0.0.1", ""):
        monkeypatch.setenv("BERTH_BIND_ADDRESS", address)
        assert run(["health"]) == 0, address


def test_a_variable_of_a_service_beside_it_is_no_port(monkeypatch, capfd):
    """Kubernetes sets BERTH_HEALTH_CHECK_PORT=tcp://… for a Service named berth-health-check."""
    monkeypatch.setenv("BERTH_HEALTH_CHECK_PORT", "tcp://10.0.0.1:80")
    monkeypatch.setenv("BERTH_BIND_ADDRESS", "127.0.0.2")
    assert run(["health"]) == 1
    assert "port 8444 of 127.0.0.2" in capfd.readouterr().err


@pytest.mark.parametrize("port", ["x", "0", "65536", "-1", "\uff18\uff14\uff14\uff14"])
def test_a_variable_that_is_no_port_is_the_users_mistake(port, monkeypatch, capfd):
    monkeypatch.setenv("BERTH_HEALTH_CHECK_PORT", port)
    assert run(["health"]) == 2
    assert capfd.readouterr().err.startswith("Error: BERTH_HEALTH_CHECK_PORT: want a port, got ")


class _Silent(BaseHTTPRequestHandler):
    """Answers as something that is no role would."""

    def do_GET(self) -> None:
        body = b'{"waitingFor": 3}' if self.path == "/readyz" else b"\xff no page"
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_another_server_on_the_port_is_not_healthy(capfd):
    with ThreadingHTTPServer(("127.0.0.1", 0), _Silent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        port = str(server.server_address[1])
        assert run(["health", "--port", port]) == 1
        assert run(["health", "--port", port, "--ready"]) == 1
        server.shutdown()
        thread.join()
    assert capfd.readouterr().err == "Error: not healthy: status 404\nError: not ready: status 404\n"


def test_as_the_image_asks_it_imports_neither_settings_nor_clients(role):
    """It is run every few seconds."""
    probe = (
        "import sys; sys.argv = ['berth', 'health']\n"
        "from app.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, [m for m in ('pydantic', 'kubernetes', 'grpc', 'cryptography')"
        " if m in sys.modules])"
    )
    environment = os.environ | {"BERTH_HEALTH_CHECK_PORT": str(role.port)}
    done = subprocess.run(
        [sys.executable, "-c", probe], env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout == "0 []\n"
