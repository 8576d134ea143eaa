"""`python -m docs.generate [--check] [--root DIR]`: writes every page, or says which are stale.

Exit status: 0 written, or all as they should be; 1 something is stale, or a text is missing; 2 a wrong flag.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from docs.generate.pages import build_pages, stale_pages, write_pages
from docs.generate.texts import MissingTextError

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m docs.generate",
        description="Writes docs/reference, docs/pictures and the generated files of the chart.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file is not as it would be")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project's directory (default: this one)")
    given = parser.parse_args(arguments)
    try:
        pages = build_pages(given.root)
    except MissingTextError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    if not given.check:
        for path in write_pages(given.root, pages):
            print(f"wrote {path}")
        return 0
    stale = stale_pages(given.root, pages)
    for path in stale:
        print(f"{path} is stale: run make generate", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
