"""View `reviews`: the last denials with their reasons, and how many reviews webhooks answer, and how fast.

Berth keeps no log of decisions beside its lines on standard error. What is here is in the cluster already: Events on
the owners of Pods that were denied, and the metrics of webhook Pods, through the API server's proxy.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from app.doctor.catalog import plain
from app.doctor.cluster import Cluster, locate
from app.doctor.installed import Installed
from app.doctor.model import unchecked
from app.doctor.readiness import pods_of, probe_of
from app.errors import ApiError
from app.kube.resources import EVENTS, PODS
from app.ui.subjects import Target, target_of
from app.ui.view import Asked, Model, View
from app.wire import JSON

COMPONENT = "berth-webhook"
_EVENTS, _SHOWN = 500, 50
"""Events that are read, and those that are shown: the last."""
_PODS = 5
"""Webhook Pods that are asked."""
EVERY, _SAMPLES = 5.0, 60
"""Seconds between two reads of the metrics while a page shows them, and reads that are kept."""
_REQUESTS, _DURATION = "admission_requests_total", "admission_duration_seconds_bucket"
_WIDTH, _HEIGHT = 480, 80


class Denial(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An Event of a webhook on the owner of a Pod: how often, and when last (RFC 3339)."""

    owner: str
    target: Target | None
    reason: str
    message: str
    count: int
    last: str


