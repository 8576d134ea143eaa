"""How an answer to a review speaks of other objects: those of the request's own namespace by name, others by number.

The author of a request may not be able to read other namespaces, and nothing of a request says that he can. So no
answer names their objects or quotes what is in them. What the author wrote himself may be repeated. A caller that has
not proven to be an API server may say any namespace: it is told no name at all. Pure.
"""

from __future__ import annotations

from app.admission.review import Request
from app.kube.store import Key
from app.text import several

_ELSEWHERE = "another namespace"


def home_of(request: Request) -> str:
    """The namespace whose objects the answer may name, "" for none."""
    return request.namespace if request.proven else ""


def readable(key: Key, home: str) -> bool:
    """Whether an answer may name the object, which is in a namespace."""
    return bool(home) and key[0] == home


def named(kind: str, key: Key, home: str) -> str:
    """One object: "Pod ns/p", or "a Pod of another namespace"."""
    return f"{kind} {'/'.join(key)}" if readable(key, home) else f"a {kind} of {_ELSEWHERE}"


def counted(kind: str, count: int) -> str:
    """Objects that an answer may not name: "1 Pod of another namespace", "2 Pods of other namespaces"."""
    return f"{several(count, kind)} of {_ELSEWHERE if count == 1 else 'other namespaces'}"
