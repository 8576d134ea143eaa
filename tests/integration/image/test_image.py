"""The image without an engine: the Dockerfile's own commands are run in a directory, and what they make is used."""

from __future__ import annotations

import base64
import contextlib
import ensurepip
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import ssl
import stat
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from packaging.requirements import Requirement

from app.registry import settings_of
from app.tenancy.agent.settings import AgentSettings
from app.tenancy.gateway.settings import GatewaySettings
from tests.integration.image.dockerfile import Build, Ignored, Stage, copy_context, read_dockerfile
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE

WebhookSettings = settings_of("webhook")

# One environment is made for all tests here, from the index that `make` made its own from.

ARGUMENTS, (BUILD, FINAL) = read_dockerfile((ROOT / "Dockerfile").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TOOLS = ("pip", "setuptools", "wheel", "hatchling", "uv", "build")

ATTACHMENT = """
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: foo-network
  namespace: default
  annotations: {k8s.v1.cni.cncf.io/resourceName: example.com/foo}
"""


def build_environment() -> dict[str, str]:
    """The builder's: a `python` with pip, and how pip reaches its index; nothing else of whoever runs the tests."""
    kept = ("PIP_", "HTTP", "NO_PROXY", "SSL_", "http", "no_proxy")
    clean = {name: value for name, value in os.environ.items() if name.startswith(kept) or name == "HOME"}
    return clean | {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}


class Image:
    """What the build stage made, as the final stage copies it."""

    def __init__(self, build: Build, context: Path) -> None:
        self.build, self.context = build, context
        self.environment = build.path("/opt/berth")

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """A command in the container's surroundings; checked."""
        return subprocess.run(
            command, cwd="/", env=self.variables(**more), check=True, capture_output=True, text=True, timeout=PATIENCE
        )

    def variables(self, **more: str) -> dict[str, str]:
        own = {name: value for name, value in FINAL.variables.items() if name != "PATH"}
        return own | {"PATH": f"{self.environment / 'bin'}:/usr/bin:/bin"} | more

    def code(self, text: str) -> str:
        return self.run("python", "-c", text).stdout

    def bytecode(self) -> dict[Path, str]:
        """Every compiled file of the environment with the hash of its content."""
        return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in self.environment.rglob("*.pyc")}

    def state(self) -> dict[Path, tuple[int, int]]:
        """Every path of the environment with what nobody can write to it, or change of it, without another."""
        found = {path: path.lstat() for path in (self.environment, *self.environment.rglob("*"))}
        return {path: (seen.st_ino, seen.st_ctime_ns) for path, seen in found.items()}


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The build stage, run once."""
    directory = tmp_path_factory.mktemp("image")
    context = directory / "context"
    copy_context(ROOT, context)
    build = Build(
        directory / "root", below=("/opt/berth", "/opt/build", "/wheels", "/src"), environment=build_environment()
    )
    # A cache would stay in a layer; here it spares the network.
    BUILD.instructions[:] = [
        type(one)(one.name, one.value.replace(" PIP_NO_CACHE_DIR=1", "")) for one in BUILD.instructions
    ]
    build.path("/").mkdir()
    build.run_stage(BUILD, context)
    return Image(build, context)


def command_of(stage: Stage) -> list[str]:
    return [*stage.one("ENTRYPOINT").words, *stage.one("CMD").words]


def test_both_stages_have_the_same_base_with_a_tag():
    assert {BUILD.base, FINAL.base} == {"${PYTHON_IMAGE}"}
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", ARGUMENTS["PYTHON_IMAGE"])
    version = re.search(r"3\.\d+", ARGUMENTS["PYTHON_IMAGE"])
    assert version is not None
    assert f"Programming Language :: Python :: {version[0]}" in PROJECT["project"]["classifiers"]


def test_it_runs_as_nobody_in_particular():
    user, group = FINAL.one("USER").value.split(":")
    assert int(user) >= 10000
    assert int(group) >= 10000


def test_its_ports_and_label_are_those_of_the_code():
    exposed = set(map(int, FINAL.one("EXPOSE").words))
    served = {settings.model_fields["port"].default for settings in (WebhookSettings, GatewaySettings)}
    assert exposed == served | {AgentSettings.model_fields["health_check_port"].default}
    assert f"image.version={PROJECT['project']['version']}" in " ".join(FINAL.one("LABEL").words)


def test_a_stop_is_the_signal_that_drains():
    assert FINAL.one("STOPSIGNAL").value == "SIGTERM"


def test_what_builds_is_locked_as_what_develops_is():
    """requirements-build.lock names the build backend and all it needs, at the versions of requirements-dev.lock."""
    pinned, all_pinned = (_pins(ROOT / f"requirements-{name}.lock") for name in ("build", "dev"))
    assert pinned.items() <= all_pinned.items()
    assert {Requirement(text).name for text in PROJECT["build-system"]["requires"]} <= pinned.keys()


def test_the_context_leaves_out_what_is_not_built():
    ignored = Ignored((ROOT / ".dockerignore").read_text())
    for path in (
        ".git/config",
        "certs/ca.key",
        "tests/conftest.py",
        ".venv/bin/pip",
        "app/cli/__pycache__/x.pyc",
        "app/devtools/__init__.py",
    ):
        assert path in ignored, path
    for path in (
        "app/cli/main.py",
        "app/workloads/crds/workloads.yaml",
        "app/rmd/findings.toml",
        "README.md",
        "requirements-build.lock",
    ):
        assert path not in ignored, path


def test_everything_that_is_copied_is_in_the_context():
    ignored = Ignored((ROOT / ".dockerignore").read_text())
    for copy in BUILD.all("COPY"):
        for source in copy.words[:-1]:
            assert (ROOT / source).exists(), source
            assert source not in ignored, source


def test_exactly_what_is_locked_is_installed(image: Image):
    listed = image.code(
        "import importlib.metadata as m, json;"
        "print(json.dumps({d.name.lower().replace('_', '-'): d.version for d in m.distributions()}))"
    )
    assert json.loads(listed) == _pins(ROOT / "requirements.lock") | {"berth": PROJECT["project"]["version"]}


def test_the_doctor_explains_its_codes_without_a_network(image: Image):
    """The page is in the wheel."""
    assert image.run("berth", "doctor", "--explain", "BERTH0306").stdout.startswith("BERTH0306: Replicas of a role")


def test_nothing_in_it_builds_or_installs(image: Image):
    found = image.code(f"import importlib.util as u; print([n for n in {TOOLS} if u.find_spec(n)])")
    assert found.strip() == "[]"
    commands = {path.name.rstrip("0123456789.") for path in (image.environment / "bin").iterdir()}
    assert not commands & {*TOOLS, "easy_install", "gcc"}


def test_the_base_loses_its_pip(tmp_path: Path):
    """The command of the final stage, on a Python that has pip as the base image has."""
    build = Build(tmp_path, below=("/usr/local",), environment=build_environment())
    local = build.path("/usr/local")
    bundled = next((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
    build.run("python -m venv --without-pip /usr/local")
    build.run(f"python -m pip --python /usr/local/bin/python install --no-compile --no-index {bundled}")
    assert list(local.glob("bin/pip3*"))
    assert list(local.rglob("site-packages/pip/__init__.py"))
    (local / "lib" / f"python3.{sys.version_info.minor}" / "ensurepip").mkdir()
    build.run(FINAL.one("RUN").value, PATH=f"{local / 'bin'}:/usr/bin:/bin")
    assert subprocess.run([local / "bin" / "python", "-m", "pip"], capture_output=True, check=False).returncode
    assert not [path for path in local.rglob("*") if path.name.startswith(("pip", "ensurepip"))]


def test_all_files_of_the_package_are_there(image: Image):
    """Definitions, protos, manifests: what the context has is installed, byte for byte."""
    [installed] = image.environment.glob("lib/python3.*/site-packages/app")
    wanted = {path.relative_to(image.context / "app") for path in (image.context / "app").rglob("*") if path.is_file()}
    there = {p.relative_to(installed) for p in installed.rglob("*") if p.is_file() and p.suffix != ".pyc"}
    assert there == wanted | {Path("doctor/troubleshooting.md")}
    assert {".yaml", ".proto"} <= {path.suffix for path in wanted}
    assert all((installed / p).read_bytes() == (image.context / "app" / p).read_bytes() for p in wanted)


def test_its_modules_need_nothing_that_is_missing(image: Image):
    modules = ("runtime.webhook", "runtime.serving", "runtime.controller", "runtime.certificates", "cli.main")
    roles = ("tenancy.gateway.server", "tenancy.agent.agent")
    exporter = "opentelemetry.exporter.otlp.proto.http"
    image.code(f"import {', '.join(f'app.{name}' for name in (*modules, *roles))}, {exporter}")


@pytest.mark.parametrize("command", ["sandbox", "demo"])
def test_it_has_no_development_tools(image: Image, command: str):
    assert image.code("import importlib.util as u; print(u.find_spec('app.devtools'))").strip() == "None"
    with pytest.raises(subprocess.CalledProcessError) as caught:
        image.run("berth", command)
    assert caught.value.returncode == 2
    assert caught.value.stderr.startswith("Error: the container image has no development tools")


def test_anybody_can_read_it_and_nobody_is_made_more_by_it(image: Image):
    for path in image.environment.rglob("*"):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            assert mode & 0o004, path
            assert not mode & (stat.S_ISUID | stat.S_ISGID | 0o022), path


def test_the_wheel_is_the_same_whoever_builds_it_and_when(image: Image, tmp_path: Path):
    [wheel] = image.build.path("/wheels").iterdir()
    again = Build(tmp_path / "root", below=("/wheels", "/src"), environment=build_environment())
    source = again.path("/src")
    shutil.copytree(image.context, source)
    for path in source.rglob("*"):
        os.utime(path, (1.7e9, 1.7e9))
        path.chmod(0o700 if path.is_dir() else 0o600)
    [command] = [one.value.split(" && ")[0] for one in BUILD.all("RUN") if "hatchling build" in one.value]
    python = str(image.build.path("/opt/build/bin/python"))
    epoch = BUILD.variables["SOURCE_DATE_EPOCH"]
    again.run(f"cd /src && umask 077 && {command.replace('/opt/build/bin/python', python)}", SOURCE_DATE_EPOCH=epoch)
    [other] = again.path("/wheels").iterdir()
    assert other.read_bytes() == wheel.read_bytes()


def test_the_bytecode_is_the_same_in_every_build_and_bears_no_time(image: Image):
    before = image.bytecode()
    assert len(before) > 1000
    for path in before:
        path.unlink()
    [command] = [one.value for one in BUILD.all("RUN") if "compileall" in one.value]
    image.build.run(command, PYTHONHASHSEED="7")
    assert image.bytecode() == before
    # PEP 552: the flags say a hash, which is not looked at.
    [own] = image.environment.glob("lib/python3.*/site-packages/app/__pycache__/errors.*.pyc")
    assert own.read_bytes()[4:8] == b"\x01\0\0\0"
    epoch = int(BUILD.variables["SOURCE_DATE_EPOCH"])
    assert {path.lstat().st_mtime for path in image.environment.rglob("*")} == {epoch}


def test_it_says_its_version(image: Image):
    assert image.run("berth", "--version").stdout == f"berth {PROJECT['project']['version']}\n"


def test_its_command_is_a_role(image: Image):
    assert command_of(FINAL)[0] == "berth"
    assert "Answer AdmissionReviews" in image.run(*command_of(FINAL), "--help").stdout


class Serving:
    """`berth webhook` of the image; `reviews` and `health` are its ports."""

    def __init__(self, image: Image, directory: Path) -> None:
        self.lines: list[dict[str, Any]] = []
        self._listening = threading.Event()
        flags = ["--port=0", "--health-check-port=0", "--bind-address=127.0.0.1", "--drain-seconds=0", "--insecure"]
        flags += [f"--manifests={directory}", f"--tls-cert-file={directory}/tls.crt"]
        flags += [f"--tls-private-key-file={directory}/tls.key"]
        self.process = subprocess.Popen(
            [*command_of(FINAL), *flags],
            cwd="/",
            # Found by its path, as an engine finds it by the image's.
            env=image.variables(),
            executable=str(image.environment / "bin" / "berth"),
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._listening.wait(PATIENCE), self.lines
        [listening] = [line for line in self.lines if line["msg"] == "listening"]
        self.reviews, self.health = (urlsplit(listening[name]).port or 0 for name in ("reviews", "health"))

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(json.loads(line))
            if self.lines[-1]["msg"] == "listening":
                self._listening.set()
        self._listening.set()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit status, when all that it wrote has been read; may be called again."""
        self.process.send_signal(number)
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return status


