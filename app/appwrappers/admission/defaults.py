"""What an AppWrapper is given when it is created: a queue, who created it, and that it waits for the queue. Pure.

Kueue's own webhook may have been asked before, or is asked afterwards: what either sets, the other keeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from app.appwrappers.admission.names import mapping
from app.appwrappers.model import CREATOR, QUEUE_NAME, USER, USER_ID, queue_of
from app.wire import JSON

_LABEL_BYTES = 63
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_.-]")


class Default(NamedTuple):
    """The value for a field: in labels and annotations of the metadata, or in the spec."""

    section: tuple[str, ...]
    field: str
    value: str | bool
    reason: str


def defaults(obj: JSON, *, user: str, uid: str, creator: str, queue: str, child: bool = False) -> Iterator[Default]:
    """What differs from what the object has. `creator` is who created it, as an annotation; "" for none of these.

    `queue` is that of an object without one. A `child` belongs to an object that Kueue manages, and does not wait.
    """
    metadata = mapping(obj, "metadata")
    labels, annotations = mapping(metadata, "labels"), mapping(metadata, "annotations")
    for name, text in ((USER, user), (USER_ID, uid)):
        if labels.get(name) != label_value(text):
            yield Default(("metadata", "labels"), name, label_value(text), "who created it")
    if creator and annotations.get(CREATOR) != creator:
        yield Default(("metadata", "annotations"), CREATOR, creator, "who created it")
    if queue_of(obj) and QUEUE_NAME not in labels:
        yield Default(("metadata", "labels"), QUEUE_NAME, queue_of(obj), "the queue of the annotation")
    elif queue and not queue_of(obj):
        yield Default(("metadata", "labels"), QUEUE_NAME, queue, "the default queue")
    if not child and has_to_wait(obj, queue=queue):
        yield Default(("spec",), "suspend", True, f"waits for queue {queue_of(obj) or queue}")


def has_to_wait(obj: JSON, *, queue: str) -> bool:
    """Whether one that is not suspended has a queue, or gets this one."""
    spec = obj.get("spec")
    return bool(queue_of(obj) or queue) and isinstance(spec, dict) and spec.get("suspend") is not True


def label_value(text: str) -> str:
    """The beginning of a text in the characters that a label value may have, as AppWrapper v1.2 writes it."""
    start = text.encode(errors="replace")[:_LABEL_BYTES].decode(errors="replace")
    return _NOT_IN_LABELS.sub("_", start).strip("-_.")
