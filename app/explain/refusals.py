"""What an API server refuses of objects that are to be created, whatever webhooks say. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from app.explain.model import Finding, Manifest
from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import check_metadata
from app.kinds.objects import NAMESPACED, check_new, name_rule
from app.kinds.shapes import ShapeError, decode_metadata
from app.kinds.tables import is_built_in
from app.text import cut
from app.wire import mapping

_MOST = 20
"""Findings of one object."""
_LONGEST = 200
"""Characters of a path or a fault."""


def refusal_findings(given: Manifest) -> Iterator[Finding]:
    """Errors of built-in kinds that `app.kinds` checks, and of the metadata of all other kinds.

    An object with a uid is left out: an API server has stored it, and it may have what none takes of a new one.
    """
    if given.within or mapping(given.obj.get("metadata")).get("uid"):
        return
    for error in islice(_errors(given), _MOST):
        yield Finding("error", "Invalid", cut(error.body, _LONGEST), given, cut(error.field, _LONGEST))


def _errors(given: Manifest) -> Iterator[FieldError]:
    version = str(given.obj.get("apiVersion") or "")
    group, _, own = version.rpartition("/")
    metadata = mapping(given.obj.get("metadata"))
    if metadata.get("generateName") and not metadata.get("name"):
        metadata = {**metadata, "name": "given"}
    try:
        if (version, given.kind) in NAMESPACED:
            yield from check_new(given.kind, own, {**given.obj, "metadata": metadata})[0]
            return
        metadata, _ = decode_metadata(given.kind, own, metadata)
    except ShapeError:  # `spelling` tells of wrong types
        return
    rule = name_rule(given.kind) if is_built_in(group) else "subdomain"
    yield from check_metadata(metadata, namespaced=True, name_rule=rule, free_finalizers=True)
