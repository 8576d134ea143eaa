"""Berth's service accounts in a cluster, with what the chart permits them and nothing more; what they were refused is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import helm_python
import pytest

from app.devtools.sandbox.access.rbac import Authorizer
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, ROLE_BINDINGS, SERVICE_ACCOUNTS
from app.kube.retry import get_or_none
from tests.support.chart import CHART, JSON, NAMESPACE, rendering
from tests.support.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLES, token_kubeconfig
from tests.support.real_apiserver import AUDIT_LOG

GROUP = f"system:serviceaccounts:{NAMESPACE}"
"""The accounts of a release. A real API server keeps what they ask for where it is `audited` for this group."""
_KINDS = (SERVICE_ACCOUNTS, CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)
Refusal = tuple[str, ...]


class ChartAccounts:
    """The accounts of a release with some values; each acts by a token of its own."""

    def __init__(self, client: KubeClient, kubeconfig: Path) -> None:
        """`kubeconfig` is an administrator's, and so is `client`."""
        self._client, self._kubeconfig = client, kubeconfig

    async def install(self, values: JSON) -> None:
        """What the chart renders of accounts, roles and bindings, and no other object of it."""
        rendered = rendering(helm_python.Chart.load(CHART))(values)
        for kind in _KINDS:
            for obj in rendered.of(kind.kind):
                metadata = obj["metadata"]
                namespace = metadata.get("namespace", NAMESPACE) if kind.namespaced else None
                if namespace and await get_or_none(self._client, NAMESPACES, namespace) is None:
                    await self._client.create(NAMESPACES, NAMESPACES.body({"name": namespace}))
                await self._client.apply(kind, metadata["name"], obj, namespace=namespace)

    async def kubeconfig(self, role: str) -> Path:
        """The file by which one acts as the account of this role."""
        return await token_kubeconfig(self._client, self._kubeconfig, NAMESPACE, f"berth-{role}")

    def refused(self) -> list[Refusal]:
        """Who was not permitted what, as the audit log of a real API server has it: account, verb and path."""
        return [
            (event["user"]["username"], event["verb"], event["requestURI"])
            for event in map(json.loads, (self._kubeconfig.with_name(AUDIT_LOG)).read_text().splitlines())
            if event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
        ]


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Refusal]:
    """Every refusal of the sandbox's API servers, as it comes."""
    refused: list[Refusal] = []
    allowed = Authorizer.allowed

    def recording(self: Authorizer, user: Any, *question: str, **more: str) -> tuple[bool, str]:
        answer = allowed(self, user, *question, **more)
        if not answer[0]:
            refused.append((user.username, *question, *more.values()))
        return answer

    monkeypatch.setattr(Authorizer, "allowed", recording)
    return refused
