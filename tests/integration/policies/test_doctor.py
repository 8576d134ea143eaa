"""The check `policies` of the doctor on a real API server, and that the commands it gives mend what it finds."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path

import pytest
import yaml

from app.errors import ApiError
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_POLICIES,
    MUTATING_POLICY_BINDINGS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    PODS,
)
from tests.support.chart import NAMESPACE, Server
from tests.support.command_line import berth
from tests.support.paths import ROOT
from tests.support.policy_stage import JSON, Api, network, pod_with
from tests.support.real_parts import needs, since
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.asyncio,
    *needs("etcd", "kube-apiserver"),
    since(36),
    pytest.mark.parametrize("server", ["real"], indirect=True),
]
POLICIES = {
    "mode": "policies",
    "controller": {"enabled": True, "args": {"controllers": ["policies"]}},
    "webhook": {"enabled": False},
}


async def _berth(server: Server, *words: str, statuses: tuple[int, ...] = (0, 3, 4)) -> str:
    """What it prints; of `berth explain` also its notes."""
    done = await asyncio.to_thread(berth, *words, "--kubeconfig", str(server.kubeconfig), columns=200)
    assert done.returncode in statuses, done.stderr
    return done.stdout + done.stderr * (words[0] == "explain")


async def _findings(server: Server) -> list[JSON]:
    printed = await _berth(server, "doctor", "--only", "policies", "-o", "json")
    found = json.loads(printed)
    listed = found["findings"] if isinstance(found, dict) else found
    return [finding for finding in listed if finding.get("check") == "policies"]


async def _codes(server: Server) -> list[tuple[str, str]]:
    return sorted((finding.get("code", ""), finding["subject"]) for finding in await _findings(server))


async def _define(server: Server) -> None:
    definition = yaml.safe_load((ROOT / "app/networks/crds/network-attachment-definitions.yaml").read_text())
    await server.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    await server.served(NETWORK_ATTACHMENTS)
    await server.client.create(NETWORK_ATTACHMENTS, network("foo", "example.com/foo"), namespace="default")


async def _apply(server: Server, *words: str) -> None:
    api = Api(Path(server.kubeconfig))
    for obj in yaml.safe_load_all(await _berth(server, "policies", "generate", *words)):
        api.apply(obj)


async def test_policies_that_were_applied_are_compared_with_those_of_today(server: Server) -> None:
    await _define(server)
    assert not any(code for code, _ in await _codes(server))
    await _apply(server)
    (well,) = await _findings(server)
    assert well["message"] == "are those of today: 1 attachment served, 0 left"

    await server.client.create(NETWORK_ATTACHMENTS, network("new", "example.com/new"), namespace="default")
    codes = await _codes(server)
    assert codes == [
        ("BERTH1302", "MutatingAdmissionPolicy berth-networks"),
        ("BERTH1302", "ValidatingAdmissionPolicy berth-left"),
        ("BERTH1302", "ValidatingAdmissionPolicy berth-networks"),
    ]
    await _apply(server)
    await server.client.delete(MUTATING_POLICY_BINDINGS, "berth-networks")
    change = {"spec": {"failurePolicy": "Ignore"}}
    path = f"{MUTATING_POLICIES.path(name='berth-networks')}?fieldManager=kubectl-edit"
    status, _ = Api(Path(server.kubeconfig)).call("PATCH", path, change, kind="application/merge-patch+json")
    assert status == 200
    missing, edited = sorted(await _findings(server), key=lambda finding: str(finding["code"]))
    assert (missing["code"], missing["severity"]) == ("BERTH1301", "error")
    assert "policies generate --mode policies --name berth" in missing["command"]
    assert str(server.kubeconfig) in missing["command"]
    assert (edited["code"], edited["message"]) == ("BERTH1302", "was edited by hand (kubectl-edit)")
    await _apply(server)
    (well,) = await _findings(server)
    assert well["severity"] == "ok"


async def test_those_of_a_release_are_compared_by_its_configuration(server: Server) -> None:
    """Its controller does not run here: what it has not written is missing; what has another name is left over."""
    await _define(server)
    await server.install(POLICIES)
    await _apply(server, "--name", "other")
    codes = await _codes(server)
    assert [code for code, _ in codes] == ["BERTH1301"] * 8 + ["BERTH1303"]
    left = next(finding for finding in await _findings(server) if finding["code"] == "BERTH1303")
    assert "berth.dev/policies-of=other" in left["command"]
    kept = next(finding for finding in await _findings(server) if finding["code"] == "BERTH1301")
    assert f"--namespace {NAMESPACE} logs" in kept["command"]
    await _apply(server)
    assert [code for code, _ in await _codes(server)] == ["BERTH1303"]


async def test_why_and_explain_say_who_serves_a_pod(server: Server, tmp_path: Path) -> None:
    """Of a Pod that exists, and of one that is to be created; what policies leave is the webhook's."""
    await _define(server)
    values = {"webhook": {"webhooks": {"attachments": {"enabled": False}}}}
    await server.install(values)
    await _apply(server, "--mode", "both")
    (left,) = yaml.safe_load_all(await _berth(server, "policies", "generate", "--mode", "both", "-o", "values"))
    left["webhook"] |= values["webhook"]
    await server.upgrade(left)
    pods = {"simple": "foo", "json": '[{"name": "foo"}]'}
    for name, networks in pods.items():
        pod = pod_with(networks)
        pod["metadata"] |= {"name": name, "namespace": "default"}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(pod))
    simple, other = [await _berth(server, "why", "-f", str(tmp_path / f"{name}.yaml")) for name in pods]
    assert "would be injected by MutatingAdmissionPolicy berth-networks" in simple
    # Nothing answers as the webhook here, which is asked about this one alone.
    assert "would be refused: the API server cannot call Berth" in other
    simple, other = [await _berth(server, "explain", "-f", str(tmp_path / f"{name}.yaml")) for name in pods]
    assert "would be injected by MutatingAdmissionPolicy berth-networks" in simple
    assert "would be injected by the webhook" in other
    created = yaml.safe_load((tmp_path / "simple.yaml").read_text())
    await eventually(lambda: _is_injected(server, created))
    await server.client.create(PODS, created, namespace="default")
    assert "is served by MutatingAdmissionPolicy berth-networks" in await _berth(server, "why", "pod/simple")


