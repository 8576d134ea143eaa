"""No review costs more than 50 ordinary ones of its size, and whatever is sent is answered: a sample of `make fuzz`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz import table
from tests.fuzz.inputs import input_of
from tests.fuzz.kinds import Kind, kinds
from tests.fuzz.oracle import MOST, Medians, measure, problems, read_case, worst_cases
from tests.fuzz.running import SETTINGS, Counted, webhooks

KNOWN = (
    ("rmd-pods: pods", "UPDATE", "spec.containers items", 1024),
    ("pods: pods", "CREATE", "spec.containers items", 1024),
    ("pods: pods", "CREATE", "spec.resourceClaims same items", 1024),
    ("objects: tenants", "CREATE", "spec.hosts items", 1024),
    ("objects: uvspods", "CREATE", "spec.object.spec.nodeSelector wrong keys", 256),
    ("objects: uvssecrets", "UPDATE", "spec.object.metadata.labels wrong keys", 256),
    ("appwrappers: appwrappers", "CREATE", "metadata.annotations keys", 256),
    ("rmdworkloads: rmdworkloads", "CREATE", "spec.coreIds same items", 1024),
    ("rmdworkloads: rmdworkloads", "CREATE", "spec.coreIds items", 11),
    ("claim-definitions: configmaps", "CREATE", "data keys", 256),
    ("claim-status: resourceclaims/status", "UPDATE", "status.devices items", 1024),
)
"""What cost more once: kind, operation, what grows, KiB."""
BROKEN = [
    (7, number) for number in (680, 1599, 1692, 2698, 3946, 7372, 16564, 17896, 19738, 20454, 51285, 68077, 84234)
]
"""Random reviews that cost too much once, or that were answered with a fault: seed and number."""
INPUTS = 200
"""`make fuzz` goes on from here."""
SIZE = 128 * 1024
KINDS = kinds()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Counted]]:
    """At the end each process is healthy, and no line of its log is an error or a traceback."""
    with webhooks(tmp_path_factory.mktemp("fuzz")) as found:
        yield found
        for webhook in found.values():
            assert webhook.get("/healthz")[0] == 200
            assert webhook.faults == []


@pytest.fixture(scope="module")
def medians(started: dict[str, Counted]) -> Medians:
    return measure(started["daemons"])


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_members_that_grow(started: dict[str, Counted], medians: Medians, kind: Kind) -> None:
    """A few members of each kind, and pairs of them; `make fuzz` has all."""
    for settings, webhook in started.items():
        for case in worst_cases(kind, SIZE, pairs=1, singles=4, seed=settings):
            body = case.body()
            found = list(problems(body, webhook.ask(body, kind.path), medians))
            assert not found, f"{case} ({settings}): {found}"


@pytest.mark.parametrize("row", [*table.read()], ids=str)
def test_the_worst_review_of_each_kind_costs_what_the_page_says(
    started: dict[str, Counted], medians: Medians, row: table.Row
) -> None:
    body = row.case.body()
    answer = started[row.settings].ask(body, row.case.kind.path)
    ratio = medians.ratio(body, answer.steps)
    assert ratio <= MOST
    assert ratio == pytest.approx(row.ratio, rel=0.2, abs=0.2)


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_what_cost_too_much_once(
    started: dict[str, Counted], medians: Medians, known: tuple[str, str, str, int]
) -> None:
    kind, operation, members, kibibytes = known
    case = read_case(kind, operation, members, kibibytes * 1024)
    body = case.body()
    for webhook in started.values():
        assert not list(problems(body, webhook.ask(body, case.kind.path), medians))


def test_the_page_has_each_kind() -> None:
    assert {row.case.kind for row in table.read()} == set(KINDS)
    assert {row.settings for row in table.read()} <= set(SETTINGS)


def test_random_reviews(started: dict[str, Counted], medians: Medians) -> None:
    names = [*started]
    for number in range(INPUTS):
        settings = names[number % len(names)]
        path, body, what = input_of(1, number)
        found = list(problems(body, started[settings].ask(body, path), medians))
        assert not found, f"{number} ({settings}) {what}: {found}"