class Denials(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last Events; `unread` says why they may not be read."""

    events: tuple[Denial, ...] = ()
    unread: str = ""


class Rate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Reviews a second between two looks, by decision."""

    decision: str
    per_second: tuple[float, ...]
    points: str


class Bucket(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Reviews that took at most so many seconds, and more than the bucket before; `share` is in percent."""

    seconds: str
    count: int
    share: int


class Figures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the metrics of webhook Pods say: `pods` of them answered, `left` did not or were not asked.

    `totals` are reviews by decision since these Pods began.
    """

    pods: int
    left: int
    totals: dict[str, int]
    rates: tuple[Rate, ...]
    durations: tuple[Bucket, ...]
    unread: tuple[str, ...] = ()


class Reviews(Model, frozen=True, kw_only=True, rename="camel"):
    """Denials, and the figures of webhooks; `figures` is null until these were read once."""

    denials: Denials
    figures: Figures | None


class Sample(msgspec.Struct, frozen=True):
    """The metrics at a time, in seconds: reviews by decision, and how many took at most so long, by bucket."""

    at: float
    pods: int
    left: int
    decisions: dict[str, float]
    buckets: dict[str, float]
    unread: tuple[str, ...]


async def _read(asked: Asked) -> Reviews:
    denials = await asked.kept("denials", _denials)
    samples = await asked.series("webhook metrics", _sampled, every=EVERY, most=_SAMPLES)
    return Reviews(denials=denials, figures=figures_of(samples) if samples else None)


async def _denials(cluster: Cluster) -> Denials:
    try:
        page = await cluster.client.list_page(EVENTS, field_selector=f"reportingComponent={COMPONENT}", limit=_EVENTS)
    except ApiError as refusal:
        if not refusal.status or refusal.status == 401:
            raise
        return Denials(unread=unchecked(refusal).message)
    return Denials(events=tuple(sorted(map(_denial, page.items), key=lambda event: event.last, reverse=True)[:_SHOWN]))


def _denial(event: JSON) -> Denial:
    about = event.get("involvedObject") or {}
    owner = f"{about.get('kind')} {'/'.join(filter(None, (about.get('namespace'), about.get('name'))))}"
    return Denial(
        owner=plain(owner),
        target=target_of(owner),
        reason=plain(event.get("reason") or ""),
        message=plain(event.get("message") or ""),
        count=event["count"] if isinstance(event.get("count"), int) else 1,
        last=str(event.get("lastTimestamp") or event.get("eventTime") or ""),
    )


async def _sampled(cluster: Cluster) -> Sample:
    """Raises ApiError where the API server does not answer."""
    await locate(cluster)
    decisions, buckets, unread = Counter[str](), Counter[str](), dict[str, None]()
    places = [(role, pod) for role in await cluster.running("webhook") for pod in await pods_of(cluster, role)]
    answers = await asyncio.gather(*(_metrics(cluster, *place) for place in places[:_PODS]), return_exceptions=True)
    read = 0
    for answer in answers:
        if isinstance(answer, ApiError):
            unread[plain(answer)] = None
        elif isinstance(answer, BaseException):
            raise answer
        else:
            read += 1
            add(answer, decisions, buckets)
    at = asyncio.get_running_loop().time()
    return Sample(at, read, len(places) - read, dict(decisions), dict(buckets), tuple(unread))


async def _metrics(cluster: Cluster, role: Installed, pod: JSON) -> str:
    """What a Pod says, to the last whole line. Raises ApiError."""
    port, _ = probe_of(role, pod)
    metadata = pod["metadata"]
    where = PODS.path(namespace=metadata["namespace"], name=f"{metadata['name']}:{port}", subresource="proxy")
    text = (await cluster.client.relayed(f"{where}/metrics")).decode("utf-8", "replace")
    return text.rpartition("\n")[0] + "\n"


def add(text: str, decisions: Counter[str], buckets: Counter[str]) -> None:
    """Add the counts of one Pod; what is no text of metrics counts as nothing from there on."""
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == _REQUESTS:
                    decisions[sample.labels.get("decision", "")] += sample.value  # type: ignore[assignment]
                elif sample.name == _DURATION:
                    buckets[sample.labels.get("le", "")] += sample.value  # type: ignore[assignment]
    except (ValueError, KeyError, IndexError):
        return


def figures_of(samples: Sequence[Sample]) -> Figures:
    """Pure. Of a Pod that began again, or was replaced, the counts fall; a rate is never negative."""
    last = samples[-1]
    ways = sorted({name for sample in samples for name in sample.decisions})
    series = {name: tuple(_rates(samples, name)) for name in ways}
    most = max((value for values in series.values() for value in values), default=0.0)
    return Figures(
        pods=last.pods,
        left=last.left,
        totals={name: int(last.decisions.get(name, 0)) for name in ways},
        rates=tuple(
            Rate(decision=plain(name), per_second=values, points=_points(values, most))
            for name, values in series.items()
            if any(values) or name in ("allowed", "denied")
        ),
        durations=tuple(_durations(last.buckets)),
        unread=last.unread,
    )


def _rates(samples: Iterable[Sample], decision: str) -> Iterator[float]:
    for before, after in pairwise(samples):
        grown = max(0.0, after.decisions.get(decision, 0) - before.decisions.get(decision, 0))
        yield round(grown / max(after.at - before.at, 0.001), 2)


def _points(values: Sequence[float], most: float) -> str:
    """A line of a plot; the newest is at the right."""
    step = _WIDTH / max(1, _SAMPLES - 2)
    left = _WIDTH - step * (len(values) - 1)
    return " ".join(
        f"{left + step * number:.0f},{_HEIGHT - (value / most * (_HEIGHT - 4) if most else 0):.0f}"
        for number, value in enumerate(values)
    )


def _durations(buckets: Mapping[str, float]) -> Iterator[Bucket]:
    """Each bucket without those below it, up to the last with any review."""
    before, total = 0.0, max(buckets.values(), default=0.0)
    for bound in sorted(buckets, key=_number):
        count, before = int(max(0.0, buckets[bound] - before)), max(before, buckets[bound])
        if total:
            yield Bucket(seconds=bound, count=count, share=round(100 * count / total))
        if before >= total:
            return


def _number(bound: str) -> float:
    try:
        return float(bound)
    except ValueError:
        return float("inf")


VIEW = View(
    "reviews",
    "Reviews",
    "What webhooks have denied, as Events tell it, and how many reviews they answer and how fast, as their metrics do.",
    Reviews,
    _read,
    "ui/templates/reviews.html",
)
