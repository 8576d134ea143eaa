"""The gauges are the totals over all Services, whatever changes and ends."""

from __future__ import annotations

from collections import Counter

from app.services import metrics
from tests.support.counting import Counted


def test_totals() -> None:
    metrics.create_series()
    services, endpoints = Counted("claims_services", "state"), Counted("claims_service_endpoints", "state")
    skipped = Counted("claims_service_pods_skipped", "reason")
    metrics.served(("ns", "a"), ready=3, unready=1, skipped=Counter({"NoNode": 2}), problem=False)
    metrics.served(("ns", "b"), ready=1, unready=0, skipped=Counter({"NoNode": 1, "NotAttached": 1}), problem=False)
    assert (services(), endpoints()) == ({"served": 2}, {"ready": 4, "unready": 1})
    assert skipped() == {"NoNode": 3, "NotAttached": 1}
    metrics.served(("ns", "a"), ready=2, unready=2, skipped=Counter(), problem=False)
    metrics.has_problem(("ns", "b"))
    assert (services(), endpoints(), skipped()) == ({"served": 1, "problem": 1}, {"ready": 2, "unready": 2}, {})
    metrics.served(("ns", "a"), ready=1, unready=0, skipped=Counter(), problem=True)
    assert (services(), endpoints()) == ({"problem": 2}, {"ready": 1})
    metrics.forget(("ns", "a"))
    metrics.forget(("ns", "never"))
    assert (services(), endpoints()) == ({"problem": 1}, {})
    metrics.forget_all()
    assert not services()
