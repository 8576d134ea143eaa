"""What is timed here runs on a simulated clock."""

from __future__ import annotations

from tests.support.simulated import pytest_asyncio_loop_factories  # noqa: F401  # a hook
