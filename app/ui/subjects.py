"""Which object a text names, as findings and verdicts write it (`Kind namespace/name`), and links to it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from app.errors import UsageError
from app.kube.resources import Resource
from app.why.inquiry import JUDGES
from app.why.kinds import resources_of

KINDS = frozenset(resource.kind for resource in JUDGES)
_SUBJECT = re.compile(r"(?P<kind>[A-Za-z]+) (?:(?P<namespace>[a-z0-9-]{1,63})/)?(?P<name>[A-Za-z0-9._:-]{1,253})")


class Target(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object; `namespace` is "" for one without."""

    kind: str
    namespace: str
    name: str

    @property
    def subject(self) -> str:
        """As texts name it."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def id(self) -> str:
        """The same as an identifier of HTML: an update gives the keyboard back to the element of this name."""
        return "-".join(filter(None, (self.kind, self.namespace, self.name)))

    @property
    def query(self) -> dict[str, str]:
        """The words by which view `why` finds it."""
        return {"q": f"{self.kind.lower()}/{self.name}", "namespace": self.namespace}


def target_of(subject: str) -> Target | None:
    """The object that a whole text names; None if it names none that can be asked about."""
    match = _SUBJECT.fullmatch(subject)
    if match is None or match["kind"] not in KINDS:
        return None
    return Target(kind=match["kind"], namespace=match["namespace"] or "", name=match["name"])


def parse_search(text: str, namespace: str) -> Target | str:
    """What a search field says: an object (`pod/web-0`, `Pod team/web-0`, `pod web-0 -n team`), or a part of names.

    Raises UsageError for a kind that is not known.
    """
    words = text.split()
    for flag in ("-n", "--namespace"):
        if flag in words[:-1]:
            at = words.index(flag)
            namespace = words[at + 1]
            del words[at : at + 2]
    if words[:2] == ["berth", "why"]:
        del words[:2]
    if len(words) == 1 and "/" not in words[0]:
        return words[0]
    if len(words) == 1:
        kind, _, name = words[0].partition("/")
    elif len(words) == 2:
        kind, name = words
    else:
        raise UsageError("want KIND/NAME, such as pod/web-0, or a part of a name")
    home, slash, last = name.partition("/")
    if slash:
        namespace, name = home, last
    resource = _first(resources_of(kind, JUDGES))
    if not name:
        raise UsageError("want KIND/NAME, such as pod/web-0, or a part of a name")
    return Target(kind=resource.kind, namespace=namespace if resource.namespaced else "", name=name)


def _first(resources: Iterable[Resource]) -> Resource:
    return next(iter(resources))
