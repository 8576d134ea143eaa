"""One admission path over ASGI: every way out is an AdmissionReview with uid, apiVersion and kind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from app.admission.chain import MutationPlan
from app.admission.endpoint import in_flight
from app.admission.review import Request
from app.errors import ApiError, BadReview, Denied, Transient

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


class Acting:
    """An injector that does what it is told."""

    name = "acting"

    def __init__(self, act: Callable[[Request, MutationPlan], Any]) -> None:
        self._act = act

    async def inject(self, request: Request, plan: MutationPlan) -> None:
        result = self._act(request, plan)
        if asyncio.iscoroutine(result):
            await result


def raising(error: Exception) -> Acting:
    def act(_request: Request, _plan: MutationPlan) -> None:
        raise error

    return Acting(act)


def body_of(document: object) -> bytes:
    return json.dumps(document).encode()


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize(
    ("way", "status"),
    [
        ("allowed", 200),
        ("denied", 200),
        ("transient", 500),
        ("api error", 500),
        ("bug", 500),
        ("unsendable", 500),
        ("surrogate", 500),
        ("deadline", 500),
        ("bad review inside", 400),
        ("wrong kind", 400),
        ("malformed", 400),
        ("oversize", 413),
        ("content type", 415),
        ("no content type", 415),
        ("method", 405),
    ],
)
async def test_every_way_out_echoes_uid_version_and_kind(calling, review, version, way, status) -> None:
    injectors: dict[str, Any] = {
        "denied": raising(Denied("no", reason="No")),
        "transient": raising(Transient("cache is not loaded")),
        "api error": raising(ApiError("GET failed", status=503)),
        "bug": raising(KeyError("secret-value")),
        "unsendable": Acting(lambda _r, plan: plan.patch.add("/a", object(), reason="")),
        "surrogate": raising(Transient("\ud800")),
        "deadline": Acting(lambda _r, _p: asyncio.Event().wait()),
        "bad review inside": raising(BadReview("no such thing")),
    }
    document = review(version=version)
    options: dict[str, Any] = {}
    if way == "wrong kind":
        document["kind"] = "Pod"
    body: Any = body_of(document)
    if way == "malformed":
        body = body[:-10]
    if way == "oversize":
        body = [body[:400], b" " * 2000, b" " * 20]
    if way in ("content type", "no content type"):
        options["content_type"] = b"text/plain" if way == "content type" else None
    if way == "method":
        options["method"] = "PUT"
    call = calling(
        injectors=[injectors[way]] if way in injectors else [],
        body_limit=1000,
        deadline=0.05 if way == "deadline" else 5.0,
    )
    answer = await call(body, **options)
    assert answer.status == status
    assert answer.body["apiVersion"] == f"admission.k8s.io/{version}"
    assert answer.body["kind"] == "AdmissionReview"
    assert answer.response["uid"] == UID
    assert answer.response["allowed"] is (way == "allowed")
    assert "patch" not in answer.response
    if way != "allowed":
        assert answer.response["status"]["message"]
    assert answer.headers[b"content-type"] == b"application/json"
    (outcome,) = call.recorder.outcomes
    assert in_flight["mutate"] == 0
    assert outcome.status == status
    assert "secret-value" not in json.dumps(answer.body)


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/json",
        b"application/json; charset=utf-8",
        b"Application/JSON;charset=UTF-8",
        b"application/json ;a=b",
    ],
)
async def test_json_is_json_with_or_without_parameters(calling, review, content_type) -> None:
    assert (await calling()(body_of(review()), content_type=content_type)).status == 200


@pytest.mark.parametrize("content_type", [b"application/jsonp", b"text/json", b"", b";application/json", b"\xff"])
async def test_other_content_types_are_refused_by_name(calling, review, content_type) -> None:
    answer = await calling()(body_of(review()), content_type=content_type)
    assert answer.status == 415
    assert "want application/json" in answer.response["status"]["message"]


async def test_the_method_that_would_be_right_is_in_the_allow_header(calling) -> None:
    answer = await calling()(b"", method="GET")
    assert answer.status == 405
    assert answer.headers[b"allow"] == b"POST"


async def test_a_body_in_chunks_is_put_together(calling, review) -> None:
    body = body_of(review())
    answer = await calling()([body[i : i + 7] for i in range(0, len(body), 7)])
    assert answer.status == 200


async def test_the_limit_counts_all_chunks_and_is_exact(calling, review) -> None:
    body = body_of(review())
    call = calling(body_limit=len(body))
    assert (await call([body[:100], body[100:]])).status == 200
    over = await call([body[:100], body[100:] + b" ", b" "])
    assert over.status == 413
    assert b"connection" not in over.headers  # all of it was read, so the connection can go on
    flood = await call([body] * 6)
    assert flood.status == 413
    assert flood.headers[b"connection"] == b"close"


async def test_a_client_that_hangs_up_is_no_fault_of_ours(calling) -> None:
    call = calling()
    assert (await call(b"{", disconnect=True)).status == 400
    assert "closed the connection" in call.recorder.outcomes[0].decision.message


async def test_the_callers_own_timeout_shortens_the_deadline(calling, review) -> None:
    call = calling(injectors=[Acting(lambda _r, _p: asyncio.Event().wait())], deadline=60.0)
    answer = await call(body_of(review()), query=b"a=b&timeout=0.05s")
    assert answer.status == 500
    assert answer.response["status"]["reason"] == "DeadlineExceeded"


@pytest.mark.parametrize(
    "query", [b"timeout=", b"timeout=s", b"timeout=nans", b"timeout=-1s", b"timeout=0s", b"timeout=5m", b"\xff"]
)
async def test_a_timeout_that_says_nothing_changes_nothing(calling, review, query) -> None:
    assert (await calling()(body_of(review()), query=query)).status == 200


async def test_while_draining_every_answer_asks_to_close(calling, review) -> None:
    draining = False
    call = calling(draining=lambda: draining)
    assert b"connection" not in (await call(body_of(review()))).headers
    draining = True
    assert (await call(body_of(review()))).headers[b"connection"] == b"close"


async def test_dry_run_reaches_the_injectors_and_is_answered_alike(calling, review) -> None:
    seen: list[bool | None] = []

    def act(request: Request, plan: MutationPlan) -> None:
        seen.append(request.dry_run)
        plan.patch.add("/metadata/labels", {}, reason="")

    call = calling(injectors=[Acting(act)])
    real, dry = await call(body_of(review(dryRun=False))), await call(body_of(review(dryRun=True)))
    assert seen == [False, True]
    assert real.response == dry.response


@pytest.mark.parametrize(
    ("error", "reason", "words"),
    [
        (Transient("ConfigMap is not loaded yet"), "Unavailable", "ConfigMap is not loaded yet"),
        (TimeoutError(), "DeadlineExceeded", "deadline"),
        (RuntimeError("text of the object"), "InternalError", "see its log"),
        (RecursionError(), "InternalError", "see its log"),
    ],
)
async def test_what_cannot_be_decided_says_why_without_the_object(calling, review, error, reason, words) -> None:
    call = calling(injectors=[raising(error)])
    answer = await call(body_of(review()))
    assert answer.status == 500
    status = answer.response["status"]
    assert (status["reason"], status["code"]) == (reason, 500)
    assert words in status["message"]
    assert "text of the object" not in json.dumps(answer.body)
    assert call.recorder.outcomes[0].error is error or reason == "DeadlineExceeded"
