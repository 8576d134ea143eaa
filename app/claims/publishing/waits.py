"""For how long devices of drivers that publish for themselves have been without network data."""

from __future__ import annotations

from collections.abc import Callable

from app.claims.model import DeviceKey
from app.kube.store import Key

_Place = tuple[str, DeviceKey]
"""The UID of a claim, and a device of it."""


class Waits:
    """Times are in seconds. They begin again with the process: no object says since when the data could be there."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[Key, dict[_Place, tuple[float, float]]] = {}

    def waited(self, pod: Key, claim: str, device: DeviceKey, most: float, *, over: bool) -> float:
        """How long it has waited. With `over` there are network data: it does not wait."""
        places = self._since.setdefault(pod, {})
        if over:
            places.pop((claim, device), None)
            return 0.0
        since, _ = places.setdefault((claim, device), (self._clock(), most))
        return self._clock() - since

    def ends(self, pod: Key) -> list[float]:
        """In how many seconds each wait of the Pod is over, those that are over left out."""
        now = self._clock()
        return [since + most - now for since, most in self._since.get(pod, {}).values() if since + most > now]

    def forget(self, pod: Key) -> None:
        self._since.pop(pod, None)
