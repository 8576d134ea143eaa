"""The views of the page: those of every cluster, and those that wings declare."""

from __future__ import annotations

from app.registry import WINGS
from app.ui import causes, objects, overview, reviews
from app.ui.view import View
from app.wiring import resolve

VIEWS: tuple[View, ...] = (
    overview.VIEW,
    causes.VIEW,
    *(resolve(reference) for wing in WINGS for reference in wing.views),
    reviews.VIEW,
    objects.VIEW,
)
