from __future__ import annotations

from tests.metrics.scraping import exposed

__all__ = ["exposed"]
