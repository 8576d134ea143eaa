"""The certificates of the sandbox: one for its webhooks, those of its gateway and of the cloud admin."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path

from app.certs.folder import make, write_files
from app.certs.issuing import serving_names
from app.devtools.clusters.kubeconfigs import write_private
from app.kube.client import KubeClient
from app.tenancy.authority import ensure_authority

_DAYS = 30


def write_webhook_certificate(directory: Path) -> str:
    """A new certificate for this machine; returns the base64 value of the caBundle."""
    names = serving_names(dns=("localhost",), addresses=("127.0.0.1",))
    files = make({}, names=names, now=datetime.now(UTC), days=_DAYS)
    write_files(directory, files)
    return base64.b64encode(files["ca.crt"]).decode()


async def write_gateway_certificates(client: KubeClient, directory: Path) -> None:
    """What the infra cluster has of them, in `gateway/` and `admin/`."""
    certificates = await ensure_authority(client, now=datetime.now(UTC))
    for folder, files in (("gateway", certificates.serving), ("admin", certificates.admin)):
        (directory / folder).mkdir(mode=0o700, exist_ok=True)
        for name, content in files.items():
            write_private(directory / folder / name, content)
