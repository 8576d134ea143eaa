"""`berth policies generate` without -f: attachments, flags, switches and registration are those of the cluster.

Against the sandbox and, where its binaries are, a real API server.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml

from app.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOKS,
    NETWORK_ATTACHMENTS,
    VALIDATING_WEBHOOKS,
)
from app.networks.settings import Switches, parse_switches
from app.policies.objects import Generated, generate
from app.policies.terms import terms_of
from app.registry import settings_of
from tests.support.chart import CHART, NAMESPACE, Server
from tests.support.command_line import berth
from tests.support.paths import ROOT
from tests.support.policy_stage import JSON, network

pytestmark = pytest.mark.asyncio
ATTACHMENTS = [
    network("foo", "example.com/foo"),
    network("labeled", "example.com/bar", **{"k8s.v1.cni.cncf.io/nodeSelector": "a=b"}),
    network("other-key", **{"example.com/resource": "example.com/other"}),
    network("a.b", "example.com/foo"),
]
INJECTIONS = (
    '{"user-defined-injections": {"sriov": {"op": "add", "path": "/metadata/annotations", "value": {"n": "1"}}}}'
)
VALUES = {
    "webhook": {
        "args": {"networkResourceNameKeys": ["example.com/resource"], "nodeSelectorConflict": "deny"},
        "exemptNamespaces": ["left-alone"],
        "webhooks": {"pods": {"enabled": True, "failurePolicy": "Ignore", "timeoutSeconds": 10}},
        "injectionLabels": ["sriov"],
    }
}


async def _with_attachments(server: Server) -> None:
    definition = yaml.safe_load((ROOT / "app/networks/crds/network-attachment-definitions.yaml").read_text())
    await server.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    await server.served(NETWORK_ATTACHMENTS)
    for obj in ATTACHMENTS:
        await server.client.create(NETWORK_ATTACHMENTS, obj, namespace="default")


async def _generated(server: Server, *words: str) -> tuple[list[JSON], str]:
    """What is printed, and what is said aside."""
    command = ("policies", "generate", "--kubeconfig", str(server.kubeconfig), *words)
    done = await asyncio.to_thread(berth, *command, columns=200)
    assert done.returncode == 0, done.stderr
    return [*yaml.safe_load_all(done.stdout)], done.stderr


def _expected(
    switches: str | None = None, registered: JSON | None = None, checked: JSON | None = None, **flags: Any
) -> Generated:
    settings = settings_of("webhook").load({"manifests": None, **flags}, environment=False)
    parsed = parse_switches(switches, initial=Switches())
    return generate(ATTACHMENTS, terms_of(settings, parsed, registered=registered, checked=checked))


async def test_without_a_release_the_defaults_of_the_chart_hold(server: Server) -> None:
    await _with_attachments(server)
    printed, said = await _generated(server)
    assert printed == _expected().objects
    assert "left to the webhook: NetworkAttachmentDefinition default/a.b: its name has dots" in said
    assert "3 attachments in 8 objects" in said


async def test_a_cluster_without_the_kind_has_no_attachments(server: Server) -> None:
    printed, said = await _generated(server)
    assert len(printed) == 8
    assert "0 attachments in 8 objects" in said


async def test_those_of_a_release_count(server: Server) -> None:
    """Flags, control switches and the registration; a flag of the command line replaces that of the release."""
    await _with_attachments(server)
    await server.install(VALUES)
    metadata = {"name": "nri-control-switches", "namespace": NAMESPACE}
    body = CONFIG_MAPS.body(metadata, data={"config.json": INJECTIONS})
    await server.client.create(CONFIG_MAPS, body, namespace=NAMESPACE)
    printed, _ = await _generated(server)
    text = yaml.safe_dump(printed, width=100_000)
    flags = {"network_resource_name_keys": "example.com/resource", "node_selector_conflict": "deny"}
    assert "'default/other-key': 'example.com/other'" in str(printed)
    assert "left-alone" in text
    assert "'sriov'" in str(printed)
    assert printed[0]["spec"]["failurePolicy"] == "Ignore"
    # That of the cluster has what an API server fills in.
    registered = (await server.client.get(MUTATING_WEBHOOKS, "berth"))["webhooks"][0]
    validating = (await server.client.get(VALIDATING_WEBHOOKS, "berth"))["webhooks"]
    (checked,) = (entry for entry in validating if entry["name"] == "attachments.berth.dev")
    assert printed == _expected(INJECTIONS, registered, checked, **flags).objects
    replaced, _ = await _generated(server, "--node-selector-conflict", "override")
    assert replaced != printed
    assert "contradicts that of a network" not in str(replaced)


async def test_attachments_are_checked_as_the_release_registers_it(server: Server) -> None:
    """Its failurePolicy is not that for Pods; where the release has webhooks that validate, and not this one: not."""
    terms = {"enabled": True, "failurePolicy": "Ignore", "timeoutSeconds": 10}
    await server.install({"webhook": {"webhooks": {"attachments": terms}}})

    async def checking() -> JSON | None:
        printed, _ = await _generated(server)
        named = {(obj["kind"], obj["metadata"]["name"]): obj for obj in printed}
        return named.get(("ValidatingAdmissionPolicy", "berth-attachments"))

    policy = await checking()
    assert policy is not None
    assert policy["spec"]["failurePolicy"] == "Ignore"
    configuration = await server.client.get(VALIDATING_WEBHOOKS, "berth")
    others = [entry for entry in configuration["webhooks"] if entry["name"] != "attachments.berth.dev"]
    assert others
    change: JSON = {"op": "replace", "path": "/webhooks", "value": others}
    await server.client.patch(VALIDATING_WEBHOOKS, "berth", [change], patch_type="json")
    assert await checking() is None


async def test_the_release_is_found_in_any_namespace(server: Server) -> None:
    """And the context of a kubeconfig names the cluster."""
    await server.helm(lambda helm: helm.install(CHART, "other", VALUES, create_namespace=True), namespace="elsewhere")
    printed, _ = await _generated(server, "--context", _context(server))
    assert "elsewhere" in yaml.safe_dump(printed)
    assert printed[0]["spec"]["failurePolicy"] == "Ignore"


def _context(server: Server) -> str:
    return str(yaml.safe_load(server.kubeconfig.read_text())["current-context"])


async def test_the_condition_is_for_the_release(server: Server) -> None:
    """It goes back into the chart, and what is generated then is the same: the condition is not carried over."""
    await _with_attachments(server)
    await server.install()
    (values,), _ = await _generated(server, "--mode", "both", "-o", "values")
    before, _ = await _generated(server, "--mode", "both")
    await server.upgrade(values)
    (again,), _ = await _generated(server, "--mode", "both", "-o", "values")
    after, _ = await _generated(server, "--mode", "both")
    assert again == values
    assert after == before


async def test_a_cluster_that_cannot_be_asked_is_named(server: Server) -> None:
    done = await asyncio.to_thread(
        berth, "policies", "generate", "--kubeconfig", str(server.kubeconfig), "--context", "wrong", columns=200
    )
    assert done.returncode == 2, done.stderr
    assert "wrong" in done.stderr
    assert not done.stdout
