"""Checks Pods that ask for cache ways or whose annotations are settings of RMD, where daemons serve them."""

from __future__ import annotations

from collections.abc import Callable

from app.admission.chain import Plan, refuse
from app.admission.reading import readable
from app.admission.review import Request, old_object, written_object
from app.rmd.admission.asking import Found, check_pod, too_late
from app.rmd.admission.hosts import Hosts
from app.wire import JSON

REASON = "InvalidCacheRequest"


class PodCheck:
    """Neutral to everything but Pods. `runtime` says whether RDT classes serve them; then no daemon does.

    A Pod that asks for cache ways and will never get a reservation is denied, or with `warns` admitted with a warning,
    as the operator has it. An update is checked for what it changes: containers cannot change, so that is annotations.
    `exempt` are namespaces whose Pods are not looked at.
    """

    def __init__(self, hosts: Hosts, *, runtime: Callable[[], bool], warns: bool, exempt: frozenset[str]) -> None:
        self._hosts, self._runtime, self._warns, self._exempt = hosts, runtime, warns, exempt

    def check(self, request: Request, plan: Plan) -> None:
        """Raises Denied with every problem."""
        if (request.kind.group, request.kind.kind) != ("", "Pod") or request.namespace in self._exempt:
            return
        pod = written_object(request, reason=REASON)
        if pod is None or request.is_static_pod(request.pod.metadata.annotations):
            return
        old = old_object(request, reason=REASON)
        found = readable(lambda: self._changes(pod, old), reason=REASON)
        plan.warnings += found.warnings
        if self._warns:
            plan.warnings += found.problems
        else:
            refuse(found.problems, reason=REASON)

    def _changes(self, pod: JSON, old: JSON | None) -> Found:
        if self._runtime():
            return Found(warnings=tuple(too_late(pod, old))) if old is not None else Found()
        found = check_pod(pod, self._hosts.most_ways)
        if old is None:
            return found
        before = check_pod(old, self._hosts.most_ways)
        return Found(_added(found.problems, before.problems), _added(found.warnings, before.warnings))


def _added(now: tuple[str, ...], before: tuple[str, ...]) -> tuple[str, ...]:
    """What was wrong before must not keep a controller from changing anything else."""
    known = set(before)
    return tuple(line for line in now if line not in known)
