from __future__ import annotations

from tests.support.scraping import exposed

__all__ = ["exposed"]
