"""Reads off any object what several checks look at, and writes foreign text so that it stays one line. Pure."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import Any

from app.kube import conditions
from app.kube.resources import Resource
from app.text import cut, moment
from app.wire import JSON

NAME_LABEL = "kubernetes.io/metadata.name"
_SHOWN = 400


def plain(text: object, limit: int = _SHOWN) -> str:
    """Foreign text for a message: one line, what cannot be printed escaped, cut to `limit` characters."""
    return cut(printable(" ".join(str(text).split())[: limit + 1]), limit)


def printable(text: str) -> str:
    """What cannot be printed (and what would command a terminal) escaped."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def subject(kind: str, obj: JSON) -> str:
    """`Kind namespace/name`."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{kind} {namespace}/{metadata['name']}" if namespace else f"{kind} {metadata['name']}"


def plural(resource: Resource) -> str:
    """The resource as kubectl takes it without mixing it up with another group's."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def kubectl(*words: str, namespace: str = "") -> str:
    """A command line of kubectl, each word quoted where the shell wants it."""
    return shlex.join(["kubectl", *(["--namespace", namespace] if namespace else []), *words])


def created(obj: JSON) -> datetime | None:
    return moment(obj["metadata"].get("creationTimestamp"))


def age(obj: JSON, now: datetime) -> float:
    """Seconds since the object was created; 0 where that is not known."""
    since = created(obj)
    return 0.0 if since is None else (now - since).total_seconds()


def unchanged(obj: JSON, now: datetime) -> float:
    """Seconds since the last change outside of the status, by the times in managedFields; without these, its age."""
    entries = [entry for entry in obj["metadata"].get("managedFields") or () if not entry.get("subresource")]
    changes = [when for entry in entries if (when := moment(entry.get("time")))]
    return (now - max(changes)).total_seconds() if changes else age(obj, now)


def status(obj: JSON) -> JSON:
    found = obj.get("status")
    return found if isinstance(found, dict) else {}


def condition(obj: JSON, kind: str) -> dict[str, Any]:
    """The condition of this type, {} where there is none."""
    return conditions.condition(status(obj), kind)


def labels(obj: JSON) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def namespace_labels(namespace: JSON) -> dict[str, str]:
    """The labels of a Namespace, with the one that API servers give to each."""
    return {NAME_LABEL: namespace["metadata"]["name"], **labels(namespace)}


def unseen(obj: JSON) -> bool:
    """Whether the spec has changed since the generation that its status observed."""
    return (status(obj).get("observedGeneration") or 0) < (obj["metadata"].get("generation") or 0)


def several(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def listed(items: list[str], most: int = 3) -> str:
    """The first of them, and how many more there are."""
    shown = ", ".join(items[:most])
    return f"{shown} and {len(items) - most} more" if len(items) > most else shown
