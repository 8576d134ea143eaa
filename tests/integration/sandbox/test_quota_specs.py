"""What a quota may say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.sandbox.test_quotas import ISOLATION


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"hard": {"pods": "-1"}}, 'spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0'),
        ({"hard": {"pods": "500m"}}, 'spec.hard[pods]: Invalid value: "500m": must be an integer'),
        ({"hard": {"dogs": "1"}}, 'spec.hard[dogs]: Invalid value: "dogs": must be a standard resource for quota'),
        ({"scopes": ["x"]}, 'spec.scopes: Invalid value: ["x"]: unsupported scope'),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "CrossNamespacePodAffinity", "operator": "In"}]}},
            "spec.scopeSelector.matchExpressions.operator: Invalid value: \"In\": must be 'Exists' when scope is any of",
        ),
        (
            ISOLATION | {"hard": {"secrets": "1"}},
            "unsupported scope applied to resource",
        ),
    ],
)
def test_what_is_no_quota_is_refused(served: Any, namespace: str, spec: Any, message: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    answer = served.request("POST", path, {"metadata": {"name": "q"}, "spec": spec})
    assert answer.status == 422
    assert message in answer.body["message"]
