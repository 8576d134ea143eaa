"""Compares this machine's clock with the API server's before a certificate is issued.

A keeper whose clock is ahead would issue certificates that are not valid yet for others. This module only compares.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from app.errors import ApiError, Transient

APART = timedelta(seconds=60)
"""What the allowance in certificates (CLOCK_SKEW) covers several times over, and no request takes."""
_AGAIN = 10.0


async def check_clock(client: object, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
    """Raise Transient where our clock and the API server's are more than `APART` from each other.

    Where the server does not say its time, or not to us, nothing can be compared, and nothing is.
    """
    server_time = getattr(client, "server_time", None)
    if server_time is None:
        return
    before = now()
    try:
        there: datetime | None = await server_time()
    except ApiError as error:
        if error.status not in (401, 403, 404):
            raise
        return
    if there is None:
        return
    ahead = before + (now() - before) / 2 - there
    if abs(ahead) > APART:
        seconds = f"{abs(ahead).total_seconds():.0f} s {'ahead of' if ahead > timedelta() else 'behind'}"
        raise Transient(
            f"the clock of this machine is {seconds} the API server's: no certificate is issued until they agree "
            f"(at most {APART.total_seconds():.0f} s apart)",
            delay=_AGAIN,
        )
