"""Runs injectors and checks over one request and folds what they plan into one `Decision`.

Injectors come first and share one `MutationPlan`; checks see the request as it came. The first denial ends the chain.
Nearly every review is decided from caches: an injector or check returns an awaitable only if it must wait, so that a
decision without waiting costs no coroutine and no iteration of the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, Protocol

import msgspec

from app.admission.decision import Decision, encoded
from app.admission.patch import Patch, Steps
from app.admission.pods import Pod
from app.admission.review import Request
from app.errors import Denied
from app.kube.asking import asking_once
from app.pace import Pace, pacing
from app.text import abridged


class Finished(msgspec.Struct, frozen=True):
    """A plan that was made once for all reviews that are alike in what it depends on. Nothing in it is ever changed.

    `decision` is what follows where nothing is added; `audit` is that of the plan.
    """

    decision: Decision
    reason: str
    message: str
    audit: Mapping[str, str]
    ensures: frozenset[str] = frozenset()
    reasons: Sequence[str] = ()


class MutationPlan:
    """What the injectors of one review want.

    `audit` says for each kind of what was injected what it was, and what asked for it (`audit_text` cuts it).
    `injected` counts it by kind ("resource", "node-selector", "volume" …) for the metric; `reason` is the CamelCase
    word of the outcome, set by the injector or check that has one ("OptedOut", "Injected"). `keep` is set to False by
    an injector that reads more than `app.admission.memo` takes for the inputs of a decision, or a volatile cache.
    `networks` are those of the Pod (`app.networks.model.PodNetworks`), for injectors behind the one that finds them.

    Most plans are what was planned before for reviews alike. So a plan is `finished`, and has members of its own from
    when one of them is first asked for.
    """

    __slots__ = ("_outcome", "audit", "finished", "injected", "keep", "networks", "patch", "warnings")
    patch: Patch
    warnings: list[str]
    audit: dict[str, str]
    injected: dict[str, int]
    finished: Finished | None
    keep: bool
    networks: Any
    _outcome: tuple[str, str]

    def __init__(self) -> None:
        self.finished = UNTOUCHED
        self.keep = True
        self.networks = None

    def __getattr__(self, name: str) -> Any:
        """Makes the members: Python calls this for a slot that has no value."""
        finished = self.finished
        if finished is None:
            raise AttributeError(name)
        self.finished, decision = None, finished.decision
        self.patch = Patch(Steps(decision.operations, finished.ensures), finished.reasons)
        self.warnings, self.audit = list(decision.warnings), dict(finished.audit)
        self.injected, self._outcome = dict(decision.injected), (finished.reason, finished.message)
        return getattr(self, name)

    @property
    def reason(self) -> str:
        return self._outcome[0]

    @reason.setter
    def reason(self, word: str) -> None:
        self._outcome = word, self.message

    @property
    def message(self) -> str:
        return self._outcome[1]

    @message.setter
    def message(self, text: str) -> None:
        self._outcome = self.reason, text

    def decision(self) -> Decision:
        """The decision where nothing was denied."""
        if self.finished is not None:
            return self.finished.decision
        return Decision(
            allowed=True,
            reason=self.reason or "Allowed",
            message=self.message,
            operations=self.patch.operations,
            warnings=self.warnings and shown(self.warnings, called="warnings"),
            audit_annotations=self.audit or _audit_of(self.reason),
            injected=self.injected,
        )

    def finish(self) -> Finished:
        """All of it, for plans that shall be equal to it."""
        if self.finished is not None:
            return self.finished
        steps, reasons = self.patch.steps(), tuple(self.patch.reasons)
        decision = msgspec.structs.replace(
            self.decision(),
            operations=list(steps.operations),
            warnings=shown(self.warnings, called="warnings"),
            audit_annotations=dict(self.audit) or _audit_of(self.reason),
            injected=dict(self.injected),
        )
        return Finished(encoded(decision), self.reason, self.message, dict(self.audit), steps.ensures, reasons)

    def skip(self, reason: str, message: str) -> None:
        """Nothing is injected, for this reason; an earlier outcome keeps its word."""
        if self.finished is UNTOUCHED:
            self.finished = _skipped(reason, message)
            return
        self.reason = self.reason or reason
        self.message = self.message or message

    def count(self, kind: str, amount: int = 1) -> None:
        self.injected[kind] = self.injected.get(kind, 0) + amount


class Injector(Protocol):
    """Plans a mutation. Raises Denied where the user must act, Transient where Berth cannot decide."""

    name: str

    def inject(self, request: Request, plan: MutationPlan) -> Awaitable[None] | None: ...


class PodInjector(Protocol):
    """Plans for a Pod that is to be created in a namespace ("" where that is not known), as an `Injector` does."""

    def inject_pod(self, pod: Pod, *, namespace: str, plan: MutationPlan) -> Awaitable[None] | None: ...


class Check(Protocol):
    """Raises Denied with all violations in one message; may add warnings to the plan."""

    def check(self, request: Request, plan: MutationPlan) -> Awaitable[None] | None: ...


MOST_LOOKUPS = 640
"""Objects and rights that one review asks an API server about: ten for each kind that an AppWrapper may have. Nothing
else needs so many.
"""
_LISTED = 50
_MOST = 64 * 1024
"""Characters of a whole denial."""
_LINE = 1024
"""Characters of one problem or warning; what it quotes was cut before."""
_Part = Callable[[Request, MutationPlan], Awaitable[None] | None]


class Reviewed(NamedTuple):
    """A review that is decided. It may be awaited, as the coroutine that `Chain.review` returns otherwise."""

    decision: Decision
    plan: MutationPlan

    def __await__(self) -> Generator[None, None, Reviewed]:
        yield from ()
        return self


class Chain:
    """The injectors and checks behind one path.

    What injectors decide about a Pod depends on nothing but: operation, kind, resource, subresource and namespace of
    the request; whether a kubelet asks (`Request.is_static_pod`); labels, annotations and spec of the Pod, and its own
    namespace where the request has none; the settings; the contents of `ReviewCaches.all`, and what a lookup reads
    where a cache lacks it. Names, uids, owners and dry runs change nothing. About other kinds, two read more:
    `appwrapper-defaults` who asks, `pod-templates` the whole object. Checks may read all of a request.

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

    def review(self, request: Request, pace: Pace | None = None) -> Reviewed | Coroutine[Any, Any, Reviewed]:
        """Decide one request: the result itself, or a coroutine where something must be waited for.

        Each injector and check does its work before it waits. With a `pace` those behind one that waits do it in
        slices, and each does so what it does by `at_pace` afterwards. Raises Transient (and only that) where no
        decision can be made.
        """
        plan = MutationPlan()
        if request.namespace in self._exempt:
            plan.skip("ExemptNamespace", f"namespace {request.namespace} is exempt from injection")
            return Reviewed(plan.decision(), plan)
        parts = iter(self._parts)
        try:
            for part in parts:
                waiting = part(request, plan)
                if waiting is not None:
                    return _finish(waiting, parts, request, plan, pace)
        except Denied as denial:
            return Reviewed(_deny(denial, plan), plan)
        finished = plan.finished
        return Reviewed(plan.decision() if finished is None else finished.decision, plan)


