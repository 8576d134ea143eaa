"""Events on Services: what is wrong with one, said once until it changes."""

from __future__ import annotations

from app.claims.services.addresses import Reason
from app.claims.services.model import (
    NETWORK,
    Problem,
    Service,
    Wish,
    not_attached,
    not_found,
    subnets_unknown,
)
from app.claims.services.planning import Plan
from app.kube.events import EventRecorder, Regarding
from app.kube.resources import SERVICES
from app.kube.store import Key

_NAMED = 3
"""Pods that a message names."""


class Saying:
    """`events` may be None: then nothing is written."""

    def __init__(self, events: EventRecorder | None) -> None:
        self._events = events
        self._said: dict[Key, dict[str, tuple[str, str]]] = {}
        """The UID and the message, by Service and reason."""

    def of_problem(self, service: Service, problem: Problem) -> None:
        self._say(service, {problem.reason: problem.message})

    def of_plan(self, service: Service, wish: Wish, plan: Plan, *, there: bool, refused: str = "") -> list[str]:
        """The reasons of what is wrong now.

        `there` is whether the attachment exists, if the Service names one; `refused` is what the API server says of a
        slice of the plan.
        """
        found = {"EndpointSliceRefused": refused} if refused else {}
        problems = [] if there else [not_found(wish.network)]
        if named := _named(plan, "NotAttached"):
            problems.append(not_attached(wish, named))
        if there and (named := _named(plan, "NoSubnets")):
            problems.append(subnets_unknown(wish.network, named))
        found |= {problem.reason: problem.message for problem in problems}
        if named := _named(plan, "NotOfDriver"):
            text = f"the network data of {wish.device} is a copy of the network status of Pods: {named}"
            fix = f"name the attachment by annotation {NETWORK}, which says which addresses are of the network"
            found["NetworkDataNotOfDriver"] = f"{text}; {fix}"
        if named := _named(plan, "OutsideNetwork"):
            found["AddressesOutsideNetwork"] = _outside(wish, named)
        self._say(service, found)
        return list(found)

    def forget(self, service: Key) -> None:
        self._said.pop(service, None)

    def _say(self, service: Service, found: dict[str, str]) -> None:
        before = self._said.get(service.key, {})
        now = {reason: (service.uid, message) for reason, message in found.items()}
        for reason, (uid, message) in now.items():
            if self._events is not None and before.get(reason) != (uid, message):
                regarding = Regarding.of(SERVICES, service.key, uid)
                self._events.record(regarding, "Warning", reason=reason, message=message)
        if now:
            self._said[service.key] = now
        else:
            self.forget(service.key)


def _outside(wish: Wish, named: str) -> str:
    if wish.device is not None:
        text = f"all addresses of {wish.device} are in the ranges that an administrator excludes: {named}"
        return f"{text}; correct the IPAM of the driver, or --excluded-ranges of the controller"
    text = f"the network status of Pods has addresses outside the subnets of network {wish.network}: {named}"
    return f"{text}; correct the IPAM of the attachment, or who writes the status"


def _named(plan: Plan, reason: Reason) -> str:
    """The first Pods that are no endpoints for this reason, "" for none."""
    odd = [name for name, why in plan.skipped if why == reason]
    return ", ".join(odd[:_NAMED]) + (" and others" if len(odd) > _NAMED else "")
