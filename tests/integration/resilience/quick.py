"""`berth` with a Lease that is short enough for a test, and with a clock on the wall that is wrong if asked.

`python -m tests.integration.resilience.quick SKEW ARGUMENT...`: SKEW is in seconds, the arguments are those of `berth`.
"""

from __future__ import annotations

import datetime as dt
import sys
from typing import Any

from app.__main__ import main
from app.kube.lease import LeaderElector, LeaseTiming
from app.runtime import manager

QUICK = LeaseTiming(duration=6.0, renew_deadline=3.0, retry_period=0.4)


class _Elector(LeaderElector):
    skew = dt.timedelta()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options |= {"timing": QUICK, "wall_clock": lambda: dt.datetime.now(dt.UTC) + self.skew}
        super().__init__(*arguments, **options)


if __name__ == "__main__":
    _Elector.skew = dt.timedelta(seconds=float(sys.argv.pop(1)))
    manager.LeaderElector = _Elector  # type: ignore[attr-defined]  # no flag sets the times of a Lease
    main()
