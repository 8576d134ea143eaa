"""A folder for the sockets of kubelet."""

from __future__ import annotations

from tests.support.kubelet import sockets  # noqa: F401  # a fixture
