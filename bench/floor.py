"""The floor: Berth's own server (uvicorn settings, TLS context, uvloop) around the cheapest application there is.

It reads the body and sends an answer made in advance; nothing that decides a review can be faster. With `--fastapi` the
same answer comes from an ordinary FastAPI route, which is what a webhook written the usual way starts from. Without
`--answers` it allows every review: an API server wants the uid of its own request back.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import signal
import sys
from pathlib import Path
from typing import Any

import uvloop
from fastapi import FastAPI, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.admission.server import make_server
from app.serving.listener import bind
from app.serving.tls_options import server_context


class ConstantAnswers:
    """An ASGI application that answers each path with its own bytes."""

    def __init__(self, answers: dict[str, str]) -> None:
        self._answers = {path: _messages(text.encode()) for path, text in answers.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, body = self._answers[scope["path"]]
        while (await receive()).get("more_body", False):
            pass
        await send(start)
        await send(body)


def fastapi_answers(answers: dict[str, str]) -> FastAPI:
    """A FastAPI application with a route that answers each path with its own bytes."""
    api = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    bodies = {name.removeprefix("/"): text.encode() for name, text in answers.items()}

    @api.post("/{name}")
    async def answer(name: str, request: Request) -> Response:
        await request.body()
        return Response(bodies[name], media_type="application/json")

    return api


def _messages(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    return (
        {"type": "http.response.start", "status": 200, "headers": headers},
        {"type": "http.response.body", "body": body},
    )


_ALLOWED = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"%s","allowed":true}}'


async def allow(_scope: Scope, receive: Receive, send: Send) -> None:
    """Allows the review, unchanged. The uid of the request is the first text of that name in what API servers send."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    begin = body.find(b'"uid":"') + 7
    uid = bytes(body[begin : body.find(b'"', begin)])
    answer = (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"%s","allowed":true}}' % uid
    )
    for message in _messages(answer):
        await send(message)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--answers", type=Path, help="JSON object: path to body")
    parser.add_argument("--workers", type=int, default=1, help="processes that share the port")
    parser.add_argument("--fastapi", action="store_true", help="answer from a FastAPI route")
    given = parser.parse_args()
    if given.workers == 1:
        serve(given)
        return
    # Daemons end with their parent, and it with a signal that Python hears.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=serve, args=(given,), daemon=True) for _ in range(given.workers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def serve(given: argparse.Namespace) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    context, _ = server_context()
    context.load_cert_chain(given.cert, given.key)
    app: ASGIApp = allow
    if given.answers:
        answers = json.loads(given.answers.read_text())
        app = fastapi_answers(answers) if given.fastapi else ConstantAnswers(answers)
    server = make_server(app, context=context)
    uvloop.run(server.serve(sockets=[bind("127.0.0.1", given.port, shared=given.workers > 1)]))


if __name__ == "__main__":
    main()
