"""The containers of a Pod in the order in which kubelet gives them CPUs and devices. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from app.wire import JSON


class Container(NamedTuple):
    """`ends`: an init container that ends before the next one starts. What it has had is for those after it."""

    name: str
    spec: JSON
    ends: bool


def in_order(pod: JSON) -> Iterator[Container]:
    """Init containers first. Sidecars, which are init containers with restartPolicy Always, do not end."""
    spec: JSON = pod["spec"]
    for one in spec.get("initContainers") or ():
        yield Container(one["name"], one, ends=one.get("restartPolicy") != "Always")
    for one in spec["containers"]:
        yield Container(one["name"], one, ends=False)
