"""How an answer to a review speaks of other objects: those of the request's own namespace by name, others by number.

The author of a request may not be able to read other namespaces, and nothing of a request says that he can. So no
answer names their objects or quotes what is in them. What the author wrote himself may be repeated. Pure.
"""

from __future__ import annotations

from app.kube.store import Key
from app.text import several

ELSEWHERE = "another namespace"


def readable(key: Key, namespace: str) -> bool:
    """Whether an answer to a request of this namespace may name the object, which is in a namespace."""
    return bool(namespace) and key[0] == namespace


def named(kind: str, key: Key, namespace: str) -> str:
    """One object: "Pod ns/p", or "a Pod of another namespace"."""
    return f"{kind} {'/'.join(key)}" if readable(key, namespace) else f"a {kind} of {ELSEWHERE}"


def counted(kind: str, count: int) -> str:
    """Objects that an answer may not name: "1 Pod of another namespace", "2 Pods of other namespaces"."""
    return f"{several(count, kind)} of {ELSEWHERE if count == 1 else 'other namespaces'}"
