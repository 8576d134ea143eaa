"""Which webhooks have the token of callers in their path."""

from __future__ import annotations

from app.registry import REVIEWED, reviews_of, webhooks_of


def test_an_object_is_sent_with_the_token_by_all_webhooks_or_by_none() -> None:
    """A path has one chain. A part of it that wants a proven caller sees what any webhook sends there."""
    tokens: dict[tuple[bool, str, str], set[bool]] = {}
    for webhook in webhooks_of():
        for rule in reviews_of(webhook.kind):
            for resource in rule.resources:
                place = (REVIEWED[webhook.kind] == "mutate", rule.group, resource)
                tokens.setdefault(place, set()).add(webhook.proven)
    assert {place: proven for place, proven in tokens.items() if len(proven) > 1} == {}
