"""A cluster with RMD, and a clock that can be simulated."""

from __future__ import annotations

from tests.support.kubelet import sockets  # noqa: F401  # a fixture
from tests.support.rmd_cluster import cluster  # noqa: F401  # a fixture
from tests.support.simulated import pytest_asyncio_loop_factories  # noqa: F401  # a hook
