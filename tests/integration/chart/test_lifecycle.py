"""A release's life by the Helm engine: every object accepted, an upgrade that keeps what others wrote, and the end."""

from __future__ import annotations

import asyncio
import base64
import shutil
from datetime import UTC, datetime
from pathlib import Path

import helm_python
import pytest

from app.admission.heads import split_path
from app.certs.issuing import encode_certificate, issue_authority
from app.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from app.kube.retry import get_or_none
from app.networks.settings import Switches, parse_switches
from tests.support.chart import CHART, JSON, NAMESPACE, Render, Server
from tests.support.chart_combinations import ALL, COMBINATIONS, INFRA, NOTHING
from tests.support.command_line import berth
from tests.support.real_parts import real_minor
from tests.support.waiting import PATIENCE

JOBS = Resource("batch", "v1", "jobs", "Job")
CONFIGURATIONS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
NO_HOOK = {"preDeleteHook": {"enabled": False}}


async def _define_cert_manager(server: Server) -> None:
    """Its two kinds, as a cluster with cert-manager has them; what is in them is cert-manager's own affair."""
    for plural, kind in (("issuers", "Issuer"), ("certificates", "Certificate")):
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.cert-manager.io"},
            "spec": {"group": "cert-manager.io", "scope": "Namespaced", "names": names, "versions": [version]},
        }
        await server.client.create(CUSTOM_RESOURCE_DEFINITIONS, body)
        resource = Resource("cert-manager.io", "v1", plural, kind)
        await server.served(resource)


async def test_the_api_server_accepts_every_object_of_every_combination(server: Server) -> None:
    await _define_cert_manager(server)
    for name, values in COMBINATIONS.items():
        release = await server.install(values | NO_HOOK)
        assert release["status"] == "deployed", name
        await server.helm(lambda helm: helm.uninstall("berth"))


@pytest.mark.parametrize("name", ["defaults", "all"])
async def test_the_api_server_accepts_what_the_hook_needs(server: Server, render: Render, name: str) -> None:
    """Helm makes it at an uninstallation or a test alone."""
    await server.install()
    hooks = [obj for obj in render(COMBINATIONS[name]) if "helm.sh/hook" in obj["metadata"].get("annotations", {})]
    account = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
    assert [obj["kind"] for obj in hooks] == [*account, "Pod", *account, "Job"]
    kinds = {
        "ServiceAccount": SERVICE_ACCOUNTS,
        "ClusterRole": Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False),
        "ClusterRoleBinding": Resource(
            "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
        ),
        "Job": JOBS,
        "Pod": PODS,
    }
    for obj in hooks:
        await server.client.create(kinds[obj["kind"]], obj, namespace=obj["metadata"].get("namespace"))


async def test_every_pod_may_run_where_pod_security_is_restricted(server: Server, render: Render) -> None:
    """A real API server enforces it; the sandbox takes the Pods as Pods."""
    await server.install(ALL)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": labels}}
    await server.client.create(NAMESPACES, body)
    for number, pod in enumerate(render(ALL).pods()):
        named = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}"}, "spec": pod["spec"]}
        await server.client.create(PODS, named, namespace="strict")


async def test_an_upgrade_and_a_rollback_leave_the_ca_bundle_to_whoever_keeps_it(server: Server) -> None:
    await server.install({"webhook": {"args": {"confineTenants": True}}})
    bundle = base64.b64encode(_authority()).decode()
    for resource in CONFIGURATIONS:
        hooks = (await server.client.get(resource, "berth"))["webhooks"]
        operations = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
            for index in range(len(hooks))
        ]
        await server.client.patch(resource, "berth", operations, patch_type="json")
    # One webhook goes, the terms of the others change, and their objects with them.
    await server.upgrade({"webhook": {"webhooks": {"pods": {"failurePolicy": "Ignore"}}, "exemptNamespaces": ["x"]}})
    for resource, count in zip(CONFIGURATIONS, (1, 2), strict=True):
        hooks = (await server.client.get(resource, "berth"))["webhooks"]
        assert [hook["clientConfig"]["caBundle"] for hook in hooks] == [bundle] * count
    assert (await server.client.get(MUTATING_WEBHOOKS, "berth"))["webhooks"][0]["failurePolicy"] == "Ignore"
    await server.helm(lambda helm: helm.rollback("berth"))
    hooks = (await server.client.get(MUTATING_WEBHOOKS, "berth"))["webhooks"]
    assert [(hook["failurePolicy"], hook["clientConfig"].get("caBundle")) for hook in hooks] == [
        ("Fail", bundle),
        ("Fail", None),  # this one is new again
    ]


