"""The health of what an AppWrapper has deployed: Pods counted by podSet, and the outcomes of its objects. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from app.appwrappers.controller.outcomes import Outcome, Pod
from app.appwrappers.options import AppWrapperOptions
from app.text import several


@dataclass(slots=True)
class Count:
    """Pods of one podSet. A Pod that is being deleted counts where it is pending or has ended."""

    expected: int = 0
    pending: int = 0
    running: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0

    def add(self, other: Count) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def active(self) -> int:
        return self.pending + self.running

    @property
    def said(self) -> str:
        return f"{self.pending} pods pending; {self.running} pods running; {self.succeeded} pods succeeded"


@dataclass(slots=True)
class Health:
    """`failed` are Pods that nothing repairs; `terminal` says why a retry is pointless, "" where it is not.

    `cause` is the first Pod that has failed, and `unready` the first that is not ready, or that is missing, each with
    the reason. `endings` are the outcomes of components that have ended, by their number. `evicted` are names of nodes.
    `reclaimable` is how many Pods of each podSet are not needed any more.
    """

    total: Count = field(default_factory=Count)
    pod_sets: list[Count] = field(default_factory=list)
    failed_components: list[str] = field(default_factory=list)
    succeeded: bool = False
    ready: bool = False
    failed: int = 0
    terminal: str = ""
    cause: str = ""
    unready: str = ""
    endings: dict[int, Outcome] = field(default_factory=dict)
    evicted: tuple[str, ...] = ()
    reclaimable: tuple[int, ...] = ()

    def with_cause(self, message: str) -> str:
        """A message with the first Pod that has failed, unless it names that already."""
        return f"{message}: {self.cause}" if self.cause and self.cause not in message else message


def health_of(
    expected: Sequence[Sequence[int]],
    outcomes: Sequence[Outcome],
    pods: Sequence[Pod],
    options: AppWrapperOptions,
    unhealthy: Mapping[str, frozenset[str]],
) -> Health:
    """`expected` are the replicas of the podSets of each component, `unhealthy` the resources not to be used, by node.

    Pods that do not say their podSet, as those of another controller do not, are counted all together.
    """
    flat = list(chain.from_iterable(expected))
    counts = [Count(expected=number) for number in flat]
    others = Count()
    known = all(0 <= pod.pod_set < len(flat) for pod in pods)
    for pod in pods:
        (counts[pod.pod_set] if 0 <= pod.pod_set < len(flat) else others).add(_counted(pod, options))
    health = Health(pod_sets=counts)
    for count in (*counts, others):
        health.total.add(count)
    left = iter(counts)
    bounds = [list(islice(left, len(replicas))) for replicas in expected]
    # The Pods of an object that has ended and is gone went with it.
    for replicas, outcome in zip(expected, outcomes, strict=True):
        health.total.expected -= sum(replicas) if outcome.gone and outcome.ending == "succeeded" else 0
    health.failed_components = [
        _what_failed(outcome) for outcome in outcomes if outcome.ending == "failed" and outcome.ends
    ]
    health.succeeded = _succeeded(bounds, outcomes, health.total, known=known)
    health.failed = _failed(bounds, outcomes, health.total, known=known)
    health.terminal = _terminal(outcomes, pods, options)
    health.failed = health.failed or int(bool(health.terminal))
    failed = sorted((pod for pod in pods if _is_failed(pod, options)), key=lambda pod: (pod.ended or "~", pod.key))
    health.cause = _what_is_wrong(failed[0]) if failed else ""
    health.unready = _unready(bounds, outcomes, pods)
    health.endings = dict(_endings(bounds, outcomes, options, known=known))
    health.ready = _ready(bounds, outcomes, health.total, known=known)
    health.evicted = tuple(
        sorted({pod.node for pod in pods if _runs(pod) and pod.resources & unhealthy.get(pod.node, frozenset())})
    )
    health.reclaimable = tuple(chain.from_iterable(map(_reclaimable, bounds, outcomes)))
    return health


def _runs(pod: Pod) -> bool:
    return pod.phase == "Running" and not pod.deleting


def _is_failed(pod: Pod, options: AppWrapperOptions) -> bool:
    return pod.phase == "Failed" or (_runs(pod) and 0 <= options.restart_limit < pod.restarts)


def _counted(pod: Pod, options: AppWrapperOptions) -> Count:
    if _is_failed(pod, options):
        return Count(failed=1)
    if pod.phase == "Running":
        return Count(running=int(not pod.deleting), ready=int(pod.ready and not pod.deleting))
    return Count(pending=int(pod.phase == "Pending"), succeeded=int(pod.phase == "Succeeded"))


def _succeeded(bounds: Sequence[Sequence[Count]], outcomes: Sequence[Outcome], total: Count, *, known: bool) -> bool:
    """Every object that has an end, or Pods, has succeeded; and there is one of these."""
    if any(outcome.ends and outcome.ending != "succeeded" for outcome in outcomes):
        return False
    pairs = [(count, outcome) for counts, outcome in zip(bounds, outcomes, strict=True) for count in counts]
    rest = [(count, outcome.ending) for count, outcome in pairs if not outcome.ends and count.expected > 0]
    if rest and not known:
        return total.succeeded >= total.expected and not total.active and not total.failed
    if not all(_is_done(count, remembered=ending == "succeeded") for count, ending in rest):
        return False
    return bool(rest) or any(outcome.ends for outcome in outcomes)


def _is_done(count: Count, *, remembered: bool = False) -> bool:
    """Whether all Pods of a podSet have succeeded; with `remembered` they had, and may be gone."""
    return (remembered or count.succeeded >= count.expected) and not count.active and not count.failed


def _endings(
    bounds: Sequence[Sequence[Count]], outcomes: Sequence[Outcome], options: AppWrapperOptions, *, known: bool
) -> Iterator[tuple[int, Outcome]]:
    for index, (counts, outcome) in enumerate(zip(bounds, outcomes, strict=True)):
        if outcome.ending:
            terminal = outcome.terminal or any(map(options.is_terminal, outcome.exit_codes))
            yield index, replace(outcome, terminal=terminal, message=_what_failed(outcome))
        elif known and not outcome.ends and any(count.expected for count in counts) and all(map(_is_done, counts)):
            # Objects of other kinds have ended with their Pods.
            yield index, replace(outcome, ending="succeeded")


def _terminal(outcomes: Sequence[Outcome], pods: Sequence[Pod], options: AppWrapperOptions) -> str:
    """Which exit code makes a retry pointless, and by which annotation; "" where none does."""
    codes = [code for pod in pods if _is_failed(pod, options) for code in pod.exit_codes]
    codes += [code for outcome in outcomes if outcome.ending == "failed" for code in outcome.exit_codes]
    reason = next((options.why_terminal(code) for code in codes if options.is_terminal(code)), "")
    return reason or ("by its exit code" if any(outcome.terminal for outcome in outcomes) else "")


def _what_failed(outcome: Outcome) -> str:
    """The object, unless what is remembered of it names it already."""
    named = outcome.what and not outcome.message.startswith(outcome.what)
    return ": ".join(part for part in (outcome.what if named else "", outcome.message) if part)


def _what_is_wrong(pod: Pod) -> str:
    return f"Pod {pod.key[1]}: {pod.trouble}" if pod.trouble else f"Pod {pod.key[1]}"


def _unready(bounds: Sequence[Sequence[Count]], outcomes: Sequence[Outcome], pods: Sequence[Pod]) -> str:
    """The first Pod that is not ready, else the first object that has too few Pods."""
    waiting = [pod for pod in pods if pod.phase in ("Pending", "Running") and not pod.ready and not pod.deleting]
    if waiting:
        return _what_is_wrong(min(waiting, key=lambda pod: (not pod.trouble, pod.key)))
    for counts, outcome in zip(bounds, outcomes, strict=True):
        present = sum(count.active + count.succeeded for count in counts)
        expected = sum(count.expected for count in counts)
        if not outcome.ending and present < expected:
            return f"{outcome.what or 'an object'} has {present} of {several(expected, 'Pod')}"
    return ""


def _failed(bounds: Sequence[Sequence[Count]], outcomes: Sequence[Outcome], total: Count, *, known: bool) -> int:
    if not known:
        missing = total.expected - total.active - total.succeeded
        return total.failed if missing > 0 and not all(outcome.ends for outcome in outcomes) else 0
    return sum(
        count.failed
        for counts, outcome in zip(bounds, outcomes, strict=True)
        if not outcome.ends
        for count in counts
        if count.active + count.succeeded < count.expected
    )


def _ready(bounds: Sequence[Sequence[Count]], outcomes: Sequence[Outcome], total: Count, *, known: bool) -> bool:
    if not known:
        return total.ready + total.succeeded >= total.expected
    return all(
        outcome.ending == "succeeded" or count.ready + count.succeeded >= count.expected
        for counts, outcome in zip(bounds, outcomes, strict=True)
        for count in counts
    )


def _reclaimable(counts: Sequence[Count], outcome: Outcome) -> list[int]:
    if outcome.ending == "succeeded":
        return [count.expected for count in counts]
    if not outcome.ends:
        # Pods of which one has succeeded may be replaced by what made them.
        return [0 for _ in counts]
    if outcome.left is None or len(counts) != 1:
        return [0 for _ in counts]
    return [max(0, counts[0].expected - outcome.left)]
