"""modules.md: what each module of the package is for, by folder, out of the first sentence of its docstring."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from docs.generate.texts import MissingTextError, Page, code, page, prose, table

_SENTENCE = re.compile(r"(?<=\.)\s|\n\s*\n")
_INTRO = """\
By folder, with the first sentence of each docstring. [Architecture](../architecture.md) says how they work together
and which of them may import which."""


def modules_page(app: Path) -> Page:
    """Raises MissingTextError where a module has no docstring. Generated modules are left out."""
    blocks = [_INTRO]
    for folder in sorted({path.parent for path in app.rglob("*.py")}):
        package = folder / "__init__.py"
        modules = [path for path in sorted(folder.glob("*.py")) if path != package and "_pb2" not in path.stem]
        name = folder.relative_to(app.parent).as_posix()
        rows = [(code(path.name), prose(_purpose(path))) for path in modules]
        intro = _first_sentence(package) if package.exists() else ""
        blocks += [f"## {name}", prose(intro), table(("Module", "What it is for"), rows)]
    return page("docs/reference/modules.md", "Modules", *blocks)


def _purpose(path: Path) -> str:
    sentence = _first_sentence(path)
    if not sentence:
        raise MissingTextError(f"{path} has no docstring that says what the module is for")
    return sentence


def _first_sentence(path: Path) -> str:
    return _SENTENCE.split(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")[0]
