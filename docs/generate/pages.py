"""All that is generated: built at once, then written or compared.

A file in a generated folder that nothing makes is stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from docs.generate.annotations import annotations_page
from docs.generate.chart import chart_pages
from docs.generate.contents import contents_page
from docs.generate.crds import chart_definitions, crds_page
from docs.generate.drawings import TARGET, pictures
from docs.generate.flags import flags_page
from docs.generate.limits import limits_page
from docs.generate.metrics import metrics_page
from docs.generate.modules import modules_page
from docs.generate.openapi import openapi_file
from docs.generate.permissions import permissions_page
from docs.generate.status import status_page, why_page
from docs.generate.texts import Page
from docs.generate.ui import ui_page
from docs.generate.values import values_page

FOLDERS = ("docs/reference", "charts/berth/files/crds", TARGET)
"""Nothing but generated files is in them."""


def build_pages(root: Path) -> list[Page]:
    """Every generated file. Raises MissingTextError where the code lacks a text."""
    values = (root / "charts" / "berth" / "values.yaml").read_text(encoding="utf-8")
    return [
        flags_page(),
        values_page(values),
        annotations_page(root / "app"),
        crds_page(),
        limits_page(),
        metrics_page(),
        permissions_page(),
        status_page(),
        why_page(),
        ui_page(),
        modules_page(root / "app"),
        *chart_definitions(),
        *chart_pages(root),
        openapi_file(),
        *pictures(root),
        contents_page(root),
    ]


def write_pages(root: Path, pages: Sequence[Page]) -> list[str]:
    """Write what is not as it should be and remove what nothing makes; the paths that were changed."""
    wanted = {page.path: page.text for page in pages}
    stale = stale_pages(root, pages)
    for path in stale:
        if path in wanted:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(wanted[path], encoding="utf-8")
        else:
            (root / path).unlink()
    return stale


def stale_pages(root: Path, pages: Sequence[Page]) -> list[str]:
    """The paths of files that are missing, differ, or should not be there."""
    wanted = {page.path: page.text for page in pages}
    in_folders = [str(path.relative_to(root)) for folder in FOLDERS for path in (root / folder).glob("*")]
    there = {
        path: (root / path).read_text(encoding="utf-8") for path in {*wanted, *in_folders} if (root / path).is_file()
    }
    return sorted(path for path in wanted.keys() | there.keys() if wanted.get(path) != there.get(path))
