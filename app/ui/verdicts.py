"""Verdicts on objects, as `berth why` reaches them: once for all views, and again when what they rest on changes."""

from __future__ import annotations

from functools import partial

from app.doctor.cluster import Cluster, locate
from app.doctor.objects import plural
from app.errors import ApiError, UsageError
from app.kube.resources import Resource
from app.ui.subjects import Target
from app.ui.view import Asked
from app.why.asking import why
from app.why.model import Verdict
from app.why.rendering import Answer


async def answer_on(asked: Asked, target: Target, kind: str = "") -> Answer:
    """The verdict on an object with the chain that it rests on. `kind` is the word for its kind, if that is known.

    Raises ApiError if it may not be read, and UsageError if two objects are meant.
    """
    word = kind or target.kind.lower()
    return await asked.kept(("why", word, target.namespace, target.name), partial(_why, word, target))


async def verdict_on(asked: Asked, resource: Resource, target: Target) -> Verdict | None:
    """The verdict on an object of a list; None if it may not be read."""
    try:
        return (await answer_on(asked, target, plural(resource))).verdict
    except (ApiError, UsageError):
        return None


async def _why(word: str, target: Target, cluster: Cluster) -> Answer:
    await locate(cluster)
    return (await why(cluster, (word, target.name), namespace=target.namespace or "default"))[0]
