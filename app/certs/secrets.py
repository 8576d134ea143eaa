"""Secrets as files by name: how certificates are read from and written to a cluster.

Owns the API calls and nothing of what is in a Secret. The Secret is the lock: the first writer wins, and who comes
second gets a conflict (ApiError) and reads again. Contents never reach a message.
"""

from __future__ import annotations

import base64
import contextlib
from dataclasses import dataclass, field

from app.certs.clocks import check_clock
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, SECRETS
from app.kube.retry import get_or_none
from app.wire import JSON

MANAGED_BY = "app.kubernetes.io/managed-by"
"""Label on what Berth may renew; a Secret without it is managed by others (cert-manager, a person) and only read."""
MANAGER = "berth"


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """A Secret's contents. `version` is "" where there is none yet; `ours` where we may write it."""

    namespace: str
    name: str
    files: dict[str, bytes] = field(repr=False)
    version: str = ""
    ours: bool = True
    type: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"Secret {self.namespace}/{self.name}"


async def read_secret(client: KubeClient, name: str, *, namespace: str) -> StoredFiles:
    """The Secret, empty where there is none; an entry that is not base64 counts as absent."""
    secret = await get_or_none(client, SECRETS, name, namespace=namespace)
    if secret is None:
        return StoredFiles(namespace, name, {})
    metadata, files = secret["metadata"], {}
    for entry, value in (secret.get("data") or {}).items():
        with contextlib.suppress(ValueError, TypeError):  # binascii.Error is a ValueError
            files[entry] = base64.b64decode(value, validate=True)
    labels = metadata.get("labels") or {}
    return StoredFiles(
        namespace,
        name,
        files,
        version=metadata["resourceVersion"],
        ours=labels.get(MANAGED_BY) == MANAGER,
        type=secret.get("type") or "",
        labels=labels,
        annotations=metadata.get("annotations") or {},
    )


async def write_secret(
    client: KubeClient, present: StoredFiles, files: dict[str, bytes], *, make_namespace: bool = False
) -> None:
    """Create the Secret, or replace `present`; raises ApiError (conflict) where another came between.

    Everything that is issued in a cluster passes here: raises Transient where our clock is no good for it. Labels and
    annotations are those of `present`, and our mark. `make_namespace` makes the namespace where it is missing.
    """
    await check_clock(client)
    body = secret_body(present.name, files, namespace=present.namespace)
    body["metadata"]["labels"] = {**present.labels, MANAGED_BY: MANAGER}
    if present.annotations:
        body["metadata"]["annotations"] = present.annotations
    if present.version:
        body["type"] = present.type or body["type"]  # the type of a Secret cannot change
        body["metadata"]["resourceVersion"] = present.version
        await client.replace(SECRETS, present.name, body, namespace=present.namespace)
        return
    try:
        await client.create(SECRETS, body, namespace=present.namespace)
    except ApiError as error:
        if not (error.not_found and make_namespace):
            raise
        await _create_namespace(client, present.namespace)
        await client.create(SECRETS, body, namespace=present.namespace)


def secret_body(name: str, files: dict[str, bytes], *, namespace: str) -> JSON:
    """The manifest of a Secret that holds `files`."""
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {MANAGED_BY: MANAGER}},
        # Without an owner: certificates outlive the ReplicaSet that happened to come first.
        "type": "kubernetes.io/tls" if "tls.crt" in files else "Opaque",
        "data": {entry: base64.b64encode(content).decode("ascii") for entry, content in files.items()},
    }


async def _create_namespace(client: KubeClient, name: str) -> None:
    body: JSON = {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": {"name": name}}
    try:
        await client.create(NAMESPACES, body)
    except ApiError as error:
        if not error.conflict:
            raise
