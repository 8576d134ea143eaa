"""The token by which the API server proves itself, where it shows no certificate."""

from __future__ import annotations

from app.admission.heads import split_path
from tests.support.chart import Render, Rendered


def _tokens(rendered: Rendered) -> set[str]:
    """What ends the paths of the webhooks beyond `/mutate` and `/validate`."""
    configurations = (*rendered.of("MutatingWebhookConfiguration"), *rendered.of("ValidatingWebhookConfiguration"))
    paths = [webhook["clientConfig"]["service"]["path"] for one in configurations for webhook in one["webhooks"]]
    return {token for path in paths if (token := split_path(path)[1])}


def test_one_token_of_callers_is_made_for_all_webhooks_and_their_secret(render: Render) -> None:
    values = {"webhook": {"args": {"appwrappers": True, "claims": True}}}
    first, second = render(values), render(values | {"logLevel": "debug"})
    (token,) = _tokens(first)
    assert first.one("Secret", "berth-webhook-caller")["stringData"] == {"token": token}
    assert _tokens(second) != {token}


def test_with_certificates_of_the_api_server_there_is_no_token(render: Render) -> None:
    rendered = render({"webhook": {"args": {"appwrappers": True, "clientCA": {"secret": "ca"}}}})
    assert (_tokens(rendered), rendered.of("Secret")) == (set(), [])
    assert (_tokens(render({})), render({}).of("Secret")) == (set(), [])
