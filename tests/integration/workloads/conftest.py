"""An infra cluster with the definitions, and a controller."""

from __future__ import annotations

from tests.support.simulated import pytest_asyncio_loop_factories  # noqa: F401  # a hook
from tests.support.workloads import infra  # noqa: F401  # a fixture