async def test_a_condition_without_policies_is_an_error(server: Server) -> None:
    """As Helm leaves it when the controller goes: the policies go with their owner. The command removes it."""
    await _define(server)
    await server.install()
    configuration = await server.client.get(MUTATING_WEBHOOKS, "berth")
    (index,) = (index for index, entry in enumerate(configuration["webhooks"]) if entry["name"] == "pods.berth.dev")
    conditions = configuration["webhooks"][index]["matchConditions"]
    path = f"/webhooks/{index}/matchConditions/-"
    change: JSON = {"op": "add", "path": path, "value": {"name": "left-by-policies", "expression": "true"}}
    await server.client.patch(MUTATING_WEBHOOKS, "berth", [change], patch_type="json")
    (finding,) = [finding for finding in await _findings(server) if finding["code"] == "BERTH1305"]
    assert (finding["severity"], finding["subject"]) == ("error", "MutatingWebhookConfiguration berth")
    words = shlex.split(finding["command"])
    patch = json.loads(words[words.index("--patch") + 1])
    await server.client.patch(MUTATING_WEBHOOKS, "berth", patch, patch_type="json")
    configuration = await server.client.get(MUTATING_WEBHOOKS, "berth")
    assert configuration["webhooks"][index]["matchConditions"] == conditions
    assert not any(code for code, _ in await _codes(server))


async def test_why_knows_policies_without_a_webhook(server: Server, tmp_path: Path) -> None:
    await _define(server)
    await _apply(server)
    for name, networks in {"simple": "foo", "json": '[{"name": "foo"}]'}.items():
        pod = pod_with(networks)
        pod["metadata"] |= {"name": name, "namespace": "default"}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(pod))
        said = await _berth(server, "why", "-f", str(tmp_path / f"{name}.yaml"))
        assert ("would be injected by MutatingAdmissionPolicy berth-networks" in said) == (name == "simple"), said


