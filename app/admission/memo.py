"""Keeps answers to reviews of Pods for Pods alike: replicas of one template differ in nothing that a decision reads.

A decision of the chain that mutates follows from what `PodInputs` takes out of the review and from caches, whose
changes drop every answer. What is taken is compared byte by byte, so that two inputs never share an answer. Nothing is
kept where more of the object was read, or where a part has set `MutationPlan.keep` to False.

The volume with the token of a Pod's ServiceAccount has a name of its own in every Pod. It is left out of the spec. An
answer is kept only where nothing but volumes and their mounts has the name.
"""

from __future__ import annotations

import weakref
from array import array

import msgspec

from app.admission.chain import Reviewed
from app.admission.decision import Decision, encoded
from app.admission.review import GroupVersionKind, GroupVersionResource, PartedRequest, Request
from app.wire import decode_json, encode_json

WEBHOOK = "mutate"
"""The one that keeps answers: a check reads the whole object, so that its decision holds for that object alone."""
LIMIT = 8 * 1024 * 1024
"""Bytes that one memo keeps, keys and answers with what Python needs for them."""
LARGEST = 64 * 1024
"""Bytes of a key with its answer; larger ones are not kept, so that no Pod takes the place of many."""
RESULTS = ("hit", "miss", "skipped")
_OVERHEAD, _OPERATION, _TEXT = 2048, 512, 64
"""Bytes that are counted for an answer beside its texts, for each of its operations, and for each text or piece."""
_PATIENCE, _SAMPLED = 512, 16
"""Misses in a row after which look-ups become rare, and how rare: one of so many reviews."""
_SLOTS = 4096
_NAMESPACE = 63
"""Characters; no namespace has a longer name."""
_VOLUME = b"kube-api-access-"
_QUOTED = b'"' + _VOLUME
_NAME = len(_QUOTED)
_END = _NAME + 5
_POD = GroupVersionKind("", "v1", "Pod")
_PODS = GroupVersionResource("", "v1", "pods")

Key = tuple[str, bool, bytes, bytes, tuple[bytes, ...]]
"""Namespace, whether a kubelet asks; labels, annotations and spec as they came.

The spec is in pieces: what stands before, between and behind the names of the volume.
"""


class PodInputs(msgspec.Struct, frozen=True):
    """What the decision about a new Pod follows from; `volume` is the name, quoted, that its spec lacks."""

    request: PartedRequest
    key: Key
    volume: bytes


def _concerns(request: PartedRequest) -> bool:
    """Whether a Pod is created in a namespace."""
    return (
        request.operation == "CREATE"
        and request.kind == _POD
        and request.resource == _PODS
        and not request.sub_resource
        and 0 < len(request.namespace) <= _NAMESPACE
    )


def _asked(request: PartedRequest) -> PodInputs | None:
    """None where there is no object, and for what is large."""
    parts = request.parts
    if parts is None:
        return None
    metadata = parts.metadata
    labels, annotations, spec = bytes(metadata.labels), bytes(metadata.annotations), bytes(parts.spec)
    if len(labels) + len(annotations) + len(spec) > LARGEST:
        return None
    volume = _volume_in(spec)
    pieces = tuple(spec.rsplit(volume)) if volume else (spec,)  # from the right it is faster
    return PodInputs(request, (request.namespace, request.by_kubelet, labels, annotations, pieces), volume)


def _volume_in(spec: bytes) -> bytes:
    """The first text in it that is the name of such a volume, quoted; "" where there is none."""
    start = spec.find(_QUOTED)
    name = spec[start : start + _END + 1] if start >= 0 else b""
    return name if name[_END:] == b'"' and name[_NAME:_END].isalnum() else b""


class Kept(msgspec.Struct):
    """A decision, encoded; `size` are the bytes that it is counted with."""

    decision: Decision
    size: int
    used: bool = False


