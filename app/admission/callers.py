"""Which callers of the webhook are proven API servers. What follows from `userInfo` is answered to these alone.

A caller is proven by its client certificate (`--client-ca`), or by a token: the last segment of the path in the webhook
configuration, or the bearer of the request, where the API server has a kubeconfig for webhooks
(https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/, "Authenticate API servers").
A path segment works without configuration of the API server. Who can learn it: docs/adr/0018-proven-callers.md.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from pathlib import Path

import structlog

from app.admission.heads import Headers
from app.errors import UsageError
from app.kube.names import PROOF_FORM

_TOKEN = re.compile(PROOF_FORM)
_BEARER = b"Bearer "

_log = structlog.get_logger(__name__)


def split_path(path: str) -> tuple[str, str]:
    """The path of a webhook without the token that may end it, and that token or ""."""
    head, _, last = path.rpartition("/")
    return (head, last) if head and _TOKEN.fullmatch(last) else (path, "")


class CallerTokens:
    """The tokens in a file, one a line, followed while the process runs; all of them are accepted.

    Raises UsageError where the file cannot be read, or has another line. No message repeats one.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        try:
            self._tokens = self._read()
        except (OSError, ValueError) as error:
            raise UsageError(f"--caller-token-file: {error}") from error

    def proves(self, path_token: str, headers: Headers) -> bool:
        """Whether the token in the path, or the bearer, is one of these. Compared in constant time."""
        bearers = [value.removeprefix(_BEARER) for name, value in headers if name == b"authorization"]
        shown = (path_token.encode(), *bearers)
        return any(hmac.compare_digest(text, token) for text in shown for token in self._tokens)

    def look(self) -> None:
        """Read the file once more; what cannot be read leaves the tokens as they are."""
        try:
            self._tokens = self._read()
        except (OSError, ValueError) as error:
            _log.warning("tokens of callers cannot be read; the old ones stay", problem=str(error))

    async def watch(self, *, poll_seconds: float) -> None:
        while True:
            await asyncio.sleep(poll_seconds)
            self.look()

    def _read(self) -> tuple[bytes, ...]:
        lines = self._path.read_text(encoding="utf-8").split()
        if not lines:
            raise ValueError(f"{self._path}: want a token, got an empty file")
        for number, line in enumerate(lines, 1):
            if not _TOKEN.fullmatch(line):
                raise ValueError(f"{self._path}: line {number}: want 64 to 128 of 0-9 and a-z")
        return tuple(line.encode() for line in lines)
