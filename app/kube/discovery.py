"""Which resource serves a kind, as the API server's discovery says it; one cache for all who ask.

The list of a group and version is read when something of it is asked for, and again when it lacks a kind, but not more
often than once in `interval` seconds. So a kind without a definition costs no flood of requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from app.errors import ApiError
from app.kube.asking import Requests
from app.kube.client import KubeClient
from app.kube.names import check_dns_label, check_dns_subdomain
from app.kube.resources import Resource, path_of
from app.kube.retry import if_there
from app.wire import JSON

INTERVAL = 5.0
_KEPT = 512
"""Groups and versions that are kept: users name them, so their number needs a bound."""


class _Served(NamedTuple):
    """The resources of a group and version by kind, none where it is not served, and when they were read."""

    kinds: Mapping[str, Resource]
    read: float


class Discovery:
    """`clock` counts seconds. A request is shared by all who wait for it."""

    def __init__(
        self, client: KubeClient, *, interval: float = INTERVAL, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client, self._interval, self._clock = client, interval, clock
        self._served: dict[str, _Served] = {}
        self._requests: Requests[_Served | ApiError] = Requests()

    async def resource_of(self, api_version: str, kind: str) -> Resource | None:
        """The resource, None where the API server serves no such kind. Raises ApiError where it cannot be asked."""
        known = self._served.get(api_version)
        if known is not None and (kind in known.kinds or self._clock() - known.read < self._interval):
            return known.kinds.get(kind)
        path = _path(api_version)
        if path is None:
            return None
        outcome = await self._requests.answer(api_version, partial(self._read, self._served, api_version, path))
        if isinstance(outcome, ApiError):
            raise ApiError(str(outcome), status=outcome.status, reason=outcome.reason, delay=outcome.delay)
        return outcome.kinds.get(kind)

    def forget(self) -> None:
        """Read everything again when it is asked for: a definition has changed."""
        self._served = {}  # requests under way keep the old one
        self._requests.forget()

    async def _read(self, known: dict[str, _Served], api_version: str, path: str) -> _Served | ApiError:
        """What is served, and from now on known. Faults are returned: each who waits raises one of its own."""
        try:
            answer = await if_there(self._client.get_path(path))
        except ApiError as error:
            return error
        served = _Served(_kinds(api_version, answer or {}), self._clock())
        known.pop(api_version, None)
        while len(known) >= _KEPT:
            del known[next(iter(known))]
        known[api_version] = served
        return served


def _path(api_version: str) -> str | None:
    """Where the list is, None for what cannot be a group and version: users name them."""
    group, slash, version = api_version.rpartition("/")
    if bool(slash) != bool(group):
        return None
    try:
        check_dns_label(version)
        if group:
            check_dns_subdomain(group)
    except ValueError:
        return None
    return path_of(("apis", group, version) if group else ("api", version))


def _kinds(api_version: str, answer: JSON) -> dict[str, Resource]:
    """The resources by kind; of several with one kind the first. Subresources have kinds too, and are left out."""
    group, _, version = api_version.rpartition("/")
    found: dict[str, Resource] = {}
    for entry in answer.get("resources") or []:
        name, kind = entry.get("name", ""), entry.get("kind", "")
        if name and "/" not in name:
            found.setdefault(kind, Resource(group, version, name, kind, namespaced=bool(entry.get("namespaced"))))
    return found
