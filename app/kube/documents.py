"""Reads Kubernetes objects from YAML and JSON text: several documents, Lists unfolded, faults with their line.

Reads as kubectl does: what comes out is JSON (dates stay text, keys are strings). It knows no kinds and keeps nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from app.errors import UsageError
from app.wire import JSON

SUFFIXES = (".yaml", ".yml", ".json")


class DocumentError(UsageError):
    """A file cannot be read; the message begins with `file:line:` where a line is known."""


class _Loader(yaml.SafeLoader):
    """Keeps dates as the text that they are in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_objects(text: str, *, name: str) -> list[JSON]:
    """Every object in `text`, in its order; `name` stands for the file in messages. Raises `DocumentError`."""
    found: list[JSON] = []
    for line, document in _documents(text, name=name):
        if document is not None:
            found += _unfold(document, where=f"{name}:{line}")
    return found


def read_objects(path: Path) -> list[JSON]:
    """The objects of one file. Raises `DocumentError`, for an unreadable file too."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise DocumentError(f"{path}: {reason}") from error
    return parse_objects(text, name=str(path))


def _documents(text: str, *, name: str) -> list[tuple[int, Any]]:
    """(line, content) of each document."""
    if name.endswith(".json"):
        try:
            return [(1, json.loads(text))]
        except json.JSONDecodeError as error:
            raise DocumentError(f"{name}:{error.lineno}: {error.msg}") from error
        except RecursionError as error:
            raise DocumentError(f"{name}:1: nested too deeply") from error
    try:
        return list(_yaml_documents(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise DocumentError(f"{name}:{line}: {error.problem or error.context or 'not YAML'}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DocumentError(f"{name}:{line}: a character that YAML does not allow") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DocumentError(f"{name}:1: not YAML ({type(error).__name__})") from error


def _yaml_documents(text: str) -> Iterator[tuple[int, Any]]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                break
            yield node.start_mark.line + 1, _as_json(loader.construct_document(node))
    finally:
        loader.dispose()


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise ValueError(f"{type(value).__name__} has no form in JSON")


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return key if isinstance(key, str) else str(key)


def _unfold(document: Any, *, where: str) -> list[JSON]:
    if not isinstance(document, dict):
        raise DocumentError(f"{where}: expected an object with apiVersion and kind")
    kind, items = document.get("kind"), document.get("items")
    if not isinstance(kind, str) or not kind:
        raise DocumentError(f"{where}: the object has no kind")
    if not kind.endswith("List") or not isinstance(items, list):
        return [document]
    found = []
    for item in items:
        if isinstance(item, dict) and kind != "List":
            item.setdefault("kind", kind.removesuffix("List"))
            item.setdefault("apiVersion", document.get("apiVersion"))
        found += _unfold(item, where=where)
    return found
