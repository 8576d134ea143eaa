"""A real HTTPS webhook server for the dispatcher's tests, the answers it gives and the writes it is asked about."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.cel.matchconditions import Attributes, UserInfo
from app.devtools.sandbox.webhooks.admission import AdmissionRejected

JSON = dict[str, Any]
Handler = Callable[[JSON], Any]


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


def rule(**fields: Any) -> list[JSON]:
    return [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], **fields}]


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
