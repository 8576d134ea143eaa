"""Just enough of an API server for Berth's caches: lists attachments in pages and keeps watches open.

It lets the memory of a worker be measured with the client and the cache that a cluster would fill, not with files.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from functools import cache

from aiohttp import web

from bench.surroundings import RESOURCES, attachment

COLLECTION = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"
_NAMESPACES = 50
_BOOKMARK_SECONDS = 20


def attachments(count: int) -> list[dict[str, object]]:
    """The two that the reviews name, and others up to `count`, spread over namespaces."""
    named = [attachment("default", name, resource) for name, resource in RESOURCES.items()]
    others = [
        attachment(f"tenant-{number % _NAMESPACES}", f"network-{number}", f"example.com/pool-{number % 16}")
        for number in range(count - len(named))
    ]
    return named + others


def application(objects: list[dict[str, object]]) -> web.Application:
    def collection(items: list[dict[str, object]]) -> web.RouteDef:
        @cache  # what is asked for again is sent at once: the time of this server is no part of any figure
        def page(begin: int, limit: int) -> bytes:
            end = min(len(items), begin + limit)
            token = {"continue": str(end)} if end < len(items) else {}
            return json.dumps({"metadata": {"resourceVersion": "1", **token}, "items": items[begin:end]}).encode()

        async def answer(request: web.Request) -> web.StreamResponse:
            if request.query.get("watch") == "true":
                return await _watch(request)
            body = page(int(request.query.get("continue") or 0), int(request.query.get("limit") or len(items)))
            return web.Response(body=body, content_type="application/json")

        return web.get(COLLECTION if items else "/api/v1/{rest:.*}", answer)

    app = web.Application()
    app.add_routes([collection(objects), collection([])])
    return app


async def _watch(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while True:
        await asyncio.sleep(_BOOKMARK_SECONDS)
        await response.write(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, required=True, help="how many attachments there are")
    given = parser.parse_args()
    app = application(attachments(given.count))
    # A watch would hold up the end: there is nothing to wait for.
    web.run_app(app, host="127.0.0.1", port=given.port, print=None, access_log=None, shutdown_timeout=0.1)


if __name__ == "__main__":
    main()
