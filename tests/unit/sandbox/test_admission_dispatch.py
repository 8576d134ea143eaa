"""The dispatcher against a real HTTPS webhook server on loopback: what it sends and what it makes of the answers."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.cel.matchconditions import UserInfo
from app.devtools.sandbox.webhooks.admission import WebhookDispatcher
from tests.support.paths import REVIEWS
from tests.support.ports import lasting_port
from tests.support.webhook_server import (
    JSON,
    Handler,
    Server,
    attributes,
    issue,
    label,
    patching,
    pod,
    rejection,
    respond,
)


async def test_the_review_has_the_shape_of_a_real_servers(server: Server, dispatcher: WebhookDispatcher) -> None:
    real = json.loads((REVIEWS / "Pod-plain-CREATE.json").read_text())
    request = real["request"]
    server.register("mutating", server.hook("a"))
    info = request["userInfo"]
    user = UserInfo(info["username"], groups=info["groups"], extra=info["extra"])
    await dispatcher.mutate(attributes(name="plain", user=user, options=request["options"]), request["object"])
    sent = server.reviews[0][1]
    sent["request"]["uid"] = request["uid"]
    assert sent == real
    assert server.snis == ["svc.hooks.svc"]
    assert server.queries == ["timeout=10s"]


async def test_patches_add_up_by_configuration_name_and_order(server: Server, dispatcher: WebhookDispatcher) -> None:
    server.register("mutating", server.hook("c", label("c")), name="z-late")
    server.register("mutating", server.hook("a", label("a")), server.hook("b", label("b")), name="a-early")
    original = pod()
    changed, warnings = await dispatcher.mutate(attributes(), original)
    assert server.paths == ["/a", "/b", "/c"]
    assert changed["metadata"]["labels"] == {"a": "x", "b": "x", "c": "x"}
    assert server.reviews[2][1]["request"]["object"]["metadata"]["labels"] == {"a": "x", "b": "x"}
    assert original == pod()
    assert warnings == []


async def test_warnings_of_both_phases_come_back(server: Server, dispatcher: WebhookDispatcher) -> None:
    for phase in ("mutating", "validating"):
        server.register(phase, server.hook(phase, lambda review: respond(review, warnings=["careful"])))
    assert (await dispatcher.mutate(attributes(), pod()))[1] == ["careful"]
    assert await dispatcher.validate(attributes(), pod()) == ["careful"]


@pytest.mark.parametrize(
    ("status", "code", "reason", "message"),
    [
        ({"message": "no way", "code": 403, "reason": "Forbidden"}, 403, "Forbidden", "the request: no way"),
        ({"message": "mend it", "code": 422}, 422, None, "the request: mend it"),
        ({"reason": "Because"}, 400, "Because", "the request: Because"),
        ({"message": "odd", "code": 200}, 400, None, "the request: odd"),
        (None, 400, None, "the request without explanation"),
    ],
)
async def test_a_denial_carries_code_reason_and_message(
    server: Server, dispatcher: WebhookDispatcher, status: Any, code: int, reason: str | None, message: str
) -> None:
    answer = {"allowed": False} | ({"status": status} if status else {})
    server.register("validating", server.hook("x.y", lambda review: respond(review, **answer), failurePolicy="Ignore"))
    denied = await rejection(dispatcher.validate(attributes(), pod()))
    assert denied["message"] == f'admission webhook "x.y" denied {message}'
    assert (denied["status"], denied["code"], denied.get("reason")) == ("Failure", code, reason)


def broken(text: str) -> Handler:
    return lambda _: web.Response(text=text, content_type="application/json")


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (lambda _: web.Response(status=500, text="boom"), 'failed to call webhook: an error on the server ("boom") has prevented the request from succeeding'),
        (lambda _: web.Response(status=404), "failed to call webhook: the server could not find the requested resource"),
        (broken("<html>"), "received invalid webhook response: couldn't get version/kind; json parse error: JSON is malformed: invalid character (byte 0)"),
        (lambda review: respond(review) | {"kind": "Other"}, "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v1, Kind=Other"),
        (lambda review: {k: v for k, v in respond(review).items() if k != "response"}, "received invalid webhook response: webhook response was absent"),
        (lambda review: respond(review, patch="e30="), "received invalid webhook response: webhook returned response.patch but not response.patchType"),
        (lambda review: respond(review, patch="e30=", patchType="Merge"), 'received invalid webhook response: webhook returned invalid response.patchType of "Merge"'),
    ],
)  # fmt: skip
async def test_a_bad_answer_fails_or_is_ignored(
    server: Server, dispatcher: WebhookDispatcher, handler: Handler, message: str
) -> None:
    server.register("mutating", server.hook("h", handler))
    failed = await rejection(dispatcher.mutate(attributes(), pod()))
    assert failed["message"] == f'Internal error occurred: failed calling webhook "h": {message}'
    assert (failed["code"], failed["reason"]) == (500, "InternalError")
    server.configurations["mutating"][0]["webhooks"][0]["failurePolicy"] = "Ignore"
    assert (await dispatcher.mutate(attributes(), pod()))[0] == pod()


async def test_a_foreign_uid_is_no_answer(server: Server, dispatcher: WebhookDispatcher) -> None:
    server.register("mutating", server.hook("h", lambda review: respond(review, uid="other")))
    failed = await rejection(dispatcher.mutate(attributes(), pod()))
    assert 'received invalid webhook response: expected response.uid="' in failed["message"]
    assert failed["message"].endswith('got "other"')


@pytest.mark.parametrize(
    "operations",
    [[{"op": "remove", "path": "/spec/none"}], [{"op": "zap"}], [{"op": "add", "path": "/a/b/c", "value": 1}]],
)
async def test_a_patch_that_cannot_be_applied_is_an_internal_error(
    server: Server, dispatcher: WebhookDispatcher, operations: list[JSON]
) -> None:
    server.register("mutating", server.hook("h", patching(*operations), failurePolicy="Ignore"))
    failed = await rejection(dispatcher.mutate(attributes(), pod()))
    assert (failed["code"], failed["reason"]) == (500, "InternalError")


async def test_a_slow_webhook_runs_into_its_timeout(server: Server, dispatcher: WebhookDispatcher) -> None:
    never = asyncio.Event()

    async def slow(review: JSON) -> JSON:
        await never.wait()
        return respond(review)

    server.register("mutating", server.hook("h", slow, timeoutSeconds=1))
    failed = await rejection(dispatcher.mutate(attributes(), pod()))
    never.set()
    assert failed["message"].endswith('Post "https://svc.hooks.svc:443/h?timeout=1s": context deadline exceeded')


async def test_certificates_are_verified(server: Server, dispatcher: WebhookDispatcher, tmp_path: Path) -> None:
    hook = server.hook("h")
    hook["clientConfig"]["caBundle"] = issue(tmp_path / "other.pem", ["other"])
    server.register("mutating", hook)
    failed = await rejection(dispatcher.mutate(attributes(), pod()))
    assert failed["message"].endswith(
        "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    )
    hook["clientConfig"] = {"url": f"https://127.0.0.1:{server.port}/h", "caBundle": server.ca}
    failed = await rejection(dispatcher.mutate(attributes(), pod()))
    assert "x509: certificate is not valid for this name" in failed["message"]
    assert server.reviews == []


async def test_webhooks_are_found_by_url_too(server: Server, dispatcher: WebhookDispatcher) -> None:
    hook = server.hook("h", label("u"))
    hook["clientConfig"] = {"url": f"https://localhost:{server.port}/h", "caBundle": server.ca}
    server.register("mutating", hook)
    assert (await dispatcher.mutate(attributes(), pod()))[0] == pod(u="x")


async def test_what_cannot_be_reached_is_named(server: Server, dispatcher: WebhookDispatcher, unused_port: int) -> None:
    hook = server.hook("h")
    server.register("mutating", hook)
    hook["clientConfig"]["service"]["name"] = "gone"
    failed = await rejection(dispatcher.mutate(attributes(), pod()))
    assert failed["message"].endswith('Post "https://gone.hooks.svc:443/h?timeout=10s": service "gone" not found')
    hook["clientConfig"] = {"url": f"https://localhost:{unused_port}/h", "caBundle": server.ca}
    failed = await rejection(dispatcher.mutate(attributes(), pod()))
    assert failed["message"].endswith("connect: connection refused")


@pytest.fixture
def unused_port() -> int:
    return lasting_port()


async def test_a_delete_sends_the_old_object_alone(server: Server, dispatcher: WebhookDispatcher) -> None:
    server.register("mutating", server.hook("h"))
    await dispatcher.mutate(attributes(operation="DELETE", old_object=pod(a="1")), None)
    request = server.reviews[0][1]["request"]
    assert (request["object"], request["oldObject"]) == (None, pod(a="1"))
    server.handlers["/h"] = label("x")
    failed = await rejection(dispatcher.mutate(attributes(operation="DELETE", old_object=pod()), None))
    assert "attempted to modify the object, which is not supported for this operation" in failed["message"]


async def test_a_later_change_calls_those_again_that_asked_for_it(
    server: Server, dispatcher: WebhookDispatcher
) -> None:
    hooks = [
        server.hook("early", label("early"), reinvocationPolicy="IfNeeded"),
        server.hook("never", label("never"), reinvocationPolicy="Never"),
        server.hook("late", label("late"), reinvocationPolicy="IfNeeded"),
    ]
    server.register("mutating", *hooks)
    changed, _ = await dispatcher.mutate(attributes(), pod())
    assert server.paths == ["/early", "/never", "/late", "/early"]
    assert server.reviews[-1][1]["request"]["object"]["metadata"]["labels"] == {"early": "x", "never": "x", "late": "x"}
    assert changed == pod(early="x", never="x", late="x")


async def test_nobody_is_called_again_without_a_change(server: Server, dispatcher: WebhookDispatcher) -> None:
    server.register("mutating", *(server.hook(name, reinvocationPolicy="IfNeeded") for name in ("a", "b")))
    await dispatcher.mutate(attributes(), pod())
    assert server.paths == ["/a", "/b"]


@pytest.mark.parametrize("effects", ["Some", "Unknown"])
async def test_side_effects_refuse_a_dry_run(server: Server, dispatcher: WebhookDispatcher, effects: str) -> None:
    server.register("mutating", server.hook("h", sideEffects=effects, failurePolicy="Ignore"))
    refused = await rejection(dispatcher.mutate(attributes(dry_run=True), pod()))
    assert (refused["code"], refused["message"]) == (400, 'admission webhook "h" does not support dry run')
    assert server.reviews == []
    server.configurations["mutating"][0]["webhooks"][0]["sideEffects"] = "NoneOnDryRun"
    await dispatcher.mutate(attributes(dry_run=True), pod())
    assert server.reviews[0][1]["request"]["dryRun"] is True


async def test_old_webhooks_get_v1beta1_and_may_answer_loosely(server: Server, dispatcher: WebhookDispatcher) -> None:
    patch = base64.b64encode(json.dumps([{"op": "add", "path": "/spec/x", "value": 1}]).encode()).decode()
    hook = server.hook(
        "h", lambda _: {"response": {"allowed": True, "patch": patch}}, admissionReviewVersions=["v9", "v1beta1", "v1"]
    )
    server.register("mutating", hook)
    changed, _ = await dispatcher.mutate(attributes(), pod())
    assert server.reviews[0][1]["apiVersion"] == "admission.k8s.io/v1beta1"
    assert changed["spec"] == {"x": 1}


async def test_validating_webhooks_are_called_side_by_side(server: Server, dispatcher: WebhookDispatcher) -> None:
    meeting = asyncio.Barrier(2)

    async def meet(review: JSON) -> JSON:
        await meeting.wait()
        return respond(review)

    server.register("validating", server.hook("a", meet), server.hook("b", meet))
    await dispatcher.validate(attributes(), pod())
    assert sorted(server.paths) == ["/a", "/b"]
