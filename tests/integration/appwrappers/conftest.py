"""A cluster with AppWrappers, and a clock that can be simulated."""

from __future__ import annotations

from tests.support.appwrapper_reviews import opening  # noqa: F401  # a fixture
from tests.support.appwrappers import cluster  # noqa: F401  # a fixture
from tests.support.simulated import pytest_asyncio_loop_factories  # noqa: F401  # a hook
