"""What `berth tenant authority` does: the gateway's certificates in the cluster, and a copy of them in files.

Prints nothing, asks nothing. Says what it has made and what is good as it is, never what is in a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from app.certs.secrets import StoredFiles, read_secret
from app.tenancy.authority.ensuring import (
    ADMIN_SECRET,
    CA_SECRET,
    SERVING_SECRET,
    AuthorityOptions,
    GatewayCertificates,
    ensure_authority,
)
from app.tenancy.tenants.staging import check_directory, staged
from app.text import stamp

if TYPE_CHECKING:
    from app.kube.client import KubeClient

FILES = frozenset(
    {"gateway/tls.crt", "gateway/tls.key", "gateway/ca.crt", "admin/ca.crt", "admin/admin.crt", "admin/admin.key"}
)
"""What is written, by its path in the directory."""


async def certify(client: KubeClient, *, options: AuthorityOptions, directory: Path | None, now: datetime) -> list[str]:
    """Make what is missing and renew what is due; write the files where there is a directory.

    Safe to repeat. The lines say what became of each Secret. Raises UsageError and ApiError as `ensure_authority`.
    """
    if directory is not None:
        check_directory(directory, FILES)  # before anything is made
    names = (CA_SECRET, SERVING_SECRET, ADMIN_SECRET)
    before = [await read_secret(client, name, namespace=options.namespace) for name in names]
    made = await ensure_authority(client, now=now, options=options)
    lines = [_told(secret, made) for secret in before]
    if directory is not None:
        with staged(_files(made), directory):
            lines.append(f"certificates and keys of the gateway and of the cloud admin are in {directory}")
    return [*lines, f"next renewal due {stamp(made.next_due)}: run this again then"]


def _told(before: StoredFiles, made: GatewayCertificates) -> str:
    until = stamp(made.ends[before.name])
    if not before.version:
        return f"{before.place} made, valid until {until}"
    if not before.ours:
        return f"{before.place} is not managed by Berth and used as it is, valid until {until}"
    return f"{before.place} {'renewed, valid' if before.name in made.renewed else 'is good'} until {until}"


def _files(made: GatewayCertificates) -> Mapping[str, bytes]:
    found = {f"gateway/{name}": content for name, content in made.serving.items()}
    found |= {f"admin/{name}": content for name, content in made.admin.items()}
    return {name: content for name, content in found.items() if name in FILES}