async def _finish(
    waiting: Awaitable[None], rest: Iterator[_Part], request: Request, plan: MutationPlan, pace: Pace | None
) -> Reviewed:
    """The review from where it has to wait, with the `rest` of the parts."""
    try:
        with asking_once(MOST_LOOKUPS), pacing(pace):
            await waiting
            for part in rest:
                following = part(request, plan) if pace is None else await pace.in_slices(partial(part, request, plan))
                if following is not None:
                    await following
    except Denied as denial:
        return Reviewed(_deny(denial, plan), plan)
    return Reviewed(plan.decision(), plan)


def _audit_of(reason: str) -> dict[str, str]:
    """What is audited where nothing else is."""
    return {"decision": reason} if reason else {}


def _finished(reason: str, message: str) -> Finished:
    """A plan without any operation."""
    decision = Decision(
        True, reason or "Allowed", message, operations=[], warnings=[], audit_annotations=_audit_of(reason)
    )
    return Finished(encoded(decision), reason, message, {})


UNTOUCHED = _finished("", "")
"""What a plan is in the beginning."""
_skipped = lru_cache(maxsize=64)(_finished)


def _deny(denial: Denied, plan: MutationPlan) -> Decision:
    return Decision(
        allowed=False,
        reason=denial.reason,
        message=abridged(str(denial), _MOST),
        code=denial.code,
        warnings=shown(plan.warnings, called="warnings"),
        audit_annotations={"decision": denial.reason, "message": audit_text([str(denial)])},
    )


def refuse(problems: Sequence[str], *, reason: str, what: str = "") -> None:
    """Raise Denied with `what` and the first problems, as `shown` has them; nothing without any."""
    if problems:
        raise Denied(what + "; ".join(shown(problems)), reason=reason)


def shown(problems: Sequence[str], *, called: str = "problems") -> list[str]:
    """The first fifty, each cut, and how many more there are."""
    rest = len(problems) - _LISTED
    lines = [abridged(problem, _LINE) for problem in problems[:_LISTED]]
    return [*lines, f"and {rest} more {called}"] if rest > 0 else lines


def audit_text(parts: Iterable[str]) -> str:
    """The value of an audit annotation: short, for the log of an API server is dear."""
    return abridged("; ".join(parts))
