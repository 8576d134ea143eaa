"""A workload of the daemon, and its JSON form. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, TypeVar

from app.wire import JSON

SUCCESSFUL, FAILED, NONE = "Successful", "Failed", "None"
REST = "REST"
_MOST = 2**32 - 1
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Workload:
    """One record. Of `plugins`, the value of each is its parameters. "" and () are omitted in JSON, as is None."""

    id: str = ""
    core_ids: tuple[str, ...] = ()
    task_ids: tuple[str, ...] = ()
    policy: str = ""
    status: str = ""
    cos_name: str = ""
    max: int | None = None
    min: int | None = None
    percentage: int | None = None
    mbps: int | None = None
    plugins: JSON = field(default_factory=dict)
    uuid: str = ""
    origin: str = REST

    @property
    def mba(self) -> int | None:
        """The MBA value, whatever its unit."""
        return self.percentage if self.percentage is not None else self.mbps


def to_json(one: Workload) -> JSON:
    """What the daemon shows of a workload: `status`, `cos_name`, `rdt` with both parts, and `origin` always."""
    cache = {key: value for key, value in (("max", one.max), ("min", one.min)) if value is not None}
    mba = {key: value for key, value in (("percentage", one.percentage), ("mbps", one.mbps)) if value is not None}
    shown: JSON = {
        "id": one.id,
        "core_ids": list(one.core_ids),
        "task_ids": list(one.task_ids),
        "policy": one.policy,
        "status": one.status,
        "cos_name": one.cos_name,
        "rdt": {"cache": cache, "mba": mba},
        "plugins": one.plugins,
        "uuid": one.uuid,
        "origin": one.origin,
    }
    always = ("status", "cos_name", "rdt", "origin")
    return {key: value for key, value in shown.items() if value or key in always}


@dataclass(frozen=True, slots=True)
class Read:
    """What a body says. `whole` is False where a part of it could not be read; the rest of the body then counts.

    `workload` is None for the body `null`.
    """

    workload: Workload | None
    whole: bool


def read(body: bytes) -> Read:
    """Read the first JSON value of a body as the daemon does: what follows is ignored, as are unknown fields.

    Names of fields have to be in lower case; the daemon also takes others.
    """
    try:
        value, _ = json.JSONDecoder().raw_decode(body.decode().lstrip())
    except (ValueError, RecursionError):
        return Read(Workload(), whole=False)
    if value is None:
        return Read(None, whole=True)
    reader = _Reader()
    fields = reader.mapping(value)
    rdt = reader.mapping(fields.get("rdt"))
    cache, mba = reader.mapping(rdt.get("cache")), reader.mapping(rdt.get("mba"))
    plugins = reader.mapping(fields.get("plugins"))
    workload = Workload(
        id=reader.text(fields.get("id")),
        core_ids=reader.texts(fields.get("core_ids")),
        task_ids=reader.texts(fields.get("task_ids")),
        policy=reader.text(fields.get("policy")),
        status=reader.text(fields.get("status")),
        cos_name=reader.text(fields.get("cos_name")),
        max=reader.number(cache.get("max")),
        min=reader.number(cache.get("min")),
        percentage=reader.number(mba.get("percentage")),
        mbps=reader.number(mba.get("mbps")),
        plugins={name: reader.mapping(parameters) for name, parameters in plugins.items()},
        uuid=reader.text(fields.get("uuid")),
        origin=reader.text(fields.get("origin")),
    )
    return Read(workload, reader.whole)


class _Reader:
    """Values of the types that the daemon's record has; another type clears `whole` and gives the empty value."""

    def __init__(self) -> None:
        self.whole = True

    def mapping(self, value: Any) -> JSON:
        return value if isinstance(value, dict) else self._empty(value, {})

    def text(self, value: Any) -> str:
        return value if isinstance(value, str) else self._empty(value, "")

    def texts(self, value: Any) -> tuple[str, ...]:
        return tuple(map(self.text, value)) if isinstance(value, list) else self._empty(value, ())

    def number(self, value: Any) -> int | None:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST:
            return value
        return self._empty(value, None)

    def _empty(self, value: Any, empty: _T) -> _T:
        self.whole = self.whole and value is None
        return empty
