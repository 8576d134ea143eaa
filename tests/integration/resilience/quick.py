"""`berth` with a Lease that is short enough for a test, and with a clock on the wall that is wrong if asked.

`python -m tests.integration.resilience.quick SKEW ARGUMENT...`: SKEW is in seconds, the arguments are those of `berth`.

On `FREEZE` it stops, as on SIGSTOP, but between two steps of its event loop. A process that is stopped within the step
that sends a request has looked at its fence already, and sends the request when it goes on.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import signal
import sys
from typing import Any

from app.__main__ import main
from app.kube import lease

FREEZE = signal.SIGUSR1
QUICK = lease.LeaseTiming(duration=6.0, renew_deadline=3.0, retry_period=0.4)


class _Elector(lease.LeaderElector):
    skew = dt.timedelta()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options |= {"timing": QUICK, "wall_clock": lambda: dt.datetime.now(dt.UTC) + self.skew}
        super().__init__(*arguments, **options)
        asyncio.get_running_loop().add_signal_handler(FREEZE, os.kill, os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    _Elector.skew = dt.timedelta(seconds=float(sys.argv.pop(1)))
    lease.LeaderElector = _Elector  # type: ignore[misc]  # no flag sets the times of a Lease
    main()
