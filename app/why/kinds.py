"""Which kind a word of the command line means, as kubectl reads it: plural, singular or short name, also with a group.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from app.errors import UsageError
from app.kube.resources import Resource
from app.text import closest

_SHORT = {
    "Pod": ("po",),
    "Deployment": ("deploy",),
    "ReplicaSet": ("rs",),
    "StatefulSet": ("sts",),
    "DaemonSet": ("ds",),
    "CronJob": ("cj",),
    "Service": ("svc",),
    "Node": ("no",),
    "Namespace": ("ns",),
    "NetworkAttachmentDefinition": ("net-attach-def",),
    "LocalQueue": ("queue", "queues", "lq"),
    "ClusterQueue": ("cq",),
    "AppWrapper": ("aw",),
}
"""Short names that the definitions of kinds have, beside plural and singular."""


def words_of(resource: Resource) -> Iterator[str]:
    """All words that mean a kind: each alone, and with `.GROUP` behind it."""
    for word in (resource.plural, resource.kind.lower(), *_SHORT.get(resource.kind, ())):
        yield word
        if resource.group:
            yield f"{word}.{resource.group}"


def resources_of(word: str, resources: Iterable[Resource]) -> list[Resource]:
    """The kinds that a word means: one, or several of the same name in different groups.

    Raises UsageError for a word that means none.
    """
    kinds = list(resources)
    meant = [resource for resource in kinds if word.lower() in words_of(resource)]
    if meant:
        return meant
    words = sorted({word for resource in kinds for word in words_of(resource) if "." not in word})
    near = closest(word.lower(), words)
    hint = f"; did you mean {near}?" if near else f": want one of {', '.join(sorted({r.kind.lower() for r in kinds}))}"
    raise UsageError(f"KIND: berth knows no kind {word!r}{hint}")


def parse_target(words: Iterable[str]) -> tuple[str, str]:
    """KIND and NAME of `KIND/NAME` or `KIND NAME`. Raises UsageError."""
    parts = [part for word in words for part in word.split("/", 1)]
    if len(parts) != 2 or not all(parts):
        raise UsageError("want KIND/NAME, such as pod/web-0 or appwrapper/train")
    return parts[0], parts[1]
