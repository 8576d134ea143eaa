"""An infra cluster, certificates and a gateway."""

from __future__ import annotations

from tests.support.tenancy import _no_proxies, door, infra, pki, start  # noqa: F401  # fixtures
