"""The dispatcher against a real HTTPS webhook server on loopback."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.sandbox.webhooks.admission import AdmissionRejected, Attributes, UserInfo, WebhookDispatcher

JSON = dict[str, Any]
Handler = Callable[[JSON], Any]
REVIEWS = Path(__file__).parent.parent / "reviews"


def issue(path: Path, names: list[str]) -> str:
    """Writes a CA-signed certificate and key to `path`; the answer is the CA bundle in base64."""
    now = dt.datetime.now(dt.UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test CA")])

    def build(subject: x509.Name, public: Any, extensions: list[Any]) -> x509.Certificate:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(ca_name).public_key(public)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - dt.timedelta(hours=1))
        builder = builder.not_valid_after(now + dt.timedelta(hours=1))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(ca_key, hashes.SHA256())

    ca = build(ca_name, ca_key.public_key(), [x509.BasicConstraints(ca=True, path_length=None)])
    leaf = build(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])]),
        key.public_key(),
        [x509.SubjectAlternativeName([x509.DNSName(name) for name in names])],
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(private + leaf.public_bytes(pem))
    return base64.b64encode(ca.public_bytes(pem)).decode()


class Server:
    """A webhook server: each path answers as its handler says, and every review is remembered."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self.reviews: list[tuple[str, JSON]] = []
        self.snis: list[str | None] = []
        self.queries: list[str] = []
        self.port = 0
        self.ca = ""
        self.configurations: JSON = {"mutating": [], "validating": []}
        self.namespaces: JSON = {"default": {"metadata": {"name": "default", "labels": {"team": "a"}}}}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        review = await request.json()
        self.reviews.append((request.path, review))
        self.queries.append(request.query_string)
        answer = self.handlers[request.path](review)
        if asyncio.iscoroutine(answer):
            answer = await answer
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.reviews]

    def hook(self, name: str, handler: Handler | None = None, **fields: Any) -> JSON:
        """A webhook for all of Pods, served under /name."""
        self.handlers[f"/{name}"] = handler or allow
        rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
        client = {"service": {"namespace": "hooks", "name": "svc", "path": f"/{name}"}, "caBundle": self.ca}
        base = {"name": name, "rules": [rule], "clientConfig": client, "admissionReviewVersions": ["v1"]}
        return base | {"sideEffects": "None", "failurePolicy": "Fail", **fields}

    def register(self, phase: str, *hooks: JSON, name: str = "config") -> None:
        self.configurations[phase].append({"metadata": {"name": name}, "webhooks": list(hooks)})


def respond(review: JSON, **fields: Any) -> JSON:
    response = {"uid": review["request"]["uid"], "allowed": True, **fields}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def allow(review: JSON) -> JSON:
    return respond(review)


def patching(*operations: JSON) -> Handler:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda review: respond(review, patchType="JSONPatch", patch=encoded)


def label(name: str) -> Handler:
    return patching({"op": "add", "path": f"/metadata/labels/{name}", "value": "x"})


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    made = Server()
    made.ca = issue(tmp_path / "server.pem", ["svc.hooks.svc", "localhost"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "server.pem")
    context.sni_callback = lambda _, name, __: made.snis.append(name)
    application = web.Application()
    application.router.add_post("/{tail:.*}", made.handle)
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    made.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    yield made
    await runner.cleanup()


@pytest_asyncio.fixture
async def dispatcher(server: Server) -> AsyncIterator[WebhookDispatcher]:
    def resolve(namespace: str, name: str, port: int) -> tuple[str, int] | None:
        return ("127.0.0.1", server.port) if (namespace, name, port) == ("hooks", "svc", 443) else None

    versions = {("x.io", "things"): ["v1", "v2"]}
    made = WebhookDispatcher(
        server.configurations.__getitem__,
        server.namespaces.get,
        resolve,
        versions=lambda g, r: versions.get((g, r), []),
    )
    yield made
    await made.close()
    await asyncio.sleep(0)


def pod(**labels: str) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "labels": labels},
        "spec": {},
    }


def attributes(**fields: Any) -> Attributes:
    defaults: JSON = {
        "operation": "CREATE", "group": "", "version": "v1", "kind": "Pod", "resource": "pods", "subresource": "",
        "namespace": "default", "name": "p", "dry_run": False, "user": UserInfo("admin", groups=["system:masters"]),
        "old_object": None, "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }  # fmt: skip
    return Attributes(**{**defaults, **fields})


async def rejection(awaitable: Any) -> JSON:
    with pytest.raises(AdmissionRejected) as caught:
        await awaitable
    return caught.value.status


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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rule(**fields: Any) -> list[JSON]:
    return [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], **fields}]


