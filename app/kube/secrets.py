"""Secrets as files by name: how certificates are read from and written to a cluster.

The Secret is the lock: the first writer wins, and the second gets a conflict (ApiError) and reads again. A writer whose
clock is ahead would issue certificates that are not valid yet for others, so the clocks are compared before. Contents
never reach a message.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from app.errors import ApiError, Transient
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, SECRETS
from app.kube.retry import get_or_none
from app.text import utc_now
from app.wire import JSON

MANAGED_BY = "app.kubernetes.io/managed-by"
"""Label on what Berth may renew; a Secret without it is managed by others (cert-manager, a person) and only read."""
MANAGER = "berth"
CERT_MANAGER = "cert-manager.io/certificate-name"
"""Annotation on a Secret that cert-manager writes: the Certificate that it is of."""
FILES = ("tls.crt", "tls.key", "ca.crt")
"""A certificate, its key, and the CAs that the other side is verified by."""
CLOCKS_APART = timedelta(seconds=60)
"""The allowance in certificates is several times as long. Every request is shorter."""
_CLOCK_RETRY = 10.0


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
    entries: frozenset[str] = frozenset()
    """The names of all that it has."""

    @property
    def place(self) -> str:
        return f"Secret {self.namespace}/{self.name}"


async def read_secret(client: KubeClient, name: str, *, namespace: str) -> StoredFiles:
    """The Secret, empty where there is none; an entry that is not base64 counts as absent."""
    secret = await get_or_none(client, SECRETS, name, namespace=namespace)
    if secret is None:
        return StoredFiles(namespace, name, {})
    metadata, files = secret["metadata"], stored_files(secret, secret.get("data") or {})
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
        entries=frozenset(secret.get("data") or {}),
    )


def stored_files(secret: JSON, names: Iterable[str] = FILES) -> dict[str, bytes]:
    """The files of a Secret that have these names; an entry that is not base64 counts as absent."""
    files, data = {}, secret.get("data") or {}
    for name in names:
        with contextlib.suppress(ValueError, TypeError, KeyError):  # binascii.Error is a ValueError
            files[name] = base64.b64decode(data[name], validate=True)
    return files


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
    return SECRETS.body(
        {"name": name, "namespace": namespace, "labels": {MANAGED_BY: MANAGER}},
        # Without an owner: certificates outlive the ReplicaSet that happened to come first.
        type="kubernetes.io/tls" if "tls.crt" in files else "Opaque",
        data={entry: base64.b64encode(content).decode("ascii") for entry, content in files.items()},
    )


async def _create_namespace(client: KubeClient, name: str) -> None:
    try:
        await client.create(NAMESPACES, NAMESPACES.body({"name": name}))
    except ApiError as error:
        if not error.conflict:
            raise


async def check_clock(client: object, *, now: Callable[[], datetime] = utc_now) -> None:
    """Raise Transient where our clock and the API server's are more than `CLOCKS_APART` from each other.

    Where the server does not say its time, or not to us, nothing can be compared, and nothing is.
    """
    server_time = getattr(client, "server_time", None)
    if server_time is None:
        return
    before = now()
    try:
        there: datetime | None = await server_time()
    except ApiError as error:
        if error.status not in (401, 403, 404):
            raise
        return
    if there is None:
        return
    ahead = before + (now() - before) / 2 - there
    if abs(ahead) > CLOCKS_APART:
        seconds = f"{abs(ahead).total_seconds():.0f} s {'ahead of' if ahead > timedelta() else 'behind'}"
        raise Transient(
            f"the clock of this machine is {seconds} the API server's: no certificate is issued until they agree "
            f"(at most {CLOCKS_APART.total_seconds():.0f} s apart)",
            delay=_CLOCK_RETRY,
        )
