"""What every role answers on its plain port: health, readiness, metrics.

It rests on Starlette: FastAPI, which most roles have no other use for, would add five MiB to each of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Exposition = tuple[bytes, str]
"""The text of all metrics, and its content type."""


def health_app(
    *,
    readiness: Callable[[], list[str]],
    metrics: Callable[[], Exposition | Awaitable[Exposition]],
    hung: Callable[[], str] = lambda: "",
) -> Starlette:
    """The application on the plain port.

    `readiness()` lists what is not ready, empty when all is; `hung()` says what only a restart fixes, "" for nothing.
    """

    async def alive(_request: Request) -> Response:
        fault = hung()
        return Response(fault or "ok", status_code=503 if fault else 200)

    async def ready(_request: Request) -> Response:
        missing = readiness()
        return JSONResponse({"ready": not missing, "waitingFor": missing}, status_code=503 if missing else 200)

    async def exposition(_request: Request) -> Response:
        text = metrics()
        body, content_type = text if isinstance(text, tuple) else await text
        return Response(body, media_type=content_type)

    pages = {"/livez": alive, "/healthz": alive, "/readyz": ready, "/metrics": exposition}
    return Starlette(routes=[Route(path, page) for path, page in pages.items()])