def _authority() -> bytes:
    return encode_certificate(issue_authority(common_name="a CA", now=datetime.now(UTC), days=2).certificate)


async def test_an_upgrade_upgrades_the_definitions(server: Server, tmp_path: Path) -> None:
    older = tmp_path / "older"
    shutil.copytree(CHART, older)
    file = older / "files" / "crds" / "infra.yaml"
    text = file.read_text()
    assert "suspended:" in text
    file.write_text(text.replace("suspended:", "paused:"))
    await server.install(INFRA, chart=older)
    await server.upgrade(INFRA)
    name = "tenants.workload.infra.universe.nvidia.com"
    upgraded = await server.client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    (version,) = upgraded["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert "suspended" in properties
    assert "paused" not in properties


IGNORE: JSON = {"failurePolicy": "Ignore"}
IGNORING: JSON = {"webhook": {"webhooks": {"pods": IGNORE, "attachments": IGNORE, "rules": IGNORE}}}


@pytest.mark.parametrize("further", ["", "\n", f"\n{'b' * 64}\n"], ids=["as made", "ended line", "two tokens"])
async def test_an_upgrade_keeps_the_tokens_of_callers_and_the_first_ends_the_paths(
    server: Server, further: str
) -> None:
    values = {"webhook": {"args": {"appwrappers": True}}}
    await server.install(values)

    async def tokens() -> str:
        secret = await server.client.get(SECRETS, "berth-webhook-caller", namespace=NAMESPACE)
        return base64.b64decode(secret["data"]["token"]).decode()

    first = await tokens()
    change = {"stringData": {"token": first + further}}
    await server.client.patch(SECRETS, "berth-webhook-caller", change, namespace=NAMESPACE, patch_type="merge")
    await server.upgrade(values | {"logLevel": "debug"})
    assert (await tokens()).split() == (first + further).split()
    for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        webhooks = (await server.client.get(kind, "berth"))["webhooks"]
        paths = [one["clientConfig"]["service"]["path"] for one in webhooks]
        assert {token for path in paths if (token := split_path(path)[1])} == {first}


async def test_an_upgrade_that_would_rename_what_pods_wait_for_is_refused(server: Server) -> None:
    """Helm would end the old Service before the registration that names it."""
    await server.install()
    refusal = "its objects are named berth, and these values would name them renamed: .* set fullnameOverride=berth to"
    for values in ({"fullnameOverride": "renamed"}, IGNORING | {"fullnameOverride": "renamed"}):
        with pytest.raises(helm_python.HelmError, match=refusal):
            await server.upgrade(values)
    # A release of the same name elsewhere is not this one; and whom nobody waits for may have another name.
    other = {"fullnameOverride": "second"}
    await server.helm(lambda helm: helm.install(CHART, "berth", other), namespace="default")
    await server.helm(lambda helm: helm.upgrade(CHART, "berth", other), namespace="default")
    await server.upgrade(IGNORING)
    await server.upgrade({"fullnameOverride": "renamed"})
    names = [obj["metadata"]["name"] for obj in (await server.client.list_page(MUTATING_WEBHOOKS)).items]
    assert sorted(names) == ["renamed", "second"]


@pytest.mark.parametrize("role", ["controller", "gateway"])
async def test_a_cluster_has_one_controller_and_one_gateway(sandbox: Server, role: str) -> None:
    """Names of their Secrets and rights are fixed, and nobody can mean to take these over from a release that runs."""
    await sandbox.install(values := NOTHING | {role: {"enabled": True}})
    refusal = f"{role}.enabled: release berth in namespace {NAMESPACE} has the {role} already"
    with pytest.raises(helm_python.HelmError, match=refusal):
        await sandbox.helm(lambda helm: helm.install(CHART, "other", values))
    with pytest.raises(helm_python.HelmError, match=refusal):
        await sandbox.helm(lambda helm: helm.install(CHART, "berth", values), namespace="default")
    await sandbox.upgrade(values)


async def test_a_second_release_has_another_name(sandbox: Server) -> None:
    """Its cluster-wide objects would have the names of the first: Helm's message names one of them alone."""
    await sandbox.install(NO_HOOK)
    refusal = f"release berth in namespace {NAMESPACE} has cluster-wide objects of the same names; choose another name"
    with pytest.raises(helm_python.HelmError, match=refusal):
        await sandbox.helm(lambda helm: helm.install(CHART, "berth", NO_HOOK), namespace="default")
    await sandbox.helm(lambda helm: helm.install(CHART, "berth-second", NO_HOOK), namespace="default")


async def test_another_release_may_have_other_controllers(sandbox: Server) -> None:
    """Those for AppWrappers have no rights in tenants' namespaces: nothing of fixed name is in both releases."""
    await sandbox.install(INFRA | NO_HOOK)
    other = NOTHING | NO_HOOK | {"controller": {"enabled": True, "args": {"controllers": ["appwrappers"]}}}
    await sandbox.helm(lambda helm: helm.install(CHART, "berth-other", other), namespace="default")


async def test_a_namespace_universe_of_somebody_else_is_used_as_it_is(server: Server) -> None:
    await server.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "universe"}})
    await server.install(INFRA)
    await server.upgrade(INFRA)
    assert "annotations" not in (await server.client.get(NAMESPACES, "universe"))["metadata"]


