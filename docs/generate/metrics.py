"""metrics.md: every metric with its labels and the roles that count it, out of `docs.generate.catalog`."""

from __future__ import annotations

from app.registry import ROLES
from docs.generate.catalog import catalog
from docs.generate.texts import Page, code, codes, page, prose, table

_INTRO = """\
Every role answers `/metrics` on its health port (8444), in the text format of Prometheus. Series that alerts rest upon
are there from the start, at zero. Beside these there is what the Prometheus client says of any process: `process_*`,
`python_info`, `python_gc_*`. With `berth webhook --workers` the parent adds up what its workers count."""


def metrics_page() -> Page:
    rows = [
        (
            code(metric.name),
            metric.kind,
            codes(metric.labels),
            "all" if len(metric.roles) == len(ROLES) else ", ".join(metric.roles),
            prose(metric.text),
        )
        for metric in catalog()
    ]
    head = ("Metric", "Type", "Labels", "Roles", "Text")
    return page("docs/reference/metrics.md", "Metrics", _INTRO, table(head, rows))
