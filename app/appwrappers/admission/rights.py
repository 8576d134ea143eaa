"""Who created an AppWrapper, and which rights its creation needs: of who creates it, and of the controller. Pure.

Rule: AppWrapper v1.2 asks whether a user may create each component, for the controller does it with its own rights.
The creator is kept in an annotation, asked about at the API server, and acted as.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from app.admission.review import UserInfo
from app.appwrappers.admission.templates import makes_pods
from app.appwrappers.model import APP_WRAPPERS
from app.kube.names import service_account_groups, service_account_user
from app.kube.resources import PODS, Resource
from app.wire import JSON, decode_json, encode_sorted

ADMIT = "admit"
"""The verb on AppWrappers of who may admit one that has a queue, where admission is strict."""
ANY = "*"
"""Stands for the resource of a kind that the API server does not serve."""
IN_NAMESPACE, EVERYWHERE = ("get", "create", "delete"), ("list", "watch")
"""What the controller does to components, in the namespace of the AppWrapper and in all."""
_decode = msgspec.json.Decoder(UserInfo).decode
OF_TOKENS = "authentication.kubernetes.io/"
"""Begins the keys that say to which Pod and node the token of a service account is bound."""
_CREDENTIAL = f"{OF_TOKENS}credential-id"
"""Names the credential of one request: no authorizer can have a rule for it, and readers need not see it."""


class Kind(NamedTuple):
    api_version: str
    kind: str


class Right(NamedTuple):
    """A verb on a resource: in a namespace, or everywhere; on one object where it has a name."""

    verb: str
    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""

    @property
    def what(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {resource} in {self.namespace or 'all namespaces'}"


Resources = Mapping[Kind, Resource | None]
"""The resource of each kind, None for one that is not served."""


def kind_of(component: JSON) -> Kind | None:
    """The kind of a component; None where its template has none."""
    template = component.get("template")
    version, kind = (template.get("apiVersion"), template.get("kind")) if isinstance(template, dict) else ("", "")
    return Kind(str(version), str(kind)) if version and kind else None


def of_creator(
    components: Sequence[JSON], resources: Resources, namespace: str, *, strict: bool
) -> Iterator[tuple[int, Right]]:
    """What who creates these components has to be allowed, each with the number of the component."""
    for index, component in enumerate(components):
        kind = kind_of(component)
        if kind is None:
            continue
        for verb in ("create", "delete") if strict else ("create",):
            yield index, _right(verb, kind, resources, namespace)
        if strict and kind != (PODS.api_version, PODS.kind) and makes_pods(component):
            yield index, Right("create", PODS.group, PODS.version, PODS.plural, namespace)


def of_controller(kind: Kind, resources: Resources, namespace: str) -> Iterator[Right]:
    """What the controller has to be allowed for components of this kind; nothing where the kind is not served."""
    if resources.get(kind) is None:
        return
    for verb in IN_NAMESPACE:
        yield _right(verb, kind, resources, namespace)
    for verb in EVERYWHERE:
        yield _right(verb, kind, resources, "")


def to_admit(namespace: str, name: str) -> Right:
    """What it takes to change whether an AppWrapper with a queue runs, and where."""
    return Right(ADMIT, APP_WRAPPERS.group, APP_WRAPPERS.version, APP_WRAPPERS.plural, namespace, name)


def review_of(user: UserInfo, right: Right) -> JSON:
    """The question for the API server, a SubjectAccessReview."""
    attributes = {field: value for field, value in right._asdict().items() if value}
    spec: JSON = {"resourceAttributes": attributes, "user": user.username, "uid": user.uid, "groups": user.groups}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": spec | {"extra": decode_json(user.extra)},
    }


def _right(verb: str, kind: Kind, resources: Resources, namespace: str) -> Right:
    group, _, version = kind.api_version.rpartition("/")
    resource = resources.get(kind)
    if resource is not None and not resource.namespaced:  # a grant in a namespace is none for such an object
        namespace = ""
    return Right(verb, group, version, ANY if resource is None else resource.plural, namespace)


def text_of(user: UserInfo) -> str:
    """The value of the annotation; the same for the same user.

    All who may read the object see it. So it has what authorizers and policies decide by, and nothing more.
    """
    extra = decode_json(user.extra)
    if isinstance(extra, dict):
        extra.pop(_CREDENTIAL, None)
    fields = {"username": user.username, "uid": user.uid, "groups": user.groups, "extra": extra}
    return encode_sorted({field: value for field, value in fields.items() if value}).decode()


def read(text: str) -> UserInfo:
    """The user that `text_of` was given. Raises ValueError for another text."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ValueError(str(error)) from error


def is_service_account(user: UserInfo) -> bool:
    """Whether it is one, in the groups of its namespace and in no others."""
    kind, _, place = user.username.partition("system:serviceaccount:")
    return (
        not kind and place.count(":") == 1 and set(user.groups) == set(service_account(place.replace(":", "/")).groups)
    )


def service_account(place: str) -> UserInfo:
    """The service account NAMESPACE/NAME as a user."""
    namespace, _, name = place.partition("/")
    groups = [*service_account_groups(namespace), "system:authenticated"]
    return UserInfo(service_account_user(namespace, name), groups)
