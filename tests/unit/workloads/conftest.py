"""An event loop whose clock tests move."""

from __future__ import annotations

from tests.support.simulated import pytest_asyncio_loop_factories  # noqa: F401  # a hook
