from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.admission.chain import Chain
from app.admission.endpoint import Outcome, ReviewEndpoint
from tests.support.simulated import pytest_asyncio_loop_factories  # noqa: F401  # a hook

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def make_review(
    *, version: str = "v1", uid: str = UID, obj: Any = None, operation: str = "CREATE", **request: Any
) -> dict[str, Any]:
    """An AdmissionReview as an API server writes it: kind and apiVersion first, then the uid."""
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}} if obj is None else obj
    asked = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "web",
        "namespace": "team",
        "operation": operation,
        "object": obj,
        **request,
    }
    return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": asked}


@dataclass
class Recorder:
    """Keeps the outcomes of reviews."""

    outcomes: list[Outcome] = field(default_factory=list)

    def finished(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


@dataclass
class Answer:
    status: int
    headers: dict[bytes, bytes]
    body: dict[str, Any]

    @property
    def response(self) -> dict[str, Any]:
        return self.body["response"]  # type: ignore[no-any-return]  # JSON


@dataclass
class Caller:
    """Calls an endpoint as an ASGI server does."""

    endpoint: ReviewEndpoint
    recorder: Recorder

    async def __call__(
        self,
        body: bytes | list[bytes],
        *,
        method: str = "POST",
        content_type: bytes | None = b"application/json",
        query: bytes = b"",
        disconnect: bool = False,
    ) -> Answer:
        chunks = body if isinstance(body, list) else [body]
        messages: list[dict[str, Any]] = [
            {"type": "http.request", "body": chunk, "more_body": disconnect or index < len(chunks) - 1}
            for index, chunk in enumerate(chunks)
        ]
        if disconnect:
            messages.append({"type": "http.disconnect"})
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return messages.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [] if content_type is None else [(b"content-type", content_type)]
        await self.endpoint({"method": method, "headers": headers, "query_string": query}, receive, send)
        start, end = sent
        return Answer(start["status"], dict(start["headers"]), json.loads(end["body"]))


@pytest.fixture
def review() -> Callable[..., dict[str, Any]]:
    return make_review


@pytest.fixture
def calling() -> Callable[..., Caller]:
    """Builds a caller for a chain of these injectors and checks."""

    def build(*, injectors: Any = (), checks: Any = (), exempt: frozenset[str] = frozenset(), **options: Any) -> Caller:
        recorder = Recorder()
        chain = Chain(injectors=injectors, checks=checks, exempt_namespaces=exempt)
        return Caller(ReviewEndpoint("mutate", chain, finished=recorder.finished, **options), recorder)

    return build
