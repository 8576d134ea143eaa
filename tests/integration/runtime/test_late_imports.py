"""What is imported late, and when: clients are slow to load."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from app.cli.cluster import in_cluster
from app.kube.client import KubeClient
from app.registry import BY_NAME
from tests.support.waiting import PATIENCE


def loaded_by(statements: str, names: str = "('aiohttp', 'kubernetes.aio.client', 'grpc')") -> str:
    """Which of the names (by default: clients) a new process has loaded after these statements."""
    probe = f"import sys\n{statements}\nprint(*(name for name in {names} if name in sys.modules))"
    command = [sys.executable, "-c", probe]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.strip()


def test_the_parent_of_workers_loads_no_client() -> None:
    """It would cost memory and time, and only its workers need one."""
    assert loaded_by("import app.runtime.process, app.runtime.webhook") == ""


_OF_ALL = (
    "aiohappyeyeballs aiohttp aiohttp_retry aiosignal annotated_doc annotated_types anyio attr dateutil frozenlist "
    "httptools idna kubernetes msgspec multidict prometheus_client propcache pydantic pydantic_core shellingham starlette "
    "structlog typer typing_extensions typing_inspection uvicorn uvloop yaml yarl"
)
"""What no role does without: its flags, its log, its metrics, its health, its client."""
_GRPC = "google grpc grpc_health grpc_reflection grpc_tools"
LIBRARIES = {
    "webhook": "_cffi_backend cryptography fastapi jmespath opentelemetry",
    "controller": "_cffi_backend cryptography google jmespath re2",
    "gateway": f"_cffi_backend cryptography jmespath {_GRPC}",
    "agent": f"_cffi_backend cryptography {_GRPC}",
    "certificates": "_cffi_backend cryptography",
    "rmd-node": _GRPC,
    "claims-node": "re2",
    "ui": f"_cffi_backend cryptography jinja2 jmespath jsonpatch jsonpointer markupsafe re2 {_GRPC}",  # it judges as `why`
}
"""What each role may load beside that. A library is several MiB of every Pod: bench/memory.py measures them."""


def test_each_role_has_its_list_of_libraries() -> None:
    assert LIBRARIES.keys() == BY_NAME.keys()


@pytest.mark.parametrize("role", LIBRARIES)
def test_a_role_loads_the_libraries_of_its_list_alone(role: str) -> None:
    probe = (
        "import sys, app.__main__, app.cli.roles\n"
        "from app.cli.main import _role_app\n"
        "from app.registry import ALWAYS_REVIEWED, BY_NAME, CONTROLLERS, WINGS, settings_of\n"
        "from app.wiring import resolve\n"
        f"role = BY_NAME[{role!r}]\n"
        "_role_app(role)\n"
        "settings = settings_of(role.name)\n"
        "import app.runtime.process, app.kube.transport\n"
        "resolve(role.build)\n"
        "if role.name == 'webhook':\n"
        "    import app.runtime.serving\n"
        "    for wing in WINGS: wing.parts and not wing.on and resolve(wing.parts)\n"
        "if role.name == 'controller':\n"
        "    for controller in CONTROLLERS.values(): resolve(controller.build)\n"
        "from importlib.metadata import packages_distributions\n"
        "loaded = {name.partition('.')[0] for name in sys.modules} & packages_distributions().keys()\n"
        "print(*sorted(loaded - {'app', '_distutils_hack'}))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=PATIENCE)
    loaded = {name for name in done.stdout.split() if not name.startswith("__editable__")}
    assert loaded <= {*_OF_ALL.split(), *LIBRARIES[role].split()}


def test_parts_of_libraries_that_no_role_uses_are_not_loaded() -> None:
    """They are installed beside them, and imported wherever they are found."""
    loading = "import app.cli.roles, app.runtime.process, app.runtime.webhook, app.runtime.serving"
    unused = (
        "rich.console",
        "pygments",
        "greenlet",
        "click",
        "watchfiles",
        "uvicorn.main",
        "multiprocessing",
    )
    assert loaded_by(loading, repr(unused)) == ""


def test_a_context_that_a_library_makes_on_import_trusts_nothing_and_ours_trust_the_system() -> None:
    probe = (
        "import ssl, app.kube.official\n"
        "from aiohttp import connector\n"
        "assert not connector._SSL_CONTEXT_VERIFIED.get_ca_certs()\n"
        "assert connector._SSL_CONTEXT_VERIFIED.verify_mode is ssl.CERT_REQUIRED\n"
        "assert 'set_default_verify_paths' not in vars(ssl.SSLContext)"
    )
    subprocess.run([sys.executable, "-c", probe], check=True, timeout=PATIENCE)


def test_a_worker_of_the_webhook_loads_what_it_uses(tmp_path: Path) -> None:
    """Wings that are off, controllers and the other parts of libraries cost each process memory and start."""
    probe = "import app.settings.source, app.runtime.preloading, sys; print(*sys.modules)"
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", probe], env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    loaded = set(done.stdout.split())
    assert {"app.runtime.serving", "app.networks.webhook", "kubernetes.aio.client"} <= loaded
    libraries = {
        "rich",
        "typer",
        "grpc",
        "google.protobuf",
        "kubernetes",
        "kubernetes.client",
        "kubernetes.aio.dynamic",
    }
    assert not loaded & libraries
    controllers = {f"app.{wing}.controller.controller" for wing in ("rmd", "tenancy", "workloads")}
    off = {"app.claims.injection", "app.rmd.admission", "app.appwrappers.admission.review"}
    assert not loaded & (controllers | off)


def test_the_modules_of_wings_load_neither_doctor_nor_status() -> None:
    """But for the checks, sections, views and judges that a wing has for them: no role loads these."""
    loading = (
        "import importlib, pkgutil, app.runtime.composing\n"
        "from app.registry import ROLES, WINGS, settings_of\n"
        "from app.wiring import resolve\n"
        "packages = [importlib.import_module(f'app.{wing.name}') for wing in WINGS]\n"
        "names = [module.name for package in packages\n"
        "         for module in pkgutil.walk_packages(package.__path__, f'{package.__name__}.')\n"
        "         if module.name.split('.')[2] not in ('checks', 'sections', 'views', 'why')]\n"
        "for name in names: importlib.import_module(name)\n"
        # The page shows what doctor, status and why say.
        "for role in ROLES: settings_of(role.name), role.name == 'ui' or resolve(role.build)\n"
        "assert 'app.claims.roads' in sys.modules and 'app.runtime.webhook' in sys.modules\n"
    )
    assert loaded_by(loading, "('app.doctor', 'app.status')") == ""


def test_commands_that_look_at_a_cluster_or_at_manifests_load_no_server_and_no_client_that_they_do_not_call() -> None:
    permissions = "import app.status.gathering\nfrom app.permissions import defaults\ndefaults('controller')"
    assert loaded_by(permissions, "('fastapi', 'uvicorn')") == ""
    assert loaded_by("import app.explain.explaining") == ""


def test_the_official_client_is_whole_for_others_that_import_it() -> None:
    probe = (
        "import app.kube.transport as ours\n"
        "import kubernetes.aio, kubernetes\n"
        "assert kubernetes.aio.client.ApiClient is ours.ApiClient\n"
        "kubernetes.client.CoreV1Api, kubernetes.aio.client.CoreV1Api, kubernetes.aio.watch.Watch"
    )
    subprocess.run([sys.executable, "-c", probe], check=True, timeout=PATIENCE)


def test_a_role_has_its_client_loaded_before_it_runs() -> None:
    """Health answers nothing while a module loads in the event loop."""
    composing = (
        "from app.registry import BY_NAME, settings_of; from app.runtime.composing import compose\n"
        "compose(BY_NAME['controller'], settings_of('controller').load({}, environment=False))"
    )
    assert loaded_by(composing) == "aiohttp kubernetes.aio.client"


def test_a_signal_while_the_client_loads_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process of a container has no default action for it: it would go on until it is killed."""

    class Slow(ModuleType):
        @property
        def connect(self) -> object:
            os.kill(os.getpid(), signal.SIGTERM)
            return connect

    async def connect(**_: object) -> object:
        return opened()

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace()

    async def work(_client: KubeClient) -> None:
        await asyncio.wait_for(stop.wait(), PATIENCE)

    stop = asyncio.Event()
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        monkeypatch.setitem(sys.modules, "app.kube.transport", Slow("app.kube.transport"))
        in_cluster(work, None, None, stop=stop)
    finally:
        signal.signal(signal.SIGTERM, before)
