"""Requests that schemathesis makes of a description of the two HTTP ports: as it says, and against it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import schemathesis
import yaml
from hypothesis import given
from hypothesis import strategies as st
from schemathesis import GenerationMode

from tests.integration.hostile.conftest import Victim
from tests.integration.hostile.generators import cases
from tests.support.webhook_process import Webhook

SCHEMA = schemathesis.openapi.from_dict(yaml.safe_load(Path(__file__).with_name("openapi.yaml").read_text()))
OPERATIONS = {(found.ok().method.upper(), found.ok().path): found.ok() for found in SCHEMA.get_all_operations()}
REVIEWS = ("/mutate", "/validate")


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_the_answer_is_as_described(victim: Victim, webhook: Webhook, method: str, path: str, mode: Any) -> None:
    operation = OPERATIONS[method, path]
    if mode.is_negative and path not in REVIEWS:
        return  # there is nothing to say that would be wrong

    @cases(60 if path in REVIEWS else 15)
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        host, port = webhook.address if path in REVIEWS else webhook.health_address
        base = f"{'https' if path in REVIEWS else 'http'}://{host}:{port}"
        answer = case.call(base_url=base, verify=str(webhook.pki.ca))
        victim.asked += path in REVIEWS
        operation.validate_response(answer)
        allowed = (200,) if path not in REVIEWS else (200, 400) if mode.is_positive else (200, 400, 413, 415)
        assert answer.status_code in allowed, answer.text

    ask()


@cases(60)
@given(
    method=st.sampled_from(["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "POST"]),
    path=st.text(st.characters(codec="ascii", exclude_characters=" #?\x7f", min_codepoint=33), max_size=20)
    | st.sampled_from(["mutate/", "../mutate", "%2e%2e/mutate", "mutate%00", "docs", "openapi.json", "metrics"]),
)
def test_other_paths_and_methods(victim: Victim, webhook: Webhook, method: str, path: str) -> None:
    """Nothing else is served, on either port."""
    status, answer = webhook.post(b"", f"/{path}", method=method)
    assert status in (400, 404, 405)
    assert b"Traceback" not in (answer if isinstance(answer, bytes) else b"")