class Memo:
    """Answers by all inputs of their decisions.

    An answer is kept when its key is offered for the second time, so that Pods of which there is one each neither fill
    the memory nor drop what is used. At `limit` bytes those go first that were not used of late. After a long row of
    misses one review in `_SAMPLED` is looked up, until one is kept: Pods that are all different need no look-ups.
    """

    def __init__(self, *, limit: int = LIMIT) -> None:
        self.bytes = 0
        self._lookups = dict.fromkeys(RESULTS, 0)
        self._misses = 0
        self._limit = limit
        self._answers: dict[Key, Kept] = {}
        self._offered = array("q", bytes(8 * _SLOTS))
        memos.add(self)

    def asked(self, request: Request) -> PodInputs | None:
        """What to look for; None where the review is to be decided without a look at what is kept."""
        if type(request) is not PartedRequest or not _concerns(request) or self._skips():
            return None
        return _asked(request)

    def find(self, inputs: PodInputs) -> Decision | None:
        kept = self._answers.get(inputs.key)
        if kept is None:
            self._lookups["miss"] += 1
            self._misses += self._misses < _PATIENCE  # beyond, `asked` counts
            return None
        self._lookups["hit"] += 1
        self._misses = 0
        kept.used = True
        return kept.decision

    def offer(self, inputs: PodInputs, reviewed: Reviewed) -> None:
        """Keep what was found for this review, where it holds for Pods alike."""
        decision, plan = reviewed
        if not (decision.allowed and plan.keep and self._is_second(inputs.key)):
            return
        if inputs.request.was_read_whole or not _is_free_of(inputs, decision):
            return
        decision = encoded(decision)
        *_, labels, annotations, spec = inputs.key
        size = sum(map(len, (labels, annotations, *spec, decision.encoded)))
        if size <= LARGEST:
            # What is encoded is there a second time, as operations, warnings and notes.
            size += _OVERHEAD + len(decision.encoded) + _OPERATION * len(decision.operations)
            size += _TEXT * (len(spec) + len(decision.warnings))
            self.bytes += size
            self._answers[inputs.key] = Kept(decision, size)
            self._misses = 0
            self._bound()

    def take_lookups(self) -> dict[str, int]:
        """How many there were by result, since this was called before."""
        lookups, self._lookups = self._lookups, dict.fromkeys(RESULTS, 0)
        return lookups

    def clear(self) -> None:
        """Drop every answer; to be called at each change of what decisions read."""
        self._answers.clear()
        self.bytes = 0

    def _skips(self) -> bool:
        if self._misses < _PATIENCE:
            return False
        self._misses += 1
        if self._misses % _SAMPLED == 0:
            return False
        self._lookups["skipped"] += 1
        return True

    def _is_second(self, key: Key) -> bool:
        """A key that shares its hash with another one may be taken for it: then the first offer is enough."""
        fingerprint = hash(key)
        slot = fingerprint % _SLOTS
        before, self._offered[slot] = self._offered[slot], fingerprint
        return before == fingerprint

    def _bound(self) -> None:
        while self.bytes > self._limit:
            key = next(iter(self._answers))
            kept = self._answers.pop(key)
            if kept.used:
                kept.used = False
                self._answers[key] = kept
            else:
                self.bytes -= kept.size


memos: weakref.WeakSet[Memo] = weakref.WeakSet()
"""Those of this process; the metrics read them."""


def _is_free_of(inputs: PodInputs, decision: Decision) -> bool:
    """Whether the answer is the same with every other name of the volume.

    The name must be one of volumes alone, and of mounts of them, for other names are compared with what annotations and
    clusters say. No other text may hold the beginning of such a name, and the answer may not quote it.
    """
    if not inputs.volume:
        return True
    pieces = inputs.key[-1]
    try:
        spec = decode_json(inputs.volume.join(pieces))
        named = [*spec["volumes"]]
        for kind in ("initContainers", "containers"):
            named += [mount for container in spec.get(kind) or () for mount in container.get("volumeMounts") or ()]
        name = inputs.volume[1:-1].decode()
        names = [mount.pop("name") for mount in named if mount.get("name") == name]
    except (msgspec.DecodeError, UnicodeError, RecursionError, LookupError, TypeError, AttributeError):
        return False
    parts = (decision.operations, decision.warnings, decision.audit_annotations, decision.message)
    return len(names) == len(pieces) - 1 and _VOLUME not in encode_json((spec, parts))
