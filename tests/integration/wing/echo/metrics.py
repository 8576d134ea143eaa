"""The metrics of the wing."""

from __future__ import annotations

from prometheus_client import Counter

ECHOES = Counter("echoes_total", "Echoes that were answered")
