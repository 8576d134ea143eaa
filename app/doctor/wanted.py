"""Webhooks as Berth would register them, and what those that are there lack. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from app.admission.callers import split_path
from app.doctor.webhooks import Registered
from app.registration.objects import Terms, further_webhooks, objects_to, pods_to
from app.wire import JSON

SHARED = ("attachments", "objects", "tenants")
"""Kinds of reviews for which several webhooks may be called: these are judged together."""
_NO_EFFECTS = "None"


def uncovered(webhooks: Sequence[Registered], rules: Iterable[JSON]) -> dict[str, list[str]]:
    """The operations of rules for which none of the webhooks is called, by the plural of the kind."""
    found: dict[str, list[str]] = {}
    for rule in rules:
        for plural in rule["resources"]:
            for operation in rule["operations"]:
                if not any(one.covers(rule["apiGroups"][0], plural, operation) for one in webhooks):
                    found.setdefault(plural, []).append(operation)
    return found


def wanted_of(one: Registered) -> JSON:
    """The webhook that Berth would register in the place of this one, by its name."""
    build, path = (pods_to, "/mutate") if one.mutating else (objects_to, "/validate")
    name = str(one.webhook.get("name"))
    (entry,) = build({"service": {"path": path}}, name=one.name, webhook=name, terms=Terms())["webhooks"]
    further = further_webhooks(one.known.kind, entry, exempt=()) if one.known else []
    return next((named for named in further if named["name"] == name), entry)


def differences(one: Registered) -> Iterator[tuple[str, object, object]]:
    """Fields, their values, and those that Berth would register. What is wider, or has more, is no difference.

    Of the rules of a webhook that shares its kinds with others, `registrations` looks at all together.
    """
    wanted = wanted_of(one)
    path = "clientConfig/service/path"
    called, _ = split_path((one.client.get("service") or {}).get("path") or "/")
    if one.service is not None and called != (right := wanted["clientConfig"]["service"]["path"]):
        yield path, called, right
    for field in ("admissionReviewVersions", "sideEffects", "reinvocationPolicy"):
        has, right = one.webhook.get(field), wanted.get(field)
        enough = set(right) <= set(has or ()) if isinstance(right, list) else has in (right, _NO_EFFECTS)
        if right is not None and not enough:
            yield field, has, right
    alone = one.mutating if one.known is None else one.known.kind not in SHARED
    if alone and uncovered([one], wanted["rules"]):
        yield "rules", one.webhook.get("rules"), wanted["rules"]
