"""The overview as it is written: sections of the status in words."""

from __future__ import annotations

from typing import cast

from app.networks.sections import SECTION
from app.status.model import Found
from app.ui.frames import Frame
from app.ui.overview import VIEW, Overview, Summary, part_of
from app.ui.pages import Pages
from app.ui.view import Asked


def test_totals_are_in_the_words_of_the_status() -> None:
    part = part_of(SECTION, Found({"attachments": 3, "unoffered": 1}))
    assert part.totals == {"attachments": 3, "unoffered": 1}
    summary = Summary(namespace="berth-system", release="berth", severity="ok")
    model = Overview(summary=summary, doctor=None, sections={"attachments": part})
    frame = Frame(model, "", {"section-attachments": "a"}, "a", (), 0.0)
    html = dict(Pages([VIEW]).changes(cast("Asked", None), VIEW, None, frame))["f-section-attachments"]
    assert "<b>1</b> of them for a device that nothing offers</li>" in html
    assert "<b>3</b> attachments</li>" in html
