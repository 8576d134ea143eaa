"""Which Kubernetes an API server is, and whether it is new enough for a kind."""

from __future__ import annotations

import re
from typing import NamedTuple

from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.wire import JSON

_DIGITS = re.compile(r"\d+")


class Release(NamedTuple):
    """`shown` is the version as the server says it, such as v1.37.2; a part that it does not say is 0."""

    major: int
    minor: int
    shown: str

    def is_older(self, version: str) -> bool:
        """Whether it is older than this version, such as 1.36."""
        major, minor = map(int, version.split("."))
        return (self.major, self.minor) < (major, minor)


async def release_of(client: KubeClient) -> Release:
    """Raises ApiError."""
    answer = await client.get_path("/version")
    major, minor = _number(answer, "Major"), _number(answer, "Minor")
    shown = str(answer.get("gitVersion") or f"v{major}.{minor}")
    return Release(major, minor, f"{shown} (emulating {major}.{minor})" if answer.get("emulationMinor") else shown)


def _number(answer: JSON, part: str) -> int:
    """That of the version that the server emulates (`--emulated-version`), else of its own. A provider adds `+`."""
    text = str(answer.get(f"emulation{part}") or answer.get(part.lower()))
    digits = _DIGITS.match(text)
    return int(digits[0]) if digits else 0


def unserved(resource: Resource, release: Release) -> str:
    """Why an API server of this release does not serve the kind, with what would be right."""
    name = f"{resource.plural}.{resource.group}/{resource.version}"
    if resource.since and release.is_older(resource.since):
        return f"Kubernetes {release.shown} does not serve {name}: want {resource.since} or newer"
    since = f" since {resource.since}" if resource.since else ""
    return f"Kubernetes serves {name}{since}, unless --runtime-config turns it off; this is {release.shown}"
