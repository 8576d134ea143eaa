"""What one review asks an API server: each question once, an absence included, and not too many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from app.errors import Denied

T = TypeVar("T")


class _Asked:
    """The questions of one review at an API server, with what is or will be known of each."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.answers: dict[Hashable, asyncio.Task[Any]] = {}


_asked: ContextVar[_Asked | None] = ContextVar("asked", default=None)


@contextmanager
def asking_once(most: int) -> Iterator[None]:
    """A block in which each question to an API server is asked once, and at most so many different ones are."""
    token = _asked.set(_Asked(most))
    try:
        yield
    finally:
        _asked.reset(token)


async def once(question: Hashable, ask: Callable[[], Coroutine[Any, Any, T]], *, field: str, what: str) -> T:
    """The answer to a question, which within `asking_once` is asked at most once, whatever the answer is.

    `field` is that of the object which needs the answer, `what` is asked about. Raises Denied for too many questions.
    """
    asked = _asked.get()
    if asked is None:
        return await ask()
    answer = asked.answers.get(question)
    if answer is None:
        if len(asked.answers) >= asked.most:
            raise Denied(
                f"{field}: want at most {asked.most} different objects and rights that the API server has to be asked "
                f"about, got more: the next is {what}",
                reason="TooManyLookups",
            )
        answer = asked.answers[question] = asyncio.create_task(ask())
    found: T = await answer
    return found
