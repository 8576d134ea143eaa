"""The reviews that are sent: recorded ones, and as many others made of them as a run needs.

Two kinds of loads are made in advance, each in a file with one review a line, all of the same length:

- distinct: the name, uid, token volume, container names and images differ, so that no answer can be used again; the
  generator puts the number of the turn in place of `t00` in images, where it goes through the file more than once;
- replicas: the name, uid and token volume differ, as in the Pods of one template.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

DIRECTORY = Path(__file__).resolve().parent.parent / "tests" / "support" / "reviews"
NAMES = ("plain", "webhook-demo", "rich")
Kind = Literal["distinct", "replicas"]
KINDS: tuple[Kind, ...] = ("distinct", "replicas")
COUNT = 20_000
"""Reviews of a load: more than a round sends, and more than a cache of answers in reasonable bounds would hold."""

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_MARK = re.compile("<(uid|name|token|number)>")


@dataclass(frozen=True, slots=True)
class Load:
    """A file of reviews that are made of one recorded review."""

    review: str
    kind: Kind
    file: Path

    @property
    def name(self) -> str:
        return f"{self.review}-{self.kind}"

    def first(self, count: int) -> list[bytes]:
        with self.file.open("rb") as lines:
            return [line.rstrip(b"\n") for line, _ in zip(lines, range(count), strict=False)]


def recorded(name: str) -> bytes:
    """What an API server sent, byte by byte; see NAMES."""
    return (DIRECTORY / f"Pod-{name}-CREATE.json").read_bytes()


def pod_of(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(body)["request"]["object"]
    return found


def prepare(review: str, kind: Kind, directory: Path, *, count: int = COUNT) -> Load:
    """Write the file of a load."""
    load = Load(review, kind, directory / f"{review}-{kind}.jsonl")
    with load.file.open("wb") as lines:
        for body in bodies(review, kind, count):
            lines.write(body + b"\n")
    return load


def bodies(review: str, kind: Kind, count: int) -> Iterator[bytes]:
    """So many reviews, always the same ones."""
    chance = random.Random(f"{review} {kind}")
    parts = _MARK.split(_template(review, kind))
    for number in range(count):
        bits = f"{chance.getrandbits(128):032x}"
        values = {
            "uid": f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-9{bits[17:20]}-{bits[20:]}",
            "name": f"{review}-6b7f5c9d8-" + "".join(chance.choices(_SUFFIX, k=5)),
            "token": "".join(chance.choices(_SUFFIX, k=5)),
            "number": f"{number:06}",
        }
        yield "".join(values[part] if place % 2 else part for place, part in enumerate(parts)).encode()


def _template(name: str, kind: Kind) -> str:
    """The recorded review with marks where the reviews of a load differ, on one line."""
    review = json.loads(recorded(name))
    request, pod = review["request"], review["request"]["object"]
    request["uid"], request["name"], pod["metadata"]["name"] = "<uid>", "<name>", "<name>"
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    _add_token(pod["spec"], containers)
    called = [container["name"] for container in containers]
    if kind == "distinct":
        for container in containers:
            container["name"] += "-<number>"
            container["image"] = f"r<number>.t00.example.com/{container['image']}"
    text = json.dumps(review, separators=(",", ":"), ensure_ascii=False)
    for old in called if kind == "distinct" else ():
        # In managedFields the name of a container is a part of a key.
        text = text.replace(f'"k:{{\\"name\\":\\"{old}\\"}}"', f'"k:{{\\"name\\":\\"{old}-<number>\\"}}"')
    return text


def _add_token(spec: dict[str, Any], containers: list[dict[str, Any]]) -> None:
    """The volume that the API server's ServiceAccount plugin adds before any webhook is asked."""
    mount = {"name": "kube-api-access-<token>", "readOnly": True}
    mount["mountPath"] = "/var/run/secrets/kubernetes.io/serviceaccount"
    for container in containers:
        container.setdefault("volumeMounts", []).append(copy.copy(mount))
    reference = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": reference}]}},
    ]
    volume = {"name": mount["name"], "projected": {"sources": sources, "defaultMode": 420}}
    spec.setdefault("volumes", []).append(volume)
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", "default")
