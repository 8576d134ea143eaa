"""Runs injectors and checks over one request and folds what they plan into one `Decision`.

Injectors come first and share one `Plan`; checks see the request as it came. The first denial ends the chain. Nearly
every review is decided from caches: an injector or check returns an awaitable only if it must wait, so that a decision
without waiting costs no coroutine and no iteration of the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from app.admission.patch import Patch
from app.admission.pods import Pod
from app.admission.review import Decision, Request
from app.errors import Denied
from app.text import MESSAGE, cut


@dataclass(slots=True)
class Plan:
    """What the injectors of one review want.

    `audit` says for each kind of what was injected what it was, and what asked for it (`audit_text` cuts it).
    `injected` counts it by kind ("resource", "node-selector", "volume" …) for the metric; `reason` is the CamelCase
    word of the outcome, set by the injector or check that has one ("OptedOut", "Injected"). `keep` is set to False by
    an injector that reads more than `app.admission.memo` takes for the inputs of a decision, or a volatile cache.
    """

    patch: Patch = field(default_factory=Patch)
    warnings: list[str] = field(default_factory=list)
    audit: dict[str, str] = field(default_factory=dict)
    injected: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    message: str = ""
    keep: bool = True

    def skip(self, reason: str, message: str) -> None:
        """Nothing is injected, for this reason; an earlier outcome keeps its word."""
        self.reason = self.reason or reason
        self.message = self.message or message

    def count(self, kind: str, amount: int = 1) -> None:
        self.injected[kind] = self.injected.get(kind, 0) + amount


class Injector(Protocol):
    """Plans a mutation. Raises Denied where the user must act, Transient where Berth cannot decide."""

    name: str

    def inject(self, request: Request, plan: Plan) -> Awaitable[None] | None: ...


class PodInjector(Protocol):
    """Plans for a Pod that is to be created in a namespace ("" where that is not known), as an `Injector` does."""

    def inject_pod(self, pod: Pod, *, namespace: str, plan: Plan) -> Awaitable[None] | None: ...


class Check(Protocol):
    """Raises Denied with all violations in one message; may add warnings to the plan."""

    def check(self, request: Request, plan: Plan) -> Awaitable[None] | None: ...


_LISTED = 50
_Part = Callable[[Request, Plan], Awaitable[None] | None]


class Reviewed(NamedTuple):
    """A review that is decided. It may be awaited, as the coroutine that `Chain.review` returns otherwise."""

    decision: Decision
    plan: Plan

    def __await__(self) -> Generator[None, None, Reviewed]:
        yield from ()
        return self


class Chain:
    """The injectors and checks behind one path.

    Requests for `exempt_namespaces` (kube-system, our own) are allowed untouched, whatever the selectors of the
    webhook configuration say: a webhook must never stop the cluster from healing itself.
    """

    def __init__(
        self,
        *,
        injectors: Sequence[Injector] = (),
        checks: Sequence[Check] = (),
        exempt_namespaces: frozenset[str] = frozenset(),
    ) -> None:
        self._parts = (*(injector.inject for injector in injectors), *(check.check for check in checks))
        self._exempt = exempt_namespaces

    def review(self, request: Request) -> Reviewed | Coroutine[Any, Any, Reviewed]:
        """Decide one request: the result itself, or a coroutine where something must be waited for.

        Raises Transient (and only that) where no decision can be made.
        """
        plan = Plan()
        if request.namespace in self._exempt:
            plan.skip("ExemptNamespace", f"namespace {request.namespace} is exempt from injection")
            return Reviewed(_allow(plan), plan)
        parts = iter(self._parts)
        try:
            for part in parts:
                waiting = part(request, plan)
                if waiting is not None:
                    return _finish(waiting, parts, request, plan)
        except Denied as denial:
            return Reviewed(_deny(denial, plan), plan)
        return Reviewed(_allow(plan), plan)


async def _finish(waiting: Awaitable[None], rest: Iterator[_Part], request: Request, plan: Plan) -> Reviewed:
    """The review from where it has to wait, with the `rest` of the parts."""
    try:
        await waiting
        for part in rest:
            following = part(request, plan)
            if following is not None:
                await following
    except Denied as denial:
        return Reviewed(_deny(denial, plan), plan)
    return Reviewed(_allow(plan), plan)


def _allow(plan: Plan) -> Decision:
    reason = plan.reason or "Allowed"
    audit = plan.audit if plan.audit or not plan.reason else {"decision": reason}
    return Decision(
        allowed=True,
        reason=reason,
        message=plan.message,
        operations=plan.patch.operations,
        warnings=plan.warnings,
        audit_annotations=audit,
    )


def _deny(denial: Denied, plan: Plan) -> Decision:
    return Decision(
        allowed=False,
        reason=denial.reason,
        message=str(denial),
        code=denial.code,
        warnings=plan.warnings,
        audit_annotations={"decision": denial.reason, "message": audit_text([str(denial)])},
    )


def refuse(problems: Sequence[str], *, reason: str, what: str = "") -> None:
    """Raise Denied with `what` and the first fifty problems, and how many more there are; nothing without any."""
    if problems:
        raise Denied(what + "; ".join(shown(problems)), reason=reason)


def shown(problems: Sequence[str]) -> list[str]:
    """The first fifty, and how many more there are."""
    rest = len(problems) - _LISTED
    return [*problems[:_LISTED], *([f"and {rest} more problems"] if rest > 0 else [])]


def audit_text(parts: Iterable[str]) -> str:
    """The value of an audit annotation: short, for the log of an API server is dear."""
    return cut("; ".join(parts), MESSAGE)
