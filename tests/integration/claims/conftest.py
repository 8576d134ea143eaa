"""API servers, and a cluster with Services on another network."""

from __future__ import annotations

from tests.support.network_services import cluster  # noqa: F401  # a fixture
from tests.support.sandbox import real_server  # noqa: F401  # a fixture
