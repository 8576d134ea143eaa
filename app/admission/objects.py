"""How a review reads an object of any shape, and how its answer speaks of other objects.

An answer names those of the request's own namespace, and tells others by number. The author of a request may not be
able to read other namespaces, and nothing of a request says that he can. So no answer names their objects or quotes
what is in them. What the author wrote himself may be repeated. A caller that has not proven to be an API server may say
any namespace: it is told no name at all. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from app.admission.review import Request
from app.errors import Denied
from app.kube.store import Key
from app.text import several

_ELSEWHERE = "another namespace"
T = TypeVar("T")


def home_of(request: Request) -> str:
    """The namespace whose objects the answer may name, "" for none."""
    return request.namespace if request.proven else ""


def may_name(key: Key, home: str) -> bool:
    """Whether an answer may name the object, which is in a namespace."""
    return bool(home) and key[0] == home


def named(kind: str, key: Key, home: str) -> str:
    """One object: "Pod ns/p", or "a Pod of another namespace"."""
    return f"{kind} {'/'.join(key)}" if may_name(key, home) else f"a {kind} of {_ELSEWHERE}"


def counted(kind: str, count: int) -> str:
    """Objects that an answer may not name: "1 Pod of another namespace", "2 Pods of other namespaces"."""
    return f"{several(count, kind)} of {_ELSEWHERE if count == 1 else 'other namespaces'}"


def read_or_deny(read: Callable[[], T], *, reason: str) -> T:
    """What `read` returns. Raises Denied (code 400) where the object has values of other types than its kind has.

    An API server checks the types before it asks. A review that is written by hand can have any.
    """
    try:
        return read()
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError) as error:
        fault = f"the object cannot be read: want the fields and types of its kind: {type(error).__name__}: {error}"
        raise Denied(fault, reason=reason, code=400) from error
