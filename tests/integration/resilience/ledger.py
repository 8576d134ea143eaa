"""What an API server is asked to write, by whom, and who held the Lease then: the proof that writers never overlap.

The sandbox handles a request in one event loop, so that "the holder when the server took it" is a plain fact here.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

from app.devtools.sandbox.api.apiserver import ApiServer
from app.devtools.sandbox.server import Cluster
from app.kube.resources import LEASES

JSON = dict[str, Any]
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
TALE = frozenset({"events"})
"""They say what was, and may be told late; nobody acts on them."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request to write; `version` is the cluster's when it came in, `holder` the user who held the Lease then."""

    user: str
    what: str
    version: int
    holder: str
    accepted: bool


@dataclass(frozen=True, slots=True)
class Term:
    """One state of the Lease as it was stored."""

    version: int
    user: str
    holder: str
    transitions: int
    acquired: datetime
    renewed: datetime


@dataclass
class Ledger:
    """Every write of `users` (prefix) on one cluster; attach it before any of them connects."""

    cluster: Cluster
    lease: tuple[str, str]
    prefix: str
    requests: list[Request] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    """Users whose requests to write are on their way for as long as their event is not set."""

    def attach(self, monkeypatch: pytest.MonkeyPatch) -> Ledger:
        answer = ApiServer._resource
        ledger = self

        async def recorded(server: ApiServer, request: Any, target: Any, user: Any, *rest: Any) -> Any:
            verb = VERBS.get(request.method, "")
            ours = server._state is ledger.cluster.state and user.username.startswith(ledger.prefix)
            if not ours or not verb or target.plural in TALE:
                return await answer(server, request, target, user, *rest)
            if user.username in ledger.held:
                await ledger.held[user.username].wait()
            version, holder, accepted = ledger.cluster.storage.version, ledger.holder, False
            try:
                reply = await answer(server, request, target, user, *rest)
                accepted = True
            finally:
                ledger.note(user.username, verb, target, version, holder, accepted=accepted)
            return reply

        monkeypatch.setattr(ApiServer, "_resource", recorded)
        return self

    def note(self, user: str, verb: str, target: Any, version: int, holder: str, *, accepted: bool) -> None:
        if target.plural == LEASES.plural:
            if accepted:
                self._term(user)
            return
        name = "/".join(part for part in (target.plural, target.namespace, target.name, target.subresource) if part)
        self.requests.append(Request(user, f"{verb} {name}", version, holder, accepted))

    def _term(self, user: str) -> None:
        lease = self._stored()
        if lease is None:
            return
        spec = lease["spec"]
        identity = spec.get("holderIdentity") or ""
        if identity:
            self.owners.setdefault(identity, user)
        self.terms.append(
            Term(
                int(lease["metadata"]["resourceVersion"]),
                user,
                identity,
                spec["leaseTransitions"],
                datetime.fromisoformat(spec["acquireTime"]),
                datetime.fromisoformat(spec["renewTime"]),
            )
        )

    def _stored(self) -> JSON | None:
        return self.cluster.storage.get((LEASES.group, LEASES.plural), *self.lease)

    @property
    def holder(self) -> str:
        """The user who holds the Lease now; "" where nobody does."""
        lease = self._stored()
        return self.owners.get(lease["spec"].get("holderIdentity") or "", "") if lease is not None else ""

    def writes_of(self, user: str) -> list[Request]:
        return [request for request in self.requests if request.user == user and request.accepted]

    def strays(self) -> list[Request]:
        """Requests, accepted or not, of somebody who did not hold the Lease when the server took them."""
        return [request for request in self.requests if request.user != request.holder]

    def takeovers(self) -> Iterator[tuple[Term, Term]]:
        """The last state under one holder and the first under the next, who did not get it as a gift."""
        for before, after in zip(self.terms, self.terms[1:], strict=False):
            if before.holder and after.holder and before.holder != after.holder:
                yield before, after

    def prove(self) -> None:
        """The versions of the Lease and of all writes are of one order: each write lies in a term of its author."""
        strays = self.strays()
        assert not strays, (len(strays), strays[:20])
        versions = [term.version for term in self.terms]
        assert versions == sorted(versions)
        for before, after in self.takeovers():
            assert after.transitions == before.transitions + 1, (before, after)
        for request in self.requests:
            term = self.terms[bisect_right(versions, request.version) - 1]
            assert term.version <= request.version, request
            assert self.owners.get(term.holder) == request.user, (request, term)
