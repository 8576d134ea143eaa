"""View `appwrappers` of the page: AppWrappers with their phase and queue, and why they wait."""

from __future__ import annotations

from app.appwrappers.model import APP_WRAPPERS, QUEUE_NAME
from app.doctor.objects import labels, status
from app.ui.objects import Field, Listed, objects_view

VIEW = objects_view(
    "appwrappers",
    "AppWrappers",
    "AppWrappers with their phase and queue, and why they wait.",
    Listed(
        APP_WRAPPERS,
        (
            Field("phase", "phase", lambda obj: str(status(obj).get("phase") or "")),
            Field("queue", "queue", lambda obj: labels(obj).get(QUEUE_NAME, "")),
        ),
    ),
)
