"""The gauges are the totals over all Services, whatever changes and ends."""

from __future__ import annotations

from app.metrics import Shares
from app.services.controller import ENDPOINTS, SERVED, SKIPPED
from tests.support.counting import Counted


def test_totals() -> None:
    shares = Shares(SERVED, ENDPOINTS, SKIPPED)
    services, endpoints = Counted("claims_services", "state"), Counted("claims_service_endpoints", "state")
    skipped = Counted("claims_service_pods_skipped", "reason")
    shares.set(("ns", "a"), {"served": 1}, {"ready": 3, "unready": 1}, {"NoNode": 2})
    shares.set(("ns", "b"), {"served": 1}, {"ready": 1, "unready": 0}, {"NoNode": 1, "NotAttached": 1})
    assert (services(), endpoints()) == ({"served": 2}, {"ready": 4, "unready": 1})
    assert skipped() == {"NoNode": 3, "NotAttached": 1}
    shares.set(("ns", "a"), {"served": 1}, {"ready": 2, "unready": 2}, {})
    shares.set(("ns", "b"), {"problem": 1})
    assert (services(), endpoints(), skipped()) == ({"served": 1, "problem": 1}, {"ready": 2, "unready": 2}, {})
    shares.set(("ns", "a"), {"problem": 1}, {"ready": 1, "unready": 0}, {})
    assert (services(), endpoints()) == ({"problem": 2}, {"ready": 1})
    shares.set(("ns", "a"))
    shares.set(("ns", "never"))
    assert (services(), endpoints()) == ({"problem": 1}, {})
    shares.clear()
    assert not services()
