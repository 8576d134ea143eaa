"""What an AppWrapper is given when it is created: a queue, who created it, and that it waits for the queue. Pure.

Kueue's own webhook may have been asked before, or is asked afterwards: what either sets, the other keeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from app.appwrappers.admission.names import mapping
from app.appwrappers.model import APP_WRAPPERS, CREATOR, QUEUE_NAME, USER, USER_ID
from app.kube.owners import controller_of
from app.wire import JSON

_LABEL_BYTES = 63
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_.-]")
_OF_KUBEFLOW = ("JAXJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob", "MPIJob")
KUEUE_KINDS = frozenset(
    {
        (APP_WRAPPERS.group, APP_WRAPPERS.kind),
        ("", "Pod"),
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("batch", "Job"),
        ("jobset.x-k8s.io", "JobSet"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
        ("ray.io", "RayCluster"),
        ("ray.io", "RayJob"),
        ("ray.io", "RayService"),
        ("sparkoperator.k8s.io", "SparkApplication"),
        ("trainer.kubeflow.org", "TrainJob"),
        *(("kubeflow.org", kind) for kind in _OF_KUBEFLOW),
    }
)
"""The kinds that Kueue manages: objects that belong to one of these do not wait for a queue of their own."""


class Default(NamedTuple):
    """The value for a field: in labels and annotations of the metadata, or in the spec."""

    section: tuple[str, ...]
    field: str
    value: str | bool
    reason: str


def defaults(obj: JSON, *, user: str, uid: str, creator: str, queue: str) -> Iterator[Default]:
    """What differs from what the object has. `creator` is who created it, as an annotation; "" for none of these."""
    metadata = mapping(obj, "metadata")
    labels, annotations = mapping(metadata, "labels"), mapping(metadata, "annotations")
    for name, text in ((USER, user), (USER_ID, uid)):
        if labels.get(name) != label_value(text):
            yield Default(("metadata", "labels"), name, label_value(text), "who created it")
    if creator and annotations.get(CREATOR) != creator:
        yield Default(("metadata", "annotations"), CREATOR, creator, "who created it")
    if queue and labels.get(QUEUE_NAME) is None:
        yield Default(("metadata", "labels"), QUEUE_NAME, queue, "the default queue")
    spec = obj.get("spec")
    queued = labels.get(QUEUE_NAME) if labels.get(QUEUE_NAME) is not None else queue
    if queued and isinstance(spec, dict) and spec.get("suspend") is not True and not has_kueue_owner(obj):
        yield Default(("spec",), "suspend", True, f"waits for queue {queued}")


def has_kueue_owner(obj: JSON) -> bool:
    """Whether the object belongs to one that Kueue manages."""
    owner = controller_of(mapping(obj, "metadata"))
    return (str(owner.get("apiVersion")).rpartition("/")[0], owner.get("kind")) in KUEUE_KINDS


def label_value(text: str) -> str:
    """The beginning of a text in the characters that a label value may have, as AppWrapper v1.2 writes it."""
    start = text.encode(errors="replace")[:_LABEL_BYTES].decode(errors="replace")
    return _NOT_IN_LABELS.sub("_", start).strip("-_.")
