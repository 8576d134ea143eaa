"""The controller `policies` on a real API server, with the rights that the chart gives it and no webhook that answers.

So a Pod that is sent to the webhook is refused, and says so: each is injected by policy or sent there, at any moment.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import helm_python
import pytest
import yaml

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.kit import Watches
from app.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    NETWORK_ATTACHMENTS,
    PODS,
    VALIDATING_POLICIES,
)
from app.kube.transport import connect
from app.policies import objects
from app.policies.cel import SHARD
from app.policies.controller import build
from app.policies.keeping import KINDS, condition_of
from app.policies.leaving import MOST_LABELS
from app.policies.model import Terms
from app.policies.objects import POLICIES_OF
from app.registry import settings_of
from app.settings.reconciling import ControllerContext
from app.wire import encode_json
from tests.support.chart import NAMESPACE, Server
from tests.support.paths import ROOT
from tests.support.policy_stage import JSON, network, pod_with
from tests.support.real_parts import needs, since
from tests.support.running import at_work, running
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.asyncio,
    *needs("etcd", "kube-apiserver"),
    since(36),
    pytest.mark.parametrize("server", ["real"], indirect=True),
]
CONTROLLER = {"enabled": True, "args": {"controllers": ["policies"]}}
UNCHECKED = {"attachments": {"enabled": False, "failurePolicy": "Fail", "timeoutSeconds": 10}}
BOTH = {"mode": "both", "controller": CONTROLLER, "webhook": {"webhooks": UNCHECKED}}
POLICIES = {"mode": "policies", "controller": CONTROLLER, "webhook": {"enabled": False}}
WEBHOOK = {**BOTH, "mode": "webhook"}


async def _prepared(server: Server, values: JSON, *attachments: JSON) -> None:
    definition = yaml.safe_load((ROOT / "app/networks/crds/network-attachment-definitions.yaml").read_text())
    await server.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    await server.served(NETWORK_ATTACHMENTS)
    for obj in attachments:
        await server.client.create(NETWORK_ATTACHMENTS, obj, namespace="default")
    await server.install(values)


@contextlib.asynccontextmanager
async def _controller(server: Server) -> AsyncIterator[None]:
    """With the flags and the account of the chart."""
    settings = settings_of("controller").load({"controllers": ("policies",), "namespace": NAMESPACE}, environment=False)
    kubeconfig = server.kubeconfig_of(NAMESPACE, "berth-controller")
    async with await connect(kubeconfig=str(kubeconfig)) as client:
        events = EventRecorder(lambda: client, role="controller", instance="test")
        kit = build(ControllerContext(client, settings, events, Watches(client)))  # type: ignore[arg-type]
        async with running(events.run()), at_work(kit):
            yield


async def _made_of(client: KubeClient, networks: str) -> JSON | str:
    """The Pod, or why it is refused."""
    try:
        pod, _ = await client.dry_run(PODS, pod_with(networks), namespace="default")
    except ApiError as error:
        return str(error)
    return pod


async def _resource_of(client: KubeClient, networks: str) -> str:
    """What the Pod gets by policy: names of resources; "webhook" where it is sent there, "" for nothing."""
    pod = await _made_of(client, networks)
    if isinstance(pod, str):
        return "webhook" if "failed calling webhook" in pod else pod
    return ",".join(pod["spec"]["containers"][0].get("resources", {}).get("limits", {}))


async def _until(look: Callable[[], Any], value: object) -> None:
    seen: object = None

    async def same() -> bool:
        nonlocal seen
        seen = await look()
        return bool(seen == value)

    try:
        await eventually(same)
    except pytest.fail.Exception:
        raise AssertionError(seen) from None


async def _condition(server: Server) -> bool:
    return bool(condition_of(await server.client.get(MUTATING_WEBHOOKS, "berth")))


async def _names(server: Server) -> list[str]:
    pages = [await server.client.list_page(kind, label_selector=f"{POLICIES_OF}=berth") for kind in KINDS]
    return sorted(f"{obj['kind']} {obj['metadata']['name']}" for page in pages for obj in page.items)


class Asking:
    """Creates Pods all the time, in dry runs, and counts what becomes of them."""

    def __init__(self, server: Server) -> None:
        self._client = server.client
        self.outcomes = Counter[str]()

    async def run(self) -> None:
        while True:
            self.outcomes[await _resource_of(self._client, "foo")] += 1
            await asyncio.sleep(0.02)


async def test_each_pod_is_served_at_any_moment(server: Server) -> None:
    """From the first policy on, while attachments and switches change, by hand edits, and until the last has gone."""
    await _prepared(server, BOTH, network("foo", "example.com/foo"), network("dots.in.name", "example.com/foo"))
    asking = Asking(server)
    async with running(asking.run()):
        await _until(lambda: _resource_of(server.client, "foo"), "webhook")
        async with _controller(server):
            await _until(lambda: _condition(server), True)
            await _until(lambda: _resource_of(server.client, "foo"), "example.com/foo")
            # A new one.
            await _until(lambda: _resource_of(server.client, "new"), "webhook")
            body = network("new", "example.com/new")
            await server.client.create(NETWORK_ATTACHMENTS, body, namespace="default")
            await _until(lambda: _resource_of(server.client, "new"), "example.com/new")
            # One that changes.
            change = {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/resourceName": "example.com/bar"}}}
            await server.client.patch(NETWORK_ATTACHMENTS, "foo", change, patch_type="merge", namespace="default")
            await _until(lambda: _resource_of(server.client, "foo"), "example.com/bar")
            # One that goes.
            await server.client.delete(NETWORK_ATTACHMENTS, "new", namespace="default")
            await _until(lambda: _resource_of(server.client, "new"), "webhook")
            # Policies that somebody changes, or deletes.
            await server.client.delete(MUTATING_POLICIES, "berth-networks")
            await _until(lambda: _condition(server), False)
            await _until(lambda: _condition(server), True)
            await _until(lambda: _resource_of(server.client, "foo"), "example.com/bar")
            await server.upgrade(WEBHOOK)
            await _until(lambda: _condition(server), False)
            await _until(lambda: _names(server), [])
        await _until(lambda: _resource_of(server.client, "foo"), "webhook")
    assert asking.outcomes.keys() == {"webhook", "example.com/foo", "example.com/bar"}, asking.outcomes
    said = await _events(server, "dots.in.name")
    assert "its name has dots" in said
    assert "the webhook serves Pods that select it" in said


async def test_helm_and_the_controller_leave_each_other_their_fields(server: Server) -> None:
    await _prepared(server, BOTH, network("foo", "example.com/foo"))
    async with _controller(server):
        await _until(lambda: _condition(server), True)
        before = await server.client.get(MUTATING_WEBHOOKS, "berth")
        pods = {"enabled": True, "failurePolicy": "Fail", "timeoutSeconds": 9}
        await server.upgrade({**BOTH, "webhook": {"webhooks": {**UNCHECKED, "pods": pods}}})
        after = await server.client.get(MUTATING_WEBHOOKS, "berth")
        assert [entry["timeoutSeconds"] for entry in after["webhooks"]] == [9]
        assert condition_of(after) == condition_of(before)
        pods["failurePolicy"] = "Ignore"
        await server.upgrade({**BOTH, "webhook": {"webhooks": {**UNCHECKED, "pods": pods}}})
        # The registration has changed, so the policies do.
        await _until(lambda: _failure_policy(server), "Ignore")
        await _until(lambda: _condition(server), True)


async def test_a_webhook_that_serves_all_pods_does_not_go_before_policies_are_there(server: Server) -> None:
    await _prepared(server, WEBHOOK, network("foo", "example.com/foo"))
    with pytest.raises(helm_python.HelmError, match="upgrade with mode=both first"):
        await server.upgrade(POLICIES)
    assert await _resource_of(server.client, "foo") == "webhook"


async def _failure_policy(server: Server) -> str:
    return str((await server.client.get(MUTATING_POLICIES, "berth-networks"))["spec"]["failurePolicy"])


async def test_what_does_not_fit_is_left_and_said_on_the_attachment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With policies alone Pods that select it are refused, so its Event is a warning. A poison one stops no other."""
    labels = ",".join(f"{'p' * 240}.example.com/label-{index}={'v' * 63}" for index in range(MOST_LABELS))
    monkeypatch.setattr(objects, "OBJECT_LIMIT", len(encode_json(objects._mutating([], Terms()))) + SHARD + 8192 + 2000)
    await _prepared(
        server,
        POLICIES,
        network("broken", "no domain/", **{"k8s.v1.cni.cncf.io/nodeSelector": "=,="}),
        network("foo", "example.com/foo"),
        network("wide", "example.com/foo", **{"k8s.v1.cni.cncf.io/nodeSelector": labels}),
    )
    async with _controller(server):
        await _until(lambda: _resource_of(server.client, "foo"), "example.com/foo")
        for name, reason in (("broken", "bad prefix"), ("wide", "beyond it a policy has more than")):
            refusal = await _made_of(server.client, name)
            assert "does not exist, or policies do not serve it" in str(refusal)
            said = await eventually(lambda name=name: _events(server, name))
            assert reason in said
            assert "Pods that select it are refused" in said


