"""annotations.md: the labels and annotations that mean something to Berth, out of the constants that name them.

Such a constant has a docstring of the form `Annotation on WHERE, by WHO: MEANING`. A key of ours, or of the programs
whose words Berth understands, that has none anywhere is an error.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docs.generate.texts import MissingTextError, Page, code, page, prose, table

_KEY = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+/[A-Za-z0-9._-]+")
_TEXT = re.compile(
    r"(?P<form>Annotation|Label|Label or annotation) on (?P<where>.+?), by (?P<who>.+?): (?P<meaning>.+)"
)
_OURS = ("berth.dev", "universe.nvidia.com", "provisioning.dpu.nvidia.com", "k8s.v1.cni.cncf.io", "v1.multus-cni.io")
"""Domains (with what is below them) each key of which has to be told of."""
_INTRO = """\
Those by an author or an admin are yours to write. Those by a role are Berth's own: in the infra cluster, `/validate`
and the gateway refuse templates and objects of tenants that carry them."""


class Mark(NamedTuple):
    """One label or annotation."""

    key: str
    form: str
    where: str
    who: str
    meaning: str


def annotations_page(package: Path) -> Page:
    rows = [_row(list(told)) for _, told in itertools.groupby(find_marks(package), key=lambda mark: mark.key)]
    head = ("Key", "What", "On", "Written by", "Means")
    return page("docs/reference/annotations.md", "Labels and annotations", _INTRO, table(head, rows))


def find_marks(package: Path) -> list[Mark]:
    """All of them by key. Raises MissingTextError for a key without a text."""
    found: set[Mark] = set()
    mentioned: dict[str, Path] = {}
    for path in sorted(package.rglob("*.py")):
        if path.name.endswith(("_pb2.py", "_pb2_grpc.py")):
            continue
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        found |= set(_told(tree))
        if any(domain in text for domain in _OURS):
            mentioned |= {key: path for key in keys_in(tree) if key not in mentioned}
    missing = sorted(mentioned.keys() - {mark.key for mark in found})
    if missing:
        key = missing[0]
        raise MissingTextError(
            f"{mentioned[key]}: {key} has no constant with a docstring 'Annotation on WHERE, by WHO: MEANING'"
        )
    return sorted(found)


def _row(told: list[Mark]) -> tuple[str, ...]:
    """What several modules say of a key stands in one row, each thing once."""
    joined = ["; ".join(dict.fromkeys(column)) for column in zip(*told, strict=True)]
    return code(joined[0]), joined[1].lower(), *map(prose, joined[2:])


def keys_in(tree: ast.AST) -> set[str]:
    """The keys of our domains that the code of a module has in literals."""
    literals = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in literals if _KEY.fullmatch(text) and _is_ours(text.partition("/")[0])}


def _is_ours(domain: str) -> bool:
    return any(domain == ours or domain.endswith(f".{ours}") for ours in _OURS)


def _told(tree: ast.Module) -> Iterator[Mark]:
    """The constants of a module with a docstring of the form."""
    for statement, after in zip(tree.body, tree.body[1:], strict=False):
        match statement, after:
            case (
                ast.Assign(targets=[ast.Name()], value=ast.Constant(value=str(key))),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                told = _TEXT.fullmatch(" ".join(text.split()))
                if told is not None and _KEY.fullmatch(key):
                    yield Mark(key, told["form"], told["where"], told["who"], told["meaning"].rstrip("."))