async def test_the_release_that_made_universe_keeps_it_through_an_upgrade_and_its_end(server: Server) -> None:
    await server.install(INFRA | NO_HOOK)
    await server.upgrade(INFRA | NO_HOOK)
    made = await server.client.get(NAMESPACES, "universe")
    assert made["metadata"]["annotations"]["meta.helm.sh/release-name"] == "berth"
    await server.helm(lambda helm: helm.uninstall("berth"))
    assert (await server.client.get(NAMESPACES, "universe"))["metadata"]["uid"] == made["metadata"]["uid"]
    definitions = await server.client.list_page(CUSTOM_RESOURCE_DEFINITIONS)
    assert len([obj for obj in definitions.items if obj["metadata"]["name"].endswith("universe.nvidia.com")]) == 4
    # The same release comes back to what was kept.
    await server.install(INFRA | NO_HOOK)


async def test_the_config_map_that_the_chart_manages_says_what_its_values_say(sandbox: Server) -> None:
    await sandbox.install(COMBINATIONS["switches"])
    config_map = await sandbox.client.get(CONFIG_MAPS, "nri-control-switches", namespace=NAMESPACE)
    switches = parse_switches(config_map["data"]["config.json"], initial=Switches())
    assert switches.problems == []
    assert switches.hugepage_down_api is True
    assert [injection.label for injection in switches.injections] == ["sriov"]


async def test_before_the_end_the_hook_takes_the_registration_away(server: Server) -> None:
    """The stand-in for a kubelet runs what the Job's container says, as the Job's account."""
    await server.install(ALL)
    ended = asyncio.create_task(server.helm(lambda helm: helm.uninstall("berth", timeout=int(PATIENCE))))
    job = await _appeared(server, ended)
    pod = job["spec"]["template"]["spec"]
    assert job["spec"]["activeDeadlineSeconds"] == 120
    kubeconfig = server.kubeconfig_of(NAMESPACE, pod["serviceAccountName"])
    for resource in CONFIGURATIONS:
        assert await get_or_none(server.client, resource, "berth") is not None, "Helm was faster than its hook"
    done = await asyncio.to_thread(berth, *pod["containers"][0]["args"], f"--kubeconfig={kubeconfig}")
    assert done.returncode == 0, done.stderr
    for resource in CONFIGURATIONS:
        assert await get_or_none(server.client, resource, "berth") is None
    # Nothing of Berth ends before its hook has: whoever asks for networks meanwhile is still answered.
    assert await get_or_none(server.client, DEPLOYMENTS, "berth-webhook", namespace=NAMESPACE) is not None
    await _complete(server, job)
    assert (await ended)["release"]["status"] == "uninstalled"
    for resource, name in ((DEPLOYMENTS, "berth-webhook"), (JOBS, "berth-unregister")):
        assert await get_or_none(server.client, resource, name, namespace=NAMESPACE) is None
    again = await asyncio.to_thread(berth, *pod["containers"][0]["args"], f"--kubeconfig={server.kubeconfig}")
    assert again.returncode == 0, again.stderr


async def _appeared(server: Server, ended: asyncio.Task[object]) -> JSON:
    async with asyncio.timeout(PATIENCE):
        while True:
            job = await get_or_none(server.client, JOBS, "berth-unregister", namespace=NAMESPACE)
            if job is not None:
                return job
            if ended.done():
                await ended
                pytest.fail("the release ended without its hook")
            await asyncio.sleep(0.05)


async def _complete(server: Server, job: JSON) -> None:
    """What the controller of Jobs does when the Pod has succeeded; since Kubernetes 1.31 it foretells that."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        {"type": kind, "status": "True", "reason": "CompletionsReached", "lastTransitionTime": now}
        for kind in ("SuccessCriteriaMet", "Complete")[real_minor() < 31 :]
    ]
    status = {"status": {"conditions": conditions, "succeeded": 1, "startTime": now, "completionTime": now}}
    await server.client.patch(
        JOBS, job["metadata"]["name"], status, patch_type="merge", namespace=NAMESPACE, subresource="status"
    )
