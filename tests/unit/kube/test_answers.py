"""What an error repeats of the answer of an API server."""

from __future__ import annotations

import pytest

from app.kube.answers import error_of_status, warnings_in

TOKEN = "0123456789abcdef" * 4
CUT = 'failed calling webhook "a.berth.dev": failed to call webhook: Post '


@pytest.mark.parametrize("token", [TOKEN, TOKEN * 2])
def test_the_token_of_a_webhook_that_was_not_reached_is_not_repeated(token: str) -> None:
    """As kube-apiserver 1.37 says it; errors come into logs, Events and statuses."""
    text = f'{CUT}"https://berth-webhook.berth-system.svc:443/validate/{token}?timeout=10s": EOF'
    error = error_of_status("POST /x", {"message": text}, status=500)
    assert str(error).endswith('Post "https://berth-webhook.berth-system.svc:443/validate/…?timeout=10s": EOF')
    assert TOKEN not in str(error)


def test_other_urls_are_repeated() -> None:
    text = f'{CUT}"https://berth-webhook.berth-system.svc:443/validate?timeout=10s": EOF; {TOKEN}'
    assert str(error_of_status("POST /x", {"message": text}, status=500)) == f"POST /x: HTTP 500: {text}"


@pytest.mark.parametrize(
    ("headers", "texts"),
    [
        (['299 - "a"', '299 kube "b, c"'], ("a", "b, c")),
        (['299 - "a", 299 - "b"'], ("a", "b")),
        ([r'299 - "unknown field \"spec.x\""'], ('unknown field "spec.x"',)),
        (["", "none", '299 - "open'], ()),
    ],
)
def test_the_texts_of_warnings_are_read(headers: list[str], texts: tuple[str, ...]) -> None:
    assert warnings_in(headers) == texts