@pytest.mark.parametrize(
    ("rules", "fields", "called"),
    [
        (rule(), {}, True),
        (rule(operations=["UPDATE"]), {}, False),
        (rule(apiGroups=["apps"]), {}, False),
        (rule(apiVersions=["v2"]), {}, False),
        (rule(resources=["pods"]), {"subresource": "status"}, False),
        (rule(resources=["*"]), {"subresource": "status"}, False),
        (rule(resources=["pods/*"]), {"subresource": "status"}, True),
        (rule(resources=["pods/*"]), {}, True),
        (rule(resources=["*/status"]), {"subresource": "status"}, True),
        (rule(resources=["*/*"]), {"subresource": "binding"}, True),
        (rule(resources=["*/*"]), {}, True),
        (rule(scope="Cluster"), {}, False),
        (rule(scope="Namespaced"), {}, True),
        (rule(scope="Namespaced"), {"resource": "namespaces", "kind": "Namespace", "name": "default"}, False),
        (rule(scope="Cluster"), {"resource": "nodes", "kind": "Node", "namespace": ""}, True),
        (rule(), {"group": "admissionregistration.k8s.io", "resource": "mutatingwebhookconfigurations", "namespace": ""}, False),
    ],
)  # fmt: skip
async def test_rules(
    server: Server, dispatcher: WebhookDispatcher, rules: list[JSON], fields: JSON, *, called: bool
) -> None:
    server.register("validating", server.hook("h", rules=rules))
    await dispatcher.validate(attributes(**fields), pod())
    assert bool(server.reviews) is called


async def test_equivalent_versions_match_and_are_converted_back(server: Server, dispatcher: WebhookDispatcher) -> None:
    thing = {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"labels": {}}}
    hook = server.hook("h", label("x"), rules=rule(apiGroups=["x.io"], apiVersions=["v2"], resources=["things"]))
    server.register("mutating", hook)
    write = attributes(group="x.io", resource="things", kind="Thing")
    changed, _ = await dispatcher.mutate(write, thing)
    request = server.reviews[0][1]["request"]
    assert (request["object"]["apiVersion"], request["resource"]["version"]) == ("x.io/v2", "v2")
    assert request["requestResource"]["version"] == "v1"
    assert changed == {**thing, "metadata": {"labels": {"x": "x"}}}
    hook["matchPolicy"] = "Exact"
    assert (await dispatcher.mutate(write, thing))[0] == thing


@pytest.mark.parametrize(
    ("selector", "called"),
    [
        ({"matchLabels": {"team": "a"}}, True),
        ({"matchLabels": {"team": "b"}}, False),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}, True),
        ({}, True),
    ],
)
async def test_namespace_selectors(
    server: Server, dispatcher: WebhookDispatcher, selector: JSON, *, called: bool
) -> None:
    server.register("validating", server.hook("h", namespaceSelector=selector, rules=rule()))
    await dispatcher.validate(attributes(), pod())
    assert bool(server.reviews) is called
    await dispatcher.validate(attributes(resource="nodes", namespace=""), {"metadata": {"labels": {}}})
    assert len(server.reviews) == called + 1, "cluster-scoped objects are not selected by namespace"


async def test_a_namespace_is_selected_by_its_own_new_labels(server: Server, dispatcher: WebhookDispatcher) -> None:
    server.register("validating", server.hook("h", namespaceSelector={"matchLabels": {"team": "new"}}, rules=rule()))
    write = attributes(resource="namespaces", kind="Namespace", name="default")
    await dispatcher.validate(write, {"metadata": {"labels": {"team": "new"}}})
    await dispatcher.validate(write, {"metadata": {"labels": {}}})
    assert len(server.reviews) == 1


async def test_an_unknown_namespace_fails_whatever_the_policy(server: Server, dispatcher: WebhookDispatcher) -> None:
    hook = server.hook("h", namespaceSelector={"matchLabels": {"a": "b"}}, failurePolicy="Ignore")
    server.register("validating", hook)
    failed = await rejection(dispatcher.validate(attributes(namespace="gone"), pod()))
    assert (failed["code"], failed["message"]) == (404, 'namespaces "gone" not found')


async def test_object_selectors_look_at_the_old_and_the_new_object(
    server: Server, dispatcher: WebhookDispatcher
) -> None:
    server.register("validating", server.hook("h", objectSelector={"matchLabels": {"a": "1"}}))
    for old, new in ((pod(), pod()), (pod(a="1"), pod()), (pod(), pod(a="1"))):
        await dispatcher.validate(attributes(operation="UPDATE", old_object=old), new)
    await dispatcher.validate(attributes(operation="DELETE", old_object=pod(a="1")), None)
    assert len(server.reviews) == 3


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


async def test_match_conditions_decide_before_the_call(server: Server, dispatcher: WebhookDispatcher) -> None:
    conditions = [
        {
            "name": "n",
            "expression": "object.metadata.labels.mode == 'on' && !request.userInfo.username.startsWith('system:')",
        }
    ]
    server.register("validating", server.hook("h", matchConditions=conditions))
    await dispatcher.validate(attributes(), pod(mode="off"))
    await dispatcher.validate(attributes(user=UserInfo("system:node")), pod(mode="on"))
    assert server.reviews == []
    await dispatcher.validate(attributes(), pod(mode="on"))
    assert len(server.reviews) == 1
    failed = await rejection(dispatcher.validate(attributes(), pod()))
    assert (failed["code"], failed["reason"]) == (403, "Forbidden")
    assert "no such key: mode" in failed["message"]
    server.configurations["validating"][0]["webhooks"][0]["failurePolicy"] = "Ignore"
    await dispatcher.validate(attributes(), pod())
    assert len(server.reviews) == 1
