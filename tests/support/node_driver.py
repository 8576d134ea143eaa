"""A driver of dynamic resource allocation on a real node: kubelet has it prepare the claims of Pods."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio

from app.devtools.claims.driver import DriverStandIn
from app.devtools.claims.slices import slice_of, virtual_functions
from app.kube.client import KubeClient
from app.kube.resources import NETWORK_ATTACHMENTS, RESOURCE_CLAIMS, RESOURCE_SLICES
from tests.real.programs import programs
from tests.support.control_plane import NAMESPACE
from tests.support.go_modules import module_folder
from tests.support.networked_pods import DRIVER, RESOURCE, SUBNETS, prepare
from tests.support.node_stage import NodeStage
from tests.support.real_node import NODE
from tests.support.running import running
from tests.support.waiting import eventually

_APIS = {"dra": "dra/v1", "pluginregistration": "pluginregistration/v1"}
_HERE = Path("/var/lib/kubelet")
"""The folder of kubelet, as its node sees it."""


class Driver:
    """Prepares nothing: a device is there as soon as it is allocated. `prepared` are the claims by their names."""

    def __init__(self, client: KubeClient, name: str, pb: Any) -> None:
        self._client, self._name, self._pb = client, name, pb
        self.prepared: list[str] = []

    async def NodePrepareResources(self, request: Any, _context: Any) -> Any:  # noqa: N802
        answer = self._pb.NodePrepareResourcesResponse()
        for claim in request.claims:
            stored = await self._client.get(RESOURCE_CLAIMS, claim.name, namespace=claim.namespace)
            for result in stored["status"]["allocation"]["devices"]["results"]:
                if result["driver"] == self._name:
                    names = {"pool_name": result["pool"], "device_name": result["device"]}
                    answer.claims[claim.uid].devices.add(request_names=[result["request"]], **names)
            self.prepared.append(claim.name)
        return answer

    async def NodeUnprepareResources(self, request: Any, _context: Any) -> Any:  # noqa: N802
        answer = self._pb.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            answer.claims[claim.uid].SetInParent()
        return answer


class _Registration:
    """What kubelet asks at a socket in its folder of plugins."""

    def __init__(self, name: str, pb: Any) -> None:
        self._name, self._pb = name, pb
        self.accepted = False

    async def GetInfo(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        endpoint = str(_HERE / "plugins" / self._name / "dra.sock")
        versions = ["v1.DRAPlugin"]
        return self._pb.PluginInfo(type="DRAPlugin", name=self._name, endpoint=endpoint, supported_versions=versions)

    async def NotifyRegistrationStatus(self, request: Any, _context: Any) -> Any:  # noqa: N802
        self.accepted = request.plugin_registered
        return self._pb.RegistrationStatusResponse()


@contextlib.asynccontextmanager
async def driving(client: KubeClient, folder: Path, name: str, place: Path) -> AsyncIterator[Driver]:
    """A driver of this name at the kubelet of this folder, which has taken it; `place` is a folder for its own files."""
    messages, services = await asyncio.to_thread(_generated, place)
    driver, registration = Driver(client, name, messages["dra"]), _Registration(name, messages["pluginregistration"])
    server = grpc.aio.server()
    services["dra"].add_DRAPluginServicer_to_server(driver, server)
    services["pluginregistration"].add_RegistrationServicer_to_server(registration, server)
    own = folder / "plugins" / name
    own.mkdir(parents=True)
    server.add_insecure_port(f"unix:{own / 'dra.sock'}")
    server.add_insecure_port(f"unix:{folder / 'plugins_registry' / f'{name}-reg.sock'}")
    await server.start()
    try:
        await eventually(lambda: registration.accepted)
        yield driver
    finally:
        await server.stop(None)


@contextlib.asynccontextmanager
async def driven(stage: NodeStage, place: Path) -> AsyncIterator[None]:
    """A driver on the node of the stage, and what the Pods with its devices name.

    All networks are bridges, which need no hardware.
    """
    await prepare(stage.client, NAMESPACE)
    for number, (name, subnet) in enumerate(SUBNETS.items()):
        ipam = {"type": "host-local", "subnet": subnet}
        config = {"cniVersion": "1.0.0", "name": name, "type": "bridge", "bridge": f"dra{number}", "ipam": ipam}
        change = {"spec": {"config": json.dumps(config)}}
        await stage.client.patch(NETWORK_ATTACHMENTS, name, change, patch_type="merge", namespace=NAMESPACE)
    if stage.node is None:
        driver = DriverStandIn(stage.client, DRIVER, "silent", [NODE], resource=RESOURCE)
        await driver.publish_slices()
        async with running(driver.run()):
            yield
    else:
        async with driving(stage.client, stage.folder, DRIVER, place):
            body = slice_of(DRIVER, NODE, virtual_functions(4, RESOURCE), 1)
            await stage.client.create(RESOURCE_SLICES, body)
            yield


def _generated(place: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Messages and services of kubelet's own interfaces, from the module that its program is built of."""
    (version,) = (program.pin[1] for program in programs() if program.name == "kubelet")
    apis = module_folder("k8s.io/kubelet", re.sub(r"^v1", "v0", version), at=place) / "pkg" / "apis"
    for name, path in _APIS.items():
        (place / f"{name}.proto").write_text((apis / path / "api.proto").read_text())
    files = [f"{name}.proto" for name in _APIS]
    options = [f"-I{place}", f"--python_out={place}", f"--grpc_python_out={place}"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options, *files], cwd=place, check=True)
    sys.path.insert(0, str(place))
    try:
        messages = {name: importlib.import_module(f"{name}_pb2") for name in _APIS}
        return messages, {name: importlib.import_module(f"{name}_pb2_grpc") for name in _APIS}
    finally:
        sys.path.remove(str(place))
