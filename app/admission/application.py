"""The FastAPI application of reviews: an endpoint for each kind of them, and FastAPI for all other paths."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from starlette.types import Receive, Scope, Send

from app.admission.chain import Chain
from app.admission.endpoint import ReviewEndpoint
from app.admission.heads import CallerTokens, split_path
from app.admission.memo import Memo
from app.admission.metrics import create_series
from app.admission.server import Answering
from app.lean import deferred_models

with deferred_models():  # those of an OpenAPI document, which is never made
    from fastapi import FastAPI


class ReviewApp(Answering):
    """The application on the TLS port: the endpoints by path, FastAPI for other paths.

    Callers that show one of the `callers`' tokens have the `proven` endpoints. A wrong token has no effect, so that a
    token can be changed while Pods are created.
    Inside FastAPI its middleware would cost a review as much as its decision does.
    """

    def __init__(
        self,
        endpoints: Mapping[str, ReviewEndpoint],
        proven: Mapping[str, ReviewEndpoint] = MappingProxyType({}),
        callers: CallerTokens | None = None,
    ) -> None:
        self.endpoints, self._proven, self._callers = endpoints, proven, callers
        self._rest = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoint(scope) if scope["type"] == "http" else None
        await (self._rest if endpoint is None else endpoint)(scope, receive, send)

    def _endpoint(self, scope: Scope) -> ReviewEndpoint | None:
        path, token = split_path(scope["path"])
        proven = self._callers is not None and self._callers.proves(token, scope["headers"])
        return (self._proven if proven else self.endpoints).get(path)


def review_app(
    chains: Mapping[str, Chain],
    *,
    aliases: Mapping[str, str] = MappingProxyType({}),
    memos: Mapping[str, Memo] = MappingProxyType({}),
    callers: CallerTokens | None = None,
    **options: Any,
) -> ReviewApp:
    """An endpoint with these options for each chain, and with the memo of its name, where there is one.

    `aliases` are other paths of endpoints. With `callers` each has a twin for those that are proven.
    """
    create_series(tuple(chains))

    def endpoints(**further: Any) -> dict[str, ReviewEndpoint]:
        made = {
            f"/{name}": ReviewEndpoint(name, chain, memo=memos.get(name), **(options | further))
            for name, chain in chains.items()
        }
        return made | {f"/{alias}": made[f"/{name}"] for alias, name in aliases.items()}

    return ReviewApp(endpoints(), endpoints(proven=True) if callers is not None else {}, callers)
