"""Three clusters with Berth in them, reached as users reach them: with kubectl and with the Python client.

The API servers are the sandbox's, or real ones: `KUBEBUILDER_ASSETS` names a folder with `etcd` and `kube-apiserver`
(the envtest convention), `--kubeconfig` those that already run. The tests do not know which.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.reader import CLUSTERS, Reader, bare_clusters
from tests.e2e.users import Kubectl, PythonClient, User
from tests.support.chart import chart, render  # noqa: F401  # fixtures
from tests.support.processes import Background
from tests.support.real_apiserver import real_api_servers

JSON = dict[str, Any]


@pytest.fixture(scope="package")
def sandbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a sandbox that is up, with everything of Berth in it."""
    directory = tmp_path_factory.mktemp("e2e")
    command = [sys.executable, "-m", "app", "sandbox", "--dir", str(directory / "sandbox")]
    with contextlib.ExitStack() as stack:
        given = dict(_named(text) for text in request.config.getoption("--kubeconfig"))
        assets = os.environ.get("KUBEBUILDER_ASSETS")
        if not given and assets:
            given = stack.enter_context(real_api_servers(Path(assets), directory, CLUSTERS))
        for name, kubeconfig in given.items():
            command += ["--kubeconfig", f"{name}={kubeconfig}"]
        process = Background(command)
        try:
            process.wait_for("Ready.")
            yield directory / "sandbox"
        finally:
            assert process.stop() == 0, "".join(process.lines)[-4000:]


def _named(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    return (name, Path(path)) if equals else ("tenant1", Path(text))


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Types our pages, in clusters of its own for each module."""
    with bare_clusters(tmp_path_factory.mktemp("bare")) as found:
        yield found


@pytest.fixture(scope="package")
def kubeconfig(sandbox: Path) -> Path:
    """A tenant's cluster, where the injection is tried."""
    return sandbox / "tenant1.kubeconfig"


@pytest.fixture(params=[PythonClient, Kubectl], ids=lambda kind: kind.name)
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
