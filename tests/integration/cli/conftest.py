"""Where and in what surroundings `berth explain` is typed, and the API servers that it asks."""

from __future__ import annotations

from tests.support.explaining import manifests, plain_surroundings  # noqa: F401  # fixtures
from tests.support.hooks import hook  # noqa: F401  # a fixture
from tests.support.sandbox import namespace, real_server, sandboxed, served  # noqa: F401  # fixtures
from tests.support.webhook_process import pki  # noqa: F401  # a fixture
