"""The request of an AdmissionReview: bytes to `Review`. Pure; `app.admission.decision` has the answer.

One pass finds the envelope and the parts of the object that most reviews read. These stay raw until an injector reads
them; the object as a whole is found again for what reads all of it. Shapes:
https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/ (admission.k8s.io
v1, and v1beta1, which differs in nothing that is read here).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import lru_cache
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec

from app.admission.pods import MIRROR, NO_METADATA, ObjectMeta, ObjectParts, Pod, decode_pod, pod_of_parts
from app.errors import BadReview, Denied
from app.kube.names import check_dns_label
from app.kube.resources import NETWORK_ATTACHMENTS, PODS
from app.wire import JSON, decode_json

T = TypeVar("T")
GROUP = "admission.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
KIND = "AdmissionReview"
PROBE = "berth-doctor-probe"
"""How the objects are named that `berth doctor` sends in dry runs, to be refused."""
_PROBED = frozenset((resource.group, resource.kind) for resource in (PODS, NETWORK_ATTACHMENTS))
"""The kinds of these objects."""
_NODES = "system:nodes"
"""The group of kubelets."""
_NULL = msgspec.Raw(b"null")
_NONE = msgspec.Raw(b"{}")


class GroupVersionKind(msgspec.Struct, frozen=True, gc=False):
    group: str = ""
    version: str = ""
    kind: str = ""


class GroupVersionResource(msgspec.Struct, frozen=True, gc=False):
    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(msgspec.Struct, frozen=True, gc=False):
    """Who asks. `extra` is raw JSON: an object of lists of texts."""

    username: str = ""
    groups: list[str] = []
    uid: str = ""
    extra: msgspec.Raw = _NONE


class _Once(Generic[T]):
    """An attribute that is computed when it is first read, as `cached_property` without its lock."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self._name = compute, compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, request: Request, _owner: type[Request] | None = None) -> T:
        computed = request.__dict__[self._name] = self._compute(request)
        return computed


class Request(msgspec.Struct, frozen=True, rename="camel", dict=True):
    """What the API server asks.

    What is decoded of the object is kept, so that it is read once however many parts of Berth look at it.
    """

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    resource: GroupVersionResource = GroupVersionResource()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"] = "CREATE"
    user_info: UserInfo = UserInfo()
    old_object: msgspec.Raw = _NULL
    dry_run: bool | None = None

    proven: ClassVar[bool] = False
    """Whether the caller is a proven API server, so that `user_info` is true. No field: no body can say it."""

    def prove(self) -> None:
        """The caller has proven to be an API server (`app.admission.heads`)."""
        self.__dict__["proven"] = True

    def check_proven(self) -> None:
        """Raise Denied (403) where the answer would follow from `user_info`, and the caller does not vouch for that.

        Not BadReview: of an HTTP error the author of the object reads "unknown", and `failurePolicy: Ignore` admits an
        object that was not checked.
        """
        if not self.proven:
            raise Denied(
                f"{self.kind.kind}: the answer follows from request.userInfo, and the caller has not proven to be an "
                "API server: want its client certificate (--client-ca), or the token of --caller-token-file at the "
                "end of the path in the webhook configuration",
                reason="UnprovenCaller",
                code=403,
            )

    @property
    def object(self) -> msgspec.Raw:
        """The whole object as raw JSON, `null` for DELETE and CONNECT without options."""
        raise NotImplementedError

    @property
    def has_object(self) -> bool:
        raise NotImplementedError

    @property
    def creates_pod(self) -> bool:
        """Whether a Pod is created; a hand-written review may name the resource alone."""
        if self.operation != "CREATE" or self.sub_resource or not self.has_object:
            return False
        kind = self.kind
        if kind.kind:
            return kind.kind == "Pod" and not kind.group
        return self.resource.resource == "pods" and not self.resource.group

    def is_static_pod(self, annotations: Container[str]) -> bool:
        """Whether a kubelet shows a static Pod. Others can write the annotation too, and are not freed by it."""
        return MIRROR in annotations and self.by_kubelet

    @property
    def by_kubelet(self) -> bool:
        return _NODES in self.user_info.groups

    @_Once
    def pod(self) -> Pod:
        """The object where it is a Pod. Raises Denied (code 400) where it cannot be read."""
        return decode_pod(self.object)

    @_Once
    def metadata(self) -> ObjectMeta:
        """The metadata of any object; empty where it cannot be read."""
        if "pod" in self.__dict__:
            return self.pod.metadata
        try:
            return _decode_metadata(self.object).metadata
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return NO_METADATA

    @property
    def names(self) -> tuple[str, str]:
        """(name, generateName) of the object; the second only where there is no name yet."""
        return (self.name, "") if self.name else ("", self.metadata.generate_name)

    @property
    def is_probe(self) -> bool:
        """Whether it has the form of a probe of the doctor. Every client can send one: a dry run changes nothing."""
        if not self.dry_run or self.operation != "CREATE" or self.sub_resource:
            return False
        return (self.kind.group, self.kind.kind) in _PROBED and any(name.startswith(PROBE) for name in self.names)


