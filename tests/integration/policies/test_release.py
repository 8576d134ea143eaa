"""Policies through the life of a release, by Helm itself: modes that follow each other, and the end.

The API server is real, and so is the garbage collector. The controller runs with the rights that the chart gives it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from app.kube.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOKS,
    NETWORK_ATTACHMENTS,
)
from app.kube.transport import connect
from app.policies.keeping import condition_of
from tests.integration.policies.test_controller import (
    BOTH,
    POLICIES,
    UNCHECKED,
    WEBHOOK,
    Asking,
    _controller,
    _names,
    _resource_of,
    _until,
)
from tests.support.chart import ASSETS, CHART, NAMESPACE, Server
from tests.support.control_plane import in_thread
from tests.support.paths import ROOT
from tests.support.policy_stage import JSON, network
from tests.support.real_apiserver import real_api_servers
from tests.support.real_control_plane import real_control_plane
from tests.support.real_parts import needs, real_part, since
from tests.support.running import running
from tests.support.waiting import PATIENCE, eventually

pytestmark = [
    pytest.mark.asyncio,
    *needs("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    since(36),
    pytest.mark.parametrize("helm", [pytest.param(name, marks=needs(name)) for name in ("helm", "helm3")]),
]


class Release:
    """The release `berth` of a real API server, as one version of Helm keeps it."""

    def __init__(self, server: Server, helm: str, directory: Path) -> None:
        self.server, self._helm, self._values = server, helm, directory / "values.yaml"

    async def call(self, *words: str, values: JSON | None = None) -> None:
        self._values.write_text(yaml.safe_dump(values))
        given = ["--values", str(self._values)] if values is not None else []
        command = [str(real_part(self._helm)), *words, "--namespace", NAMESPACE, *given]
        environment = {**os.environ, "KUBECONFIG": str(self.server.kubeconfig)}
        done = await asyncio.to_thread(
            subprocess.run, command, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    async def upgrade(self, values: JSON) -> None:
        await self.call("upgrade", "berth", str(CHART), "--history-max", "0", values=values)

    async def uninstall(self) -> None:
        """Without the Job that runs before: there is no node for it, and it does not know policies."""
        await self.call("uninstall", "berth", "--no-hooks")

    async def condition(self) -> bool:
        """Whether the webhook leaves Pods to policies; False where there is none."""
        configurations = (await self.server.client.list_page(MUTATING_WEBHOOKS)).items
        return any(condition_of(configuration) for configuration in configurations)


@pytest_asyncio.fixture
async def release(helm: str, tmp_path: Path) -> AsyncIterator[Release]:
    async with contextlib.AsyncExitStack() as stack:
        kubeconfigs = await in_thread(stack, real_api_servers(Path(ASSETS), tmp_path, ["release"]))
        await in_thread(stack, real_control_plane(Path(ASSETS), tmp_path / "release"))
        kubeconfig = kubeconfigs["release"]
        client = await stack.enter_async_context(await connect(kubeconfig=str(kubeconfig), deadline=PATIENCE))
        server = Server(kubeconfig, client)
        definition = yaml.safe_load((ROOT / "app/networks/crds/network-attachment-definitions.yaml").read_text())
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        await server.served(NETWORK_ATTACHMENTS)
        await client.create(NETWORK_ATTACHMENTS, network("foo", "example.com/foo"), namespace="default")
        yield Release(server, helm, tmp_path)


async def test_what_the_controller_has_written_goes_with_the_release(release: Release) -> None:
    """Also while the controller still runs, and without it. What the command has written is the user's own."""
    server = release.server
    own = network("own", "example.com/own")
    await release.call("install", "berth", str(CHART), "--create-namespace", values=BOTH)
    async with _controller(server):
        await _until(release.condition, True)
        assert len(await _names(server)) == 4
        await release.uninstall()
        await _until(lambda: _names(server), [])
        await server.client.create(NETWORK_ATTACHMENTS, own, namespace="default")
        await asyncio.sleep(1)  # it has seen that by now
    assert await _names(server) == []
    await release.call("install", "berth", str(CHART), values=POLICIES)
    async with _controller(server):
        await eventually(lambda: _names(server), lambda names: len(names) == 8)
    await release.uninstall()
    await _until(lambda: _names(server), [])


async def test_policies_get_the_owner_of_today(release: Release) -> None:
    """A ClusterRole that is made anew has another UID: for the garbage collector it is another object."""
    server = release.server
    await release.call("install", "berth", str(CHART), "--create-namespace", values=BOTH)
    async with _controller(server):
        await _until(release.condition, True)
        role = await server.client.get(CLUSTER_ROLES, "berth-controller")
        await server.client.delete(CLUSTER_ROLES, "berth-controller")
        kept = {key: role["metadata"][key] for key in ("name", "labels", "annotations")}
        await server.client.create(CLUSTER_ROLES, CLUSTER_ROLES.body(kept, rules=role["rules"]))
        await _until(release.condition, True)
        await eventually(lambda: _names(server), lambda names: len(names) == 4)


async def test_modes_that_follow_each_other_keep_the_condition_right(release: Release) -> None:
    """Helm leaves the condition that the controller writes, and the controller takes it away when it is wrong.

    No Pod is admitted without its network meanwhile: one that is sent to the webhook, which does not run, is refused.
    """
    server, asking = release.server, Asking(release.server)
    await release.call("install", "berth", str(CHART), "--create-namespace", values=WEBHOOK)
    await _until(lambda: _resource_of(server.client, "foo"), "webhook")
    async with _controller(server), running(asking.run()):
        for _ in range(2):  # what the first turn leaves behind is in the way of the second
            assert not await release.condition()
            await release.upgrade(BOTH)
            await _until(release.condition, True)
            pods = {"enabled": True, "failurePolicy": "Fail", "timeoutSeconds": 9}
            await release.upgrade({**BOTH, "webhook": {"webhooks": {**UNCHECKED, "pods": pods}}})
            assert await release.condition(), "an upgrade that changes the webhook leaves the condition"
            await eventually(lambda: _resource_of(server.client, "foo"), lambda resource: resource == "example.com/foo")
            await release.upgrade(POLICIES)
            assert not (await server.client.list_page(MUTATING_WEBHOOKS)).items
            await eventually(lambda: _names(server), lambda names: len(names) == 8)
            await release.upgrade(WEBHOOK)
            await _until(lambda: _names(server), [])
            assert not await release.condition(), "the webhook serves all Pods"
        await release.upgrade(BOTH)
        await _until(release.condition, True)
        await release.upgrade(WEBHOOK)
        await _until(release.condition, False)
        await _until(lambda: _names(server), [])
        # Back to the values of `both`, and to those of before.
        await release.call("rollback", "berth", "2", "--history-max", "0")
        await _until(release.condition, True)
        await release.call("rollback", "berth", "1", "--history-max", "0")
        await _until(release.condition, False)
        await _until(lambda: _names(server), [])
    assert asking.outcomes.keys() == {"webhook", "example.com/foo"}, asking.outcomes
    config = (await server.client.list_page(CONFIG_MAPS, namespace=NAMESPACE)).items
    assert any(obj["metadata"]["name"] == "berth-policies" for obj in config)
