"""Where and in what surroundings `berth explain` is typed."""

from __future__ import annotations

from tests.support.explaining import manifests, plain_surroundings  # noqa: F401  # fixtures
