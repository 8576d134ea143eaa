"""What an API server is asked: by all who wait at a time with one request, by one review each question once.

An absence is an answer too, and one review asks not too many questions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from app.errors import Denied
from app.kube.turns import requests_under

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


class _Request(Generic[T]):
    """A request under way, and how many wait for it."""

    def __init__(self, task: asyncio.Task[T]) -> None:
        self.task, self.waiting = task, 0


class Requests(Generic[T]):
    """The requests under way by key. All who ask meanwhile share one, and it ends with the last who waits for it.

    One who comes after a silent request was given up asks anew, and does not wait for the end of its timeout.
    """

    def __init__(self) -> None:
        self._requests: dict[Hashable, _Request[T]] = {}

    async def answer(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What `ask` returns. It should return faults: what it raises is raised for all who wait."""
        request = self._requests.get(key)
        if request is None or request.task.done():
            with requests_under(None, ""):  # all namespaces wait for it, and not only the first that asks
                request = self._requests[key] = _Request(asyncio.create_task(ask()))
        request.waiting += 1
        try:
            # One who gives up must not cancel the request of the others.
            return await asyncio.shield(request.task)
        finally:
            request.waiting -= 1
            if not request.waiting:
                request.task.cancel()
                if self._requests.get(key) is request:
                    del self._requests[key]

    def forget(self) -> None:
        """Ask anew from now on. Those who wait get their answer."""
        self._requests.clear()
