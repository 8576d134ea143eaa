"""Writes what an API server answered in dry runs: as text by who changed what, as a difference, as JSON. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from app.explain.differences import ABSENT, Change
from app.explain.origins import Origin, as_written
from app.explain.rendering import Line, dump
from app.explain.trials import Trial
from app.wire import JSON


def text_of(trial: Trial) -> Iterator[Line]:
    """The verdict; then each field under who changed it, in the order of the API server."""
    style = "red" if trial.refused else "yellow" if trial.untried else "green"
    yield Line(f"{trial.subject}: {trial.verdict}", style)
    for who, origins in groupby(trial.origins, key=lambda origin: origin.text):
        yield Line(f"  {who}")
        for origin in origins:
            yield Line(f"    {_said(origin.change)}", "cyan")
    for callees, verb in ((trial.mutating, "may change it"), (trial.validating, "may refuse it")):
        if callees:
            yield Line(f"  asked, {verb}: {'; '.join(callee.said for callee in callees)}")
    for warning in trial.warnings:
        yield Line(f"  warning: {warning}", "yellow")


def difference_of(trial: Trial) -> Iterator[Line]:
    """The object as it was sent and as it would be stored; nothing where it was not admitted."""
    if trial.stored is None:
        return
    before, after = dump(as_written(trial.sent)).splitlines(), dump(as_written(_ordered(trial))).splitlines()
    label = trial.subject
    for line in difflib.unified_diff(
        before, after, f"{label}, as sent", f"{label}, as it would be stored", lineterm=""
    ):
        yield Line(line, "cyan" if line.startswith("@@") else {"+": "green", "-": "red"}.get(line[0], ""))


def aside_of(trial: Trial) -> Iterator[Line]:
    """Refusals and warnings, of a form that has no place for them."""
    if trial.stored is None:
        yield Line(f"{trial.subject}: {trial.verdict}", "red" if trial.refused else "yellow")
    for warning in trial.warnings:
        yield Line(f"{trial.subject}: warning: {warning}", "yellow")


def object_of(trial: Trial) -> JSON:
    """As a JSON answer has it."""
    return {
        **trial.manifest.reference,
        "tried": trial.sent.get("kind"),
        "admitted": None if trial.untried else trial.stored is not None,
        "message": trial.refused or trial.untried,
        "refusedBy": trial.by,
        "warnings": list(trial.warnings),
        "changes": [_change(origin) for origin in trial.origins],
        "missing": list(trial.lacking),
        "mutating": [callee.said for callee in trial.mutating],
        "validating": [callee.said for callee in trial.validating],
        "object": None if trial.stored is None else as_written(trial.stored),
    }


def _change(origin: Origin) -> JSON:
    values = {"before": origin.change.before, "after": origin.change.after}
    given = {name: value for name, value in values.items() if value is not ABSENT}
    return {"field": origin.change.field, **given, "by": list(origin.by)}


def _said(change: Change) -> str:
    if change.after is ABSENT:
        return f"{change.field}: removed (was {_value(change.before)})"
    was = "" if change.before is ABSENT else f" (was {_value(change.before)})"
    return f"{change.field}: {_value(change.after)}{was}"


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _ordered(trial: Trial) -> JSON:
    """The stored object with its fields in the order of the manifest, so that only what differs is shown."""
    assert trial.stored is not None  # noqa: S101
    ordered: JSON = _in_order(trial.stored, trial.sent)
    return ordered


def _in_order(value: Any, like: Any) -> Any:
    if isinstance(value, dict) and isinstance(like, dict):
        names = [*(name for name in like if name in value), *(name for name in value if name not in like)]
        return {name: _in_order(value[name], like.get(name)) for name in names}
    if isinstance(value, list) and isinstance(like, list):
        return [_in_order(item, _like(item, like, index)) for index, item in enumerate(value)]
    return value


def _like(item: Any, items: Sequence[Any], index: int) -> Any:
    """The element that is meant: of the same name, else at the same place."""
    if isinstance(item, dict) and "name" in item:
        return next((it for it in items if isinstance(it, dict) and it.get("name") == item["name"]), None)
    return items[index] if index < len(items) else None
