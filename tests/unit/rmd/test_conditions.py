"""Which Pods an API server sends for a review: those that ask for something of RMD."""

from __future__ import annotations

from typing import Any

import pytest

from app.cel.matchconditions import Attributes, UserInfo, holds
from app.rmd.permissions import ASKS, WITH_SETTINGS
from tests.support.rmd_reviews import container, pod

PLAIN = container(ways=None)
REQUEST = Attributes(
    *("CREATE", "", "v1", "Pod", "pods", "", "ns", "p"),
    dry_run=False,
    user=UserInfo("a"),
    old_object=None,
    options=None,
)


@pytest.mark.parametrize(
    ("given", "asks"),
    [
        (pod(container()), True),
        (pod(PLAIN, init=(container(),)), True),
        (pod(PLAIN, c1_policy="gold"), True),
        (pod(PLAIN, c1_pstate_monitoring="on"), True),
        (pod(PLAIN, policy="gold"), False),
        (pod({"name": "c1"}, {"name": "c2", "resources": {}}), False),
        ({"metadata": {}, "spec": {"containers": [{"name": "c1"}]}}, False),
    ],
)
def test_pods_that_ask(given: dict[str, Any], *, asks: bool) -> None:
    expression = " || ".join(f"({one.expression})" for one in WITH_SETTINGS)
    assert holds([{"name": "asks", "expression": expression}], REQUEST, given) == asks
    assert [one.expression for one in ASKS] == [one.expression for one in WITH_SETTINGS]