@pytest.mark.parametrize("charted", [True, False])
async def test_explain_and_why_agree_on_policies_without_a_webhook(
    server: Server, tmp_path: Path, *, charted: bool
) -> None:
    """As the chart installs them, and applied by hand: who injects, what is refused, and what no policy matches."""
    await _define(server)
    keys = {"webhook": {"enabled": False, "args": {"networkResourceNameKeys": ["example.com/other"]}}}
    if charted:
        await server.install(POLICIES | keys)
        network_of_other = network("other", "example.com/bar")
        network_of_other["metadata"]["annotations"] = {"example.com/other": "example.com/bar"}
        await server.client.create(NETWORK_ATTACHMENTS, network_of_other, namespace="default")
    await _apply(server)
    quiet = {"metadata": {"name": "quiet", "labels": {"berth.dev/inject": "false"}}}
    await server.client.create(NAMESPACES, quiet)
    hidden_network = network("foo", "example.com/foo")
    hidden_network["metadata"]["namespace"] = "quiet"
    hidden_network["metadata"]["annotations"]["example.com/other"] = "example.com/foo"
    await server.client.create(NETWORK_ATTACHMENTS, hidden_network, namespace="quiet")

    async def said(command: str, networks: str, namespace: str = "default") -> str:
        pod = pod_with(networks)
        pod["metadata"] |= {"name": "web", "namespace": namespace}
        (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
        return await _berth(server, command, "-f", str(tmp_path / "pod.yaml"), statuses=(0, 1, 3, 4))

    policy = "MutatingAdmissionPolicy berth-networks"
    simple = await said("explain", "other" if charted else "foo")
    assert f"would be injected by {policy}" in simple
    assert ("example.com/bar" if charted else "example.com/foo") in simple
    source = f"those of ConfigMap {NAMESPACE}/berth-policies" if charted else "defaults"
    assert f"policies of the API server inject, without a webhook of Berth: {policy}; flags are {source}" in simple
    refused = "which is not installed: ValidatingAdmissionPolicy berth-left refuses it"
    for command in ("explain", "why"):
        other = await said(command, '[{"name": "foo"}]')
        assert "would be denied" in other
        assert f"{policy} leaves the Pod to the webhook of Berth, {refused}" in other
        hidden = await said(command, "foo", "quiet")
        assert f"Namespace quiet has the label berth.dev/inject=false (namespaceSelector of {policy})" in hidden
        assert "would be injected by" not in hidden


async def test_namespaces_and_pods_that_policies_without_a_webhook_leave_out(server: Server) -> None:
    """`why` and the doctor agree: nothing is wrong with what policies match, and the label is what is to be removed."""
    await _define(server)
    await _apply(server)
    await server.client.create(NAMESPACES, {"metadata": {"name": "quiet", "labels": {"berth.dev/inject": "false"}}})
    hidden = network("foo", "example.com/foo")
    hidden["metadata"]["namespace"] = "quiet"
    await server.client.create(NETWORK_ATTACHMENTS, hidden, namespace="quiet")
    pod = pod_with("foo")
    pod["metadata"] |= {"name": "p", "namespace": "quiet"}
    await server.client.create(PODS, pod, namespace="quiet")

    assert "Berth is asked about its Pods" in await _berth(server, "why", "namespace/default", statuses=(0,))
    label = "label namespace quiet berth.dev/inject-"
    said = await _berth(server, "why", "namespace/quiet", statuses=(4,))
    assert label in said
    assert "webhook.enabled" not in said
    said = await _berth(server, "why", "pod/p", "-n", "quiet", statuses=(4,))
    assert "BERTH1209" in said
    assert label in said
    assert "BERTH1201" not in said
    printed = json.loads(await _berth(server, "doctor", "--only", "pods", "-o", "json"))
    listed = printed["findings"] if isinstance(printed, dict) else printed
    found = {finding["code"]: finding for finding in listed if finding.get("code")}
    assert label in found["BERTH1209"]["command"]
    assert "BERTH1201" not in found


async def _is_injected(server: Server, pod: JSON) -> bool:
    try:
        answer, _ = await server.client.dry_run(PODS, pod, namespace="default")
    except ApiError:
        return False
    return "volumes" in answer["spec"]