async def test_objects_of_others_and_a_broken_configuration_change_nothing(server: Server) -> None:
    await _prepared(server, POLICIES, network("foo", "example.com/foo"))
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}
    foreign = await server.client.create(
        VALIDATING_POLICIES, VALIDATING_POLICIES.body({"name": "berth-left"}, spec=spec)
    )
    async with _controller(server):
        await _until(lambda: _resource_of(server.client, "foo"), "example.com/foo")
        broken = {"data": {"policies.yaml": "mode: nothing"}}
        await server.client.patch(CONFIG_MAPS, "berth-policies", broken, patch_type="merge", namespace=NAMESPACE)
        await server.client.create(NETWORK_ATTACHMENTS, network("new", "example.com/new"), namespace="default")
        await _until(lambda: _resource_of(server.client, "new"), "example.com/new")
        await server.client.delete(CONFIG_MAPS, "berth-policies", namespace=NAMESPACE)
        await server.client.delete(NETWORK_ATTACHMENTS, "new", namespace="default")
    kept = await server.client.get(VALIDATING_POLICIES, "berth-left")
    assert kept["metadata"]["resourceVersion"] == foreign["metadata"]["resourceVersion"]
    assert len(await _names(server)) == 7


async def _events(server: Server, name: str) -> str:
    events = (await server.client.list_page(EVENTS, namespace="default")).items
    return " ".join(event["message"] for event in events if event["involvedObject"]["name"] == name)
