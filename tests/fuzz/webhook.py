"""`berth webhook` in a process that counts its steps, and writes a line for each review with what it took.

python -m tests.fuzz.webhook FLAGS
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from tests.support.steps import count_steps, steps

LINE = '{"msg":"steps",'


def main() -> None:
    count_steps("app", "jmespath")
    from app.__main__ import main as berth  # noqa: PLC0415  counted from its import on
    from app.admission.endpoint import ReviewEndpoint  # noqa: PLC0415
    from app.runtime.review_log import ReviewLog  # noqa: PLC0415

    decide, finished = ReviewEndpoint.decide, ReviewLog.finished
    begun = [0, 0.0]

    def counted(self: Any, content: bytes, *more: Any, **named: Any) -> Any:
        begun[:] = steps(), time.process_time()
        return decide(self, content, *more, **named)

    def reported(self: Any, outcome: Any) -> None:
        figures = {
            "steps": steps() - begun[0],
            "cpu": time.process_time() - begun[1],
            "reason": outcome.decision.reason,
        }
        finished(self, outcome)
        sys.stderr.write(LINE + json.dumps(figures)[1:] + "\n")
        sys.stderr.flush()

    ReviewEndpoint.decide, ReviewLog.finished = counted, reported  # type: ignore[method-assign]
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    sys.argv = ["berth", "webhook", *sys.argv[1:]]
    berth()


def _end_with_the_input() -> None:
    """A program that was killed leaves no process behind."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
