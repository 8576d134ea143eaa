"""What a role waits for when it begins: each line says of what it speaks."""

from __future__ import annotations

from pathlib import Path

from app.admission.parts import ReviewCaches
from app.runtime.manager import Health
from app.runtime.serving import Sources
from app.settings.webhook import WebhookSettings


def test_nothing_is_not_started_without_a_subject(tmp_path: Path) -> None:
    settings = WebhookSettings.load({"manifests": str(tmp_path), "insecure": True}, environment=False)
    assert Sources(settings, ReviewCaches()).waiting() == ["caches: not started"]
    assert Health(lambda: (b"", "")).waiting() == ["its work: not started"]
