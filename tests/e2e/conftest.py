"""One API server with Berth registered, reached as users reach it: kubectl where it is installed, the Python client always.

The API server is the sandbox's, or a real one: `KUBEBUILDER_ASSETS` names a folder with `etcd` and `kube-apiserver`
(the envtest convention), `--kubeconfig` one that already runs. The tests do not know which.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.apiserver import real_api_server
from tests.e2e.processes import Background
from tests.e2e.users import Kubectl, PythonClient, User

JSON = dict[str, Any]
CLUSTER = "tenant1"


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An API server with Berth's CRDs, stand-ins and webhooks."""
    directory = tmp_path_factory.mktemp("e2e")
    command = [sys.executable, "-m", "app", "sandbox", "--dir", str(directory / "sandbox")]
    with contextlib.ExitStack() as stack:
        given = request.config.getoption("--kubeconfig")
        assets = os.environ.get("KUBEBUILDER_ASSETS")
        if given is None and assets:
            given = str(stack.enter_context(real_api_server(Path(assets), directory)))
        if given is not None:
            command += ["--kubeconfig", f"{CLUSTER}={given}"]
        sandbox = Background(command)
        try:
            sandbox.wait_for("Ready.")
            yield directory / "sandbox" / f"{CLUSTER}.kubeconfig"
        finally:
            assert sandbox.stop() == 0, "".join(sandbox.lines)[-4000:]


_USERS = [PythonClient, *([Kubectl] if shutil.which("kubectl") else [])]


@pytest.fixture(params=_USERS, ids=lambda kind: kind.name)
def user(request: pytest.FixtureRequest, kubeconfig: Path) -> User:
    """Whoever types: each test runs once with every client there is."""
    return request.param(kubeconfig)


@pytest.fixture
def python(kubeconfig: Path) -> PythonClient:
    return PythonClient(kubeconfig)


@pytest.fixture
def created(user: User) -> Iterator[Callable[[JSON], JSON]]:
    """Creates objects and removes them after the test."""
    made: list[tuple[str, str, str]] = []
    short = {"NetworkAttachmentDefinition": "net-attach-def", "Pod": "pod", "ConfigMap": "configmap"}

    def create(body: JSON) -> JSON:
        found = user.create(body)
        made.append((short[body["kind"]], found["metadata"]["name"], found["metadata"]["namespace"]))
        return found

    yield create
    for kind, name, namespace in reversed(made):
        user.delete(kind, name, namespace)
