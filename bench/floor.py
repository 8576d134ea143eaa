"""The floor: Berth's own server (uvicorn settings, TLS context, uvloop) around the cheapest application there is.

It reads the body and sends an answer made in advance; nothing that decides a review can be faster.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, cast

import uvloop
from fastapi import FastAPI

from app.admission.endpoint import Receive, Scope, Send
from app.admission.server import bind, make_server
from app.tls_options import server_context


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


def _messages(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    return (
        {"type": "http.response.start", "status": 200, "headers": headers},
        {"type": "http.response.body", "body": body},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--answers", type=Path, required=True, help="JSON object: path to body")
    given = parser.parse_args()
    context, _ = server_context()
    context.load_cert_chain(given.cert, given.key)
    # uvicorn takes any ASGI application; `make_server` names the one that Berth gives it.
    app = cast("FastAPI", ConstantAnswers(json.loads(given.answers.read_text())))
    server = make_server(app, context=context)
    uvloop.run(server.serve(sockets=[bind("127.0.0.1", given.port)]))


if __name__ == "__main__":
    main()