class WholeRequest(Request, frozen=True, rename="camel", dict=True):
    """A request whose object was not taken apart: one that is made here, or that of an odd review."""

    object: msgspec.Raw = _NULL

    @property
    def has_object(self) -> bool:
        return len(self.object) != 4 or bytes(self.object) != b"null"  # the length first: bytes() copies the object


class PartedRequest(Request, frozen=True, rename="camel", dict=True):
    """A request of which one pass has found the parts of the object; `parts` is None where there is no object."""

    parts: ObjectParts | None = msgspec.field(default=None, name="object")

    @property
    def object(self) -> msgspec.Raw:
        whole: msgspec.Raw | None = self.__dict__.get("whole")
        if whole is None:
            whole = self.__dict__["whole"] = _decode_whole(self.__dict__["body"]).request.object
        return whole

    @property
    def has_object(self) -> bool:
        return self.parts is not None

    @property
    def was_read_whole(self) -> bool:
        """Whether anything has read more of the object than its parts."""
        return "whole" in self.__dict__

    @property
    def creates_pod(self) -> bool:
        if self.operation != "CREATE" or self.sub_resource or self.parts is None:
            return False
        kind = self.kind
        if kind.kind:
            return kind.kind == "Pod" and not kind.group
        return self.resource.resource == "pods" and not self.resource.group

    @_Once
    def pod(self) -> Pod:
        parts = self.parts
        pod = pod_of_parts(parts) if parts is not None else None
        return pod if pod is not None else decode_pod(self.object)

    @property
    def names(self) -> tuple[str, str]:
        if self.name or self.parts is None:
            return self.name, ""
        return "", self.parts.metadata.generate_name


class Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: Request


class _WholeReview(Review, frozen=True, rename="camel"):
    request: WholeRequest


class _PartedReview(Review, frozen=True, rename="camel"):
    request: PartedRequest


class _Object(msgspec.Struct):
    metadata: ObjectMeta = NO_METADATA


_decode_whole = msgspec.json.Decoder(_WholeReview).decode
_decode_parted = msgspec.json.Decoder(_PartedReview).decode
_decode_metadata = msgspec.json.Decoder(_Object).decode


def decode(body: bytes) -> Review:
    """Raises BadReview with what is wrong and where: not JSON, another kind or version, no request, an empty uid."""
    if not body:
        raise BadReview("body: want an AdmissionReview, got nothing")
    review: Review
    try:
        review = parted = _decode_parted(body)
        parted.request.__dict__["body"] = body
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # An object that has no such parts is for the checks and injectors to judge.
        try:
            review = _decode_whole(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadReview(f"the body is not an AdmissionReview: {error}") from error
    if review.kind != KIND:
        raise BadReview(f"kind: want {KIND}, got {review.kind!r}")
    if review.api_version not in VERSIONS:
        raise BadReview(f"apiVersion: want {' or '.join(VERSIONS)}, got {review.api_version!r}")
    if not review.request.uid:
        raise BadReview("request.uid: want the uid of the request, got an empty string")
    return review


def written_object(request: Request, *, reason: str) -> JSON | None:
    """What is created or updated; None for other requests, subresources, and updates that are part of a deletion.

    An object that is being deleted may be wrong already, and its finalizers have to be removable: an update is part of
    its deletion if it changes nothing but what `_DELETION_CHANGES` names, and the status. Every other update is for the
    checks. Raises Denied, with `reason`, for what cannot be read.
    """
    if request.operation not in ("CREATE", "UPDATE") or request.sub_resource or not request.has_object:
        return None
    obj = decode_object(request.object, reason=reason)
    metadata = obj.get("metadata")
    if request.operation == "CREATE" or not isinstance(metadata, dict) or not metadata.get("deletionTimestamp"):
        return obj
    old = old_object(request, reason=reason)
    return None if old is not None and _outside_deletion(obj) == _outside_deletion(old) else obj


_DELETION_CHANGES = frozenset(
    {
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
    }
)
"""The metadata that the API server, finalizing controllers and the garbage collector change during a deletion."""


def _outside_deletion(obj: JSON) -> JSON:
    """What of an object no deletion changes."""
    metadata = obj.get("metadata")
    kept = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    if isinstance(metadata, dict):
        kept["metadata"] = {name: value for name, value in metadata.items() if name not in _DELETION_CHANGES}
    return kept


def old_object(request: Request, *, reason: str) -> JSON | None:
    """What an update starts from; None for other requests."""
    if request.operation != "UPDATE" or bytes(request.old_object) == b"null":
        return None
    return decode_object(request.old_object, reason=reason)


def decode_object(raw: msgspec.Raw, *, reason: str) -> JSON:
    """A raw object of a review. Raises Denied, with `reason`, for what is not a JSON object."""
    try:
        obj = decode_json(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Denied(f"the object cannot be read: {error}", reason=reason, code=400) from error
    if not isinstance(obj, dict):
        raise Denied("the object cannot be read: want a JSON object", reason=reason, code=400)
    return obj


def check_namespace(namespace: str) -> None:
    """Raise Denied for what cannot be the name of a namespace, before anything is looked up in it."""
    try:
        _sound(namespace)
    except ValueError as error:
        raise Denied(f"namespace of the request: {error}", reason="BadNamespace", code=400) from error


_sound = lru_cache(maxsize=1024)(check_dns_label)
