"""The verdict on an object of a kind that no judge knows: by what all objects of Kubernetes have. Pure."""

from __future__ import annotations

from app.doctor import commands, objects
from app.doctor.catalog import plain
from app.doctor.objects import Object
from app.text import moment
from app.why.model import Verdict, broken, fine, waits

_GOOD = ("Ready", "Available", "Active", "Admitted", "Established", "Accepted")
"""Conditions that an object which works has as True, as far as it has them."""


def by_conditions(it: Object) -> Verdict:
    """By its deletion and its conditions."""
    metadata = it.json["metadata"]
    if deleted := metadata.get("deletionTimestamp"):
        held = ", ".join(metadata.get("finalizers") or ()) or "none"
        return waits("is being deleted", since=moment(deleted), because=(f"finalizers: {held}",))
    for kind in _GOOD:
        condition = objects.condition(it.json, kind)
        if condition.get("status") in ("False", "Unknown"):
            because = plain(condition.get("message") or condition.get("reason") or "it says no reason")
            since = moment(condition.get("lastTransitionTime"))
            return broken(f"{kind} is {condition['status']}", since=since, because=(because,), more=describe(it))
        if condition:
            return fine(f"{kind} is True", since=moment(condition.get("lastTransitionTime")))
    return fine("is there" if metadata.get("uid") else "would be created")


def describe(it: Object) -> str:
    """The command of kubectl that shows the rest."""
    return commands.kubectl("describe", it.plural, it.name, namespace=it.namespace)
