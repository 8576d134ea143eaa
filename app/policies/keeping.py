"""What has to be written for a cluster to have the policies that are wanted, and what of it now. Pure.

The order keeps each Pod served: the webhook is called for Pods that policies serve, too, while these change, and
`SETTLED` seconds before and after. An API server takes up a policy and a condition each for itself, within a second or
two; it cannot be asked whether it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from app.kube.resources import (
    MUTATING_POLICIES,
    MUTATING_POLICY_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_POLICY_BINDINGS,
    Resource,
)
from app.policies.objects import CONDITION
from app.policies.terms import WEBHOOK
from app.wire import JSON

SETTLED = 5.0
"""Seconds after which all API servers have taken up what was written."""
UNREGISTERED = 60.0
"""Seconds for which policies wait for a webhook that is to serve their Pods, and is not registered."""
POLICIES = (MUTATING_POLICIES, VALIDATING_POLICIES)
KINDS = (*POLICIES, MUTATING_POLICY_BINDINGS, VALIDATING_POLICY_BINDINGS)
"""In the order in which they are written. They are deleted in the other one."""
BY_KIND = {resource.kind: resource for resource in KINDS}
_NARROWING = frozenset({"matchResources", "paramRef", "paramKind", "excludeResourceRules"})
"""Fields that are never generated, and that an API server does not fill in."""


class Ident(NamedTuple):
    """An object among those that are generated."""

    kind: str
    name: str

    @property
    def resource(self) -> Resource:
        return BY_KIND[self.kind]

    @property
    def subject(self) -> str:
        return f"{self.kind} {self.name}"


def ident_of(obj: JSON) -> Ident:
    return Ident(obj["kind"], obj["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class Difference:
    """`missing` and `stale` are to be written, `extra` is to be deleted."""

    missing: tuple[JSON, ...] = ()
    stale: tuple[JSON, ...] = ()
    extra: tuple[Ident, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.stale or self.extra)


def difference(wanted: Sequence[JSON], installed: Mapping[Ident, JSON]) -> Difference:
    """What is there, by `Ident`, against what is generated. What an API server fills in is no difference."""
    names = [ident_of(obj) for obj in wanted]
    extra = sorted((ident for ident in installed if ident not in names), key=_deleted)
    stale = [
        obj
        for ident, obj in zip(names, wanted, strict=True)
        if ident in installed and not _is_as(installed[ident], obj)
    ]
    missing = [obj for ident, obj in zip(names, wanted, strict=True) if ident not in installed]
    return Difference(tuple(missing), tuple(stale), tuple(extra))


def _is_as(there: JSON, wanted: JSON) -> bool:
    owners = wanted["metadata"].get("ownerReferences")
    owned = owners is None or there["metadata"].get("ownerReferences") == owners
    return owned and _says(there.get("spec"), wanted["spec"])


def _deleted(ident: Ident) -> int:
    """Bindings go first: a policy without one does nothing."""
    return -[resource.kind for resource in KINDS].index(ident.kind)


def _says(there: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return (
            isinstance(there, dict)
            and all(key in there and _says(there[key], value) for key, value in wanted.items() if value not in ({}, []))
            and not _NARROWING & (there.keys() - wanted.keys())
        )
    if isinstance(wanted, list):
        return isinstance(there, list) and len(there) == len(wanted) and all(map(_says, there, wanted))
    return bool(there == wanted)


def condition_of(configuration: JSON | None) -> str:
    """The condition by which the webhook for Pods leaves those that policies serve; "" where it has none."""
    conditions = entry_of(configuration).get("matchConditions") or ()
    return next((condition["expression"] for condition in conditions if condition.get("name") == CONDITION), "")


def entry_of(configuration: JSON | None) -> JSON:
    """The webhook for Pods of a MutatingWebhookConfiguration, {} where there is none."""
    entries: list[JSON] = (configuration or {}).get("webhooks") or []
    return next((entry for entry in entries if entry.get("name") == WEBHOOK), {})


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be done now, in this order; then it is looked again, `again` seconds later, unless that is 0.

    `condition` is the expression that the webhook is to have, "" for none, None to leave it.
    """

    condition: str | None = None
    change: Difference = Difference()
    again: float = 0.0


def next_step(
    change: Difference, *, condition: str, wanted: str, open_for: float, current_for: float, fresh: bool
) -> Step:
    """The next step.

    `condition` is what the webhook has, `wanted` what it is to have when the policies are in force. It is called for
    all Pods that ask for `open_for` seconds, and the policies are as wanted for `current_for`; `fresh` says that none
    is there yet.
    """
    if change:
        if condition:
            return Step(condition="", again=SETTLED)
        if not fresh and open_for < SETTLED:
            return Step(again=SETTLED - open_for)
        return Step(change=change, again=SETTLED if wanted else 0.0)
    if condition == wanted:
        return Step()
    if wanted and current_for < SETTLED:
        return Step(again=SETTLED - current_for)
    return Step(condition=wanted)
