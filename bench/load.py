"""One round of load on a server: wrk with `wrk.lua` where there is wrk, else `bench.generator`; and single reviews.

The generator is a process of its own. Whichever it is, it sends the reviews of a file in their order, one in flight on
each connection, and compares every answer with what the answers of a few reviews have in common.
"""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bench.processes import cores, pin
from bench.reviews import Load

_SCRIPT = Path(__file__).with_name("wrk.lua")
_PATIENCE = 10.0
SAMPLE = 20


class LoadError(Exception):
    """An answer was wrong, or none came; a run with one wrong answer measures nothing."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What all answers to the reviews of a load have in common: size, beginning and end."""

    size: int
    prefix: str
    suffix: str

    @classmethod
    def of(cls, answers: Sequence[bytes]) -> Self:
        texts = [answer.decode() for answer in answers]
        sizes = {len(answer) for answer in answers}
        if len(sizes) != 1:
            raise LoadError(f"answers to reviews of one size have {len(sizes)} sizes: {texts[:2]}")
        prefix = _common(texts)
        suffix = _common([text[::-1] for text in texts])[::-1]
        return cls(sizes.pop(), prefix, suffix)

    def met_by(self, body: bytes) -> bool:
        begins, ends = body.startswith(self.prefix.encode()), body.endswith(self.suffix.encode())
        return len(body) == self.size and begins and ends


def _common(texts: Sequence[str]) -> str:
    """How all of them begin."""
    first, last = min(texts), max(texts)
    length = next(
        (place for place, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first)
    )
    return first[:length]


@dataclass(frozen=True, slots=True)
class Report:
    """What a generator reports; seconds, `cpu` is its own. `bad` answers and `broken` connections spoil a round."""

    answers: int
    seconds: float
    p50: float
    p99: float
    cpu: float
    bad: int = 0
    broken: int = 0

    @classmethod
    def parse(cls, output: str) -> Self:
        """From the last line; wrk prints a report of its own before it."""
        found = cls(**json.loads(output.rstrip().rpartition("\n")[2]))
        if found.bad or found.broken or not found.answers:
            raise LoadError(f"{found.answers} answers, {found.bad} of them wrong, {found.broken} broken connections")
        return found


def run(
    port: int, path: str, load: Load, *, expected: Expected, start: int, connections: int, seconds: int, pinned: bool
) -> Report:
    """Keep the connections busy with the reviews from the one at `start` on. Raises LoadError."""
    url = f"https://127.0.0.1:{port}"
    wrk = shutil.which("wrk")
    command = [wrk, "-s", str(_SCRIPT)] if wrk else [sys.executable, "-m", "bench.generator"]
    command += ["-t", "1", "-c", str(connections), "-d", f"{seconds}s", url, "--"]
    command += [str(load.file), str(start), path, str(expected.size), expected.prefix, expected.suffix]
    with subprocess.Popen(
        command, cwd=_SCRIPT.parent.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as generator:
        pin(generator.pid, cores()[1] if pinned else set())
        output, errors = generator.communicate()
    if generator.returncode:
        raise LoadError(f"the generator failed: {errors[-2000:]}")
    try:
        return Report.parse(output)
    except LoadError as error:
        raise LoadError(f"{error}; {errors[-2000:]}") from error


def ask(port: int, path: str, bodies: Sequence[bytes], *, certificate: Path) -> list[bytes]:
    """The answers to these reviews, one after another over one connection."""
    context = ssl.create_default_context(cafile=str(certificate))
    connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=_PATIENCE)
    found = []
    try:
        for body in bodies:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            found.append(response.read())
            if response.status != 200:
                raise LoadError(f"want HTTP 200, got {response.status}: {found[-1][:500]!r}")
    finally:
        connection.close()
    return found
