"""A cluster of the sandbox for the doctor: Berth's kinds, its namespace, and whatever a test makes wrong in it."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from app.definitions import INFRA, TENANT, read_definitions
from app.devtools.sandbox.server import Cluster
from app.doctor.cluster import Cluster as Examined
from app.doctor.cluster import locate
from app.doctor.examining import examine, run
from app.doctor.model import Check, Finding, Severity
from app.kube.client import KubeClient
from app.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Resource,
)
from app.kube.transport import connect
from app.tenancy.model import tenants_role
from app.why.asking import why, why_manifests
from app.why.rendering import Answer
from app.wiring import Permission
from tests.integration.doctor.command_lines import checked
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE

JSON = dict[str, Any]
HOME = "berth-system"
RBAC = ROLE_BINDINGS.group
RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"
HELM = Path(__file__).with_name("programs") / "helm.py"
NETWORKS = "k8s.v1.cni.cncf.io/networks"


class Patient:
    """The cluster, an administrator's client of it, and examinations; `later` moves the doctor's clock."""

    def __init__(self, cluster: Cluster, client: KubeClient, kubeconfig: Path) -> None:
        self.cluster = cluster
        self.client = client
        self.kubeconfig = kubeconfig
        self.later = timedelta()

    async def examine(self, check: Check, *, kubeconfig: Path | None = None, **options: Any) -> list[Finding]:
        """The findings of one check, of a doctor who has not been here before."""
        async with await connect(kubeconfig=str(kubeconfig or self.kubeconfig), deadline=PATIENCE) as client:
            examined = Examined(client, namespace=HOME, now=lambda: datetime.now(UTC) + self.later, **options)
            try:
                return checked(await run(examined, check))
            finally:
                await examined.close()

    async def why(
        self, *words: str, namespace: str = "default", manifests: Sequence[JSON] = (), kubeconfig: Path | None = None
    ) -> Answer:
        """What `berth why` answers, to one who has not been here before; of `manifests` the first answer."""
        async with await connect(kubeconfig=str(kubeconfig or self.kubeconfig), deadline=PATIENCE) as client:
            asked = Examined(client, namespace=HOME, now=lambda: datetime.now(UTC) + self.later)
            try:
                if manifests:
                    return (await why_manifests(asked, manifests, namespace=namespace))[0]
                return (await why(asked, words, namespace=namespace))[0]
            finally:
                await asked.close()

    async def findings(self, checks: Sequence[Check]) -> list[Finding]:
        """Those of several checks, with their causes."""
        async with await connect(kubeconfig=str(self.kubeconfig), deadline=PATIENCE) as client:
            examined = Examined(client, namespace=HOME, now=lambda: datetime.now(UTC) + self.later)
            try:
                return checked(await examine(examined, checks))
            finally:
                await examined.close()

    async def complaints(self, check: Check, **options: Any) -> list[Finding]:
        """What is worse than information."""
        return [one for one in await self.examine(check, **options) if one.severity > Severity.info]

    async def run(self, command: str, *, cwd: Path | None = None) -> None:
        """Run the command of a finding as the user would, with the `berth` and the `helm` of these tests."""
        tools = self.kubeconfig.with_name("bin")
        if not tools.exists():
            tools.mkdir()
            for name, words in (("berth", ["-m", "app"]), ("helm", [str(HELM)])):
                call = shlex.join(["exec", "env", f"PYTHONPATH={ROOT}", sys.executable, *words])
                (tools / name).write_text(f'#!/bin/sh\n{call} "$@"\n')
                (tools / name).chmod(0o755)
            # Of what is opened in an editor, a command applies what was changed alone.
            (tools / "editor").write_text("#!/bin/sh\necho '# changed' >>\"$1\"\n")
            (tools / "editor").chmod(0o755)
        paths = f"{tools}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": paths, "EDITOR": str(tools / "editor")}
        process = await asyncio.create_subprocess_shell(
            command, cwd=cwd, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()

    async def create(self, resource: Resource, name: str, *, namespace: str | None = None, **fields: Any) -> JSON:
        metadata = {"name": name, **fields.pop("metadata", {})}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}
        return await self.client.create(resource, body, namespace=namespace)

    async def report(self, resource: Resource, name: str, status: JSON, *, namespace: str | None = None) -> None:
        """Write the status, as whoever reconciles the object would."""
        await self.client.patch(
            resource, name, {"status": status}, patch_type="merge", namespace=namespace, subresource="status"
        )

    async def attachment(self, name: str, *, namespace: str = "default", resource: str = "example.com/nic") -> JSON:
        metadata = {"annotations": {RESOURCE_NAME: resource}}
        spec = {"config": '{"cniVersion": "1.0.0", "type": "host-device"}'}
        return await self.create(NETWORK_ATTACHMENTS, name, namespace=namespace, metadata=metadata, spec=spec)

    async def pod(self, name: str, *, namespace: str = "default", spec: JSON | None = None, **metadata: Any) -> JSON:
        whole = {"containers": [{"name": "app", "image": "app"}], **(spec or {})}
        return await self.create(PODS, name, namespace=namespace, metadata=metadata, spec=whole)

    async def register(self, **webhook: Any) -> JSON:
        """A webhook for Pods that is registered and never called: it lets pass what it cannot see."""
        entry = {
            "name": "pods.berth.dev",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:9/mutate"},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
            "failurePolicy": "Ignore",
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": 1,
            **webhook,
        }
        return await self.create(MUTATING_WEBHOOKS, "berth", webhooks=[entry])

    async def enroll(self, role: str, granted: Sequence[Permission]) -> None:
        """The ServiceAccount of a role, with these rights, as the chart gives them (those for tenants apart)."""
        name = f"berth-{role}"
        labels = {"app.kubernetes.io/part-of": "berth", "app.kubernetes.io/component": role}
        await self.create(SERVICE_ACCOUNTS, name, namespace=HOME, metadata={"labels": labels})
        places = {"cluster": None, "release": HOME, "system": "universe", "rmd": "default"}
        for scope, namespace in places.items():
            rules = [rule_of(one) for one in granted if one.scope == scope]
            if rules:
                await self.bind(name, rules, namespace=namespace)
        rules = [rule_of(one) for one in granted if one.scope == "tenants"]
        if rules:
            await self.create(CLUSTER_ROLES, tenants_role(role), rules=rules)

    async def bind(
        self,
        account: str,
        rules: list[JSON],
        *,
        namespace: str | None = None,
        name: str = "",
        user: bool = False,
        home: str = HOME,
    ) -> None:
        """A role with these rules, bound to the account in `home`, or to the user of that name."""
        subject: JSON = {"kind": "ServiceAccount", "name": account, "namespace": home}
        if user:
            subject = {"kind": "User", "apiGroup": RBAC, "name": account}
        name, kind = name or account, CLUSTER_ROLES if namespace is None else ROLES
        await self.create(kind, name, namespace=namespace, rules=rules)
        await self.create(
            CLUSTER_ROLE_BINDINGS if namespace is None else ROLE_BINDINGS,
            name,
            namespace=namespace,
            roleRef={"apiGroup": RBAC, "kind": kind.kind, "name": name},
            subjects=[subject],
        )

    def kubeconfig_of(self, user: str) -> Path:
        path = self.kubeconfig.with_name(f"{user}.kubeconfig")
        path.write_text(self.cluster.kubeconfig(user, ()))
        return path


def rule_of(one: Permission) -> JSON:
    rule: JSON = {"apiGroups": [one.group], "resources": list(one.resources), "verbs": list(one.verbs)}
    return rule | ({"resourceNames": list(one.names)} if one.names else {})


@asynccontextmanager
async def a_patient(folder: Path) -> AsyncIterator[Patient]:
    """A cluster with the kinds of both sides, so that one will do for all tests."""
    async with Cluster("ward") as cluster:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(kubeconfig), deadline=PATIENCE) as client:
            for definition in read_definitions((*INFRA, *TENANT, NETWORK_ATTACHMENTS)):
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            for name in (HOME, "universe"):
                await client.create(NAMESPACES, {"metadata": {"name": name}})
            yield Patient(cluster, client, kubeconfig)


async def located(client: KubeClient, release: str, *, namespace: str = "") -> tuple[str, str]:
    """Namespace and release that are found where these are assumed."""
    cluster = Examined(client, namespace=namespace, release=release)
    await locate(cluster)
    await cluster.close()
    return cluster.namespace, cluster.release
