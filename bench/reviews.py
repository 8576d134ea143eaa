"""The reviews that are sent, and the HTTP requests made of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parent.parent / "tests" / "support" / "reviews"
NAMES = ("plain", "webhook-demo", "rich")


@dataclass(frozen=True, slots=True)
class Review:
    """One recorded review: `body` is what an API server sent, byte by byte."""

    name: str
    uid: str
    body: bytes

    @property
    def pod(self) -> dict[str, object]:
        pod: dict[str, object] = json.loads(self.body)["request"]["object"]
        return pod

    def http_request(self, path: str) -> bytes:
        """The whole request, ready to be written to a connection again and again."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: kube-apiserver-admission\r\n"
            f"Accept: application/json, */*\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(self.body)}\r\n\r\n"
        )
        return head.encode() + self.body


def read(name: str) -> Review:
    """The review of that name; see NAMES."""
    return parse(name, (DIRECTORY / f"Pod-{name}-CREATE.json").read_bytes())


def parse(name: str, body: bytes) -> Review:
    return Review(name, json.loads(body)["request"]["uid"], body)
