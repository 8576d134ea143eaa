"""The health of what an AppWrapper has deployed: Pods counted by podSet, and the outcomes of its objects. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from app.appwrappers.controller.outcomes import Outcome
from app.appwrappers.controller.stored import Pod
from app.appwrappers.options import Options


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
    """`failed` are Pods that nothing repairs; `terminal` says that a retry is pointless. `evicted` are names of nodes.

    `reclaimable` is how many Pods of each podSet are not needed any more.
    """

    total: Count = field(default_factory=Count)
    pod_sets: list[Count] = field(default_factory=list)
    failed_components: list[str] = field(default_factory=list)
    succeeded: bool = False
    ready: bool = False
    failed: int = 0
    terminal: bool = False
    evicted: tuple[str, ...] = ()
    reclaimable: tuple[int, ...] = ()


def health_of(
    expected: Sequence[Sequence[int]],
    outcomes: Sequence[Outcome],
    pods: Sequence[Pod],
    options: Options,
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
    found = Health(pod_sets=counts)
    for count in (*counts, others):
        found.total.add(count)
    left = iter(counts)
    bounds = [list(islice(left, len(replicas))) for replicas in expected]
    found.failed_components = [outcome.message for outcome in outcomes if outcome.ending == "failed"]
    found.succeeded = _succeeded(bounds, outcomes, found.total, known=known)
    found.failed = _failed(bounds, outcomes, found.total, known=known)
    found.terminal = any(
        options.is_terminal(code) for pod in pods if _is_failed(pod, options) for code in pod.exit_codes
    )
    found.failed = found.failed or int(found.terminal)
    found.ready = _ready(bounds, outcomes, found.total, known=known)
    found.evicted = tuple(
        sorted({pod.node for pod in pods if _runs(pod) and pod.resources & unhealthy.get(pod.node, frozenset())})
    )
    found.reclaimable = tuple(chain.from_iterable(map(_reclaimable, bounds, outcomes)))
    return found


def _runs(pod: Pod) -> bool:
    return pod.phase == "Running" and not pod.deleting


def _is_failed(pod: Pod, options: Options) -> bool:
    return pod.phase == "Failed" or (_runs(pod) and 0 <= options.restart_limit < pod.restarts)


def _counted(pod: Pod, options: Options) -> Count:
    if _is_failed(pod, options):
        return Count(failed=1)
    if pod.phase == "Running":
        return Count(running=int(not pod.deleting), ready=int(pod.ready and not pod.deleting))
    return Count(pending=int(pod.phase == "Pending"), succeeded=int(pod.phase == "Succeeded"))


def _succeeded(bounds: Sequence[Sequence[Count]], outcomes: Sequence[Outcome], total: Count, *, known: bool) -> bool:
    """Every object that has an end, or Pods, has succeeded; and there is one of these."""
    if any(outcome.ends and outcome.ending != "succeeded" for outcome in outcomes):
        return False
    rest = [count for counts, outcome in zip(bounds, outcomes, strict=True) if not outcome.ends for count in counts]
    rest = [count for count in rest if count.expected > 0]
    if rest and not known:
        return total.succeeded >= total.expected and not total.active and not total.failed
    if any(count.succeeded < count.expected or count.active or count.failed for count in rest):
        return False
    return bool(rest) or any(outcome.ends for outcome in outcomes)


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
        # Only a Pod by itself has ended for good: what made other Pods may replace them.
        return [0 for _ in counts]
    if outcome.left is None or len(counts) != 1:
        return [0 for _ in counts]
    return [max(0, counts[0].expected - outcome.left)]
