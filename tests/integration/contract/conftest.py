"""The webhook as a process, with its certificates and manifests."""

from __future__ import annotations

from tests.support.webhook_process import launch, manifests, own_pki, patched, pki, review, running, server  # noqa: F401  # fixtures
