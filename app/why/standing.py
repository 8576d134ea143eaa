"""The verdict on an object of a kind that no judge knows: by what all objects of Kubernetes have. Pure."""

from __future__ import annotations

from datetime import datetime

from app.doctor import commands, objects
from app.doctor.catalog import plain
from app.doctor.finalizers import whose
from app.doctor.objects import Object
from app.text import moment
from app.why.model import Verdict, broken, fine, stuck, waits

_PATIENCE = 600.0
"""Seconds in which an object goes after its grace period."""
_GOOD = ("Ready", "Available", "Active", "Admitted", "Established", "Accepted")
"""Conditions that an object which works has as True, as far as it has them."""


def by_conditions(it: Object, now: datetime) -> Verdict:
    """By its deletion and its conditions."""
    metadata = it.json["metadata"]
    if (late := objects.overdue(it.json, now)) is not None:
        return _deleted(it, late)
    for kind in _GOOD:
        condition = objects.condition(it.json, kind)
        if condition.get("status") in ("False", "Unknown"):
            because = plain(condition.get("message") or condition.get("reason") or "it says no reason")
            since = moment(condition.get("lastTransitionTime"))
            return broken(f"{kind} is {condition['status']}", since=since, because=(because,), more=describe(it))
        if condition:
            return fine(f"{kind} is True", since=moment(condition.get("lastTransitionTime")))
    return fine("is there" if metadata.get("uid") else "would be created")


def _deleted(it: Object, late: float) -> Verdict:
    """The controllers whose finalizers it has end the deletion; of a Namespace, its conditions say what is left."""
    metadata, since = it.json["metadata"], moment(it.json["metadata"]["deletionTimestamp"])
    held = [*(metadata.get("finalizers") or ()), *(objects.spec(it.json).get("finalizers") or ())]
    left = [
        plain(item.get("message") or item["type"])
        for item in objects.status(it.json).get("conditions") or ()
        if str(item.get("type")).startswith("Namespace") and item.get("status") == "True"
    ]
    because = (*left, *(f"finalizer {name} holds it" for name in held))
    verdict = stuck if late > _PATIENCE else waits
    next_step = plain(whose(held)) if late > _PATIENCE and not left else ""
    return verdict("is being deleted", since=since, because=because, next=next_step, more=describe(it))


def describe(it: Object) -> str:
    """The command of kubectl that shows the rest."""
    return commands.kubectl("describe", it.plural, it.name, namespace=it.namespace)
