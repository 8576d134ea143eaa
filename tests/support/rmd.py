"""Workloads and requests for the stand-in of RMD."""

from __future__ import annotations

from typing import Any

import aiohttp

from app.devtools.rmd.model import Workload
from app.devtools.rmd.server import Served

JSON = dict[str, Any]


def on(*cores: str, ways: int | tuple[int, int] | None = None, **fields: Any) -> Workload:
    """A workload on these cores, with as many ways at most and at least, or with (most, least)."""
    most, least = ways if isinstance(ways, tuple) else (ways, ways)
    return Workload(core_ids=cores, max=most, min=least, **fields)


def asking(*cores: str, ways: int, **fields: Any) -> JSON:
    """The body of a request for these cores and ways."""
    return {"core_ids": list(cores), "rdt": {"cache": {"max": ways, "min": ways}}, **fields}


async def call(served: Served, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, str, str]:
    """Status, Content-Type and text of an answer."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{served.url}/v1/{path}", json=body, **options) as answer,
    ):
        return answer.status, answer.headers.get("Content-Type", ""), await answer.text()