@pytest.fixture
def serving(image: Image, tmp_path: Path) -> Iterator[Serving]:
    image.run("berth", "certs", "make", "--dir", str(tmp_path), "--dns", "localhost", "--ip", "127.0.0.1")
    (tmp_path / "attachment.yaml").write_text(ATTACHMENT)
    running = Serving(image, tmp_path)
    yield running
    running.stop(signal.SIGKILL)


def test_it_serves_a_review_is_healthy_and_writes_nothing(image: Image, serving: Serving, tmp_path: Path):
    """A read-only root file system is enough: nothing of the environment is another afterwards."""
    before = image.state()
    until_ready(image, serving.health)
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "default",
            "operation": "CREATE",
            "object": {
                "metadata": {"name": "pod", "annotations": {"k8s.v1.cni.cncf.io/networks": "foo-network"}},
                "spec": {"containers": [{"name": "main", "image": "main"}]},
            },
        },
    }
    connection = http.client.HTTPSConnection("localhost", serving.reviews, context=context, timeout=PATIENCE)
    connection.request("POST", "/mutate", json.dumps(review), {"Content-Type": "application/json"})
    response = json.loads(connection.getresponse().read())["response"]
    connection.close()
    assert response["allowed"]
    assert "example.com~1foo" in base64.b64decode(response["patch"]).decode()
    assert serving.stop() == 0
    assert image.state() == before


def until_ready(image: Image, port: int) -> None:
    """Asks as the image's HEALTHCHECK does, first whether it lives: the command waits for an answer for a while only."""
    check = FINAL.one("HEALTHCHECK").value
    command = json.loads(check[check.index("[") :])
    for flags in ([], ["--ready"]):
        for _ in range(200):
            with contextlib.suppress(subprocess.CalledProcessError):
                image.run(*command, *flags, BERTH_HEALTH_CHECK_PORT=str(port))
                break
        else:
            raise AssertionError(f"never healthy: {flags}")


def _pins(lock: Path) -> dict[str, str]:
    """Names and versions in a lock file, of what this machine needs."""
    lines = [line.split("\\")[0].strip() for line in lock.read_text().splitlines() if re.match(r"[a-z0-9]", line)]
    wanted = [Requirement(line) for line in lines]
    return {r.name: str(r.specifier).removeprefix("==") for r in wanted if r.marker is None or r.marker.evaluate()}
