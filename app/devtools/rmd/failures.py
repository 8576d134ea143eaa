"""How a request fails in the daemon."""

from __future__ import annotations

BAD_REQUEST, INTERNAL = 400, 500


class Failure(Exception):
    """The daemon refuses a request. `status` is the code that the daemon means, which is not always what it answers."""

    def __init__(self, text: str, status: int = BAD_REQUEST) -> None:
        super().__init__(text)
        self.text, self.status = text, status


class Crash(Exception):
    """The handler of the daemon panics: the connection is closed without an answer, and the daemon runs on."""


class RefusedStart(Exception):
    """The daemon ends while it starts; the message is what it logs."""


def detailed(message: str, details: object, status: int = BAD_REQUEST) -> Failure:
    """A failure with a cause. Its text ends with a newline, as in the daemon."""
    return Failure(f"{message}. Details: {details}\n", status)
