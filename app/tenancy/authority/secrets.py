"""Secrets as files by name: how the gateway's certificates are read from and written to a cluster.

Owns the API calls and nothing of what is in a Secret. The first writer wins: who comes second gets a conflict
(ApiError) and reads again. Contents never reach a message.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field

from app.errors import ApiError, UsageError
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, SECRETS
from app.wire import JSON

MANAGED_BY = "app.kubernetes.io/managed-by"
"""Label on what Berth may renew; a Secret without it is somebody else's (cert-manager, a person) and is only read."""
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

    @property
    def place(self) -> str:
        return f"Secret {self.namespace}/{self.name}"


async def read_secret(client: KubeClient, name: str, *, namespace: str) -> StoredFiles:
    """The Secret, empty where there is none. Raises UsageError for an entry that is not base64."""
    try:
        secret = await client.get(SECRETS, name, namespace=namespace)
    except ApiError as error:
        if not error.not_found:
            raise
        return StoredFiles(namespace, name, {})
    metadata = secret["metadata"]
    files = {}
    for entry, value in (secret.get("data") or {}).items():
        try:
            files[entry] = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise UsageError(f"Secret {namespace}/{name}: {entry} is not base64") from None
    ours = (metadata.get("labels") or {}).get(MANAGED_BY) == MANAGER
    return StoredFiles(namespace, name, files, metadata["resourceVersion"], ours, secret.get("type") or "")


async def write_secret(client: KubeClient, present: StoredFiles, files: dict[str, bytes]) -> StoredFiles:
    """Create the Secret, or replace `present`; raises ApiError (conflict) where another came between.

    The namespace is made where it is missing.
    """
    body = secret_body(present.name, files, namespace=present.namespace)
    if present.version:
        body["type"] = present.type or body["type"]  # the type of a Secret cannot change
        body["metadata"]["resourceVersion"] = present.version
        written = await client.replace(SECRETS, present.name, body, namespace=present.namespace)
    else:
        written = await _create(client, body, namespace=present.namespace)
    return StoredFiles(present.namespace, present.name, files, written["metadata"]["resourceVersion"])


def secret_body(name: str, files: dict[str, bytes], *, namespace: str) -> JSON:
    """The manifest of a Secret that holds `files`."""
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {MANAGED_BY: MANAGER}},
        "type": "kubernetes.io/tls" if "tls.crt" in files else "Opaque",
        "data": {entry: base64.b64encode(content).decode("ascii") for entry, content in files.items()},
    }


async def _create(client: KubeClient, body: JSON, *, namespace: str) -> JSON:
    try:
        return await client.create(SECRETS, body, namespace=namespace)
    except ApiError as error:
        if not error.not_found:
            raise
    try:
        await client.create(
            NAMESPACES,
            {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": {"name": namespace}},
        )
    except ApiError as error:
        if not error.conflict:
            raise
    return await client.create(SECRETS, body, namespace=namespace)
