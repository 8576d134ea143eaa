"""Whose network data of a device are."""

from __future__ import annotations

import pytest

from app.claims.model import FIELD_MANAGER, DeviceKey
from app.claims.publishing.entries import Rules, others_of, state_of
from app.claims.stored import Entry

DEVICE = DeviceKey("vf.example.com", "n1", "vf1")
DRANET = DeviceKey("dra.net", "n1", "d1")


def entry(*managers: str, tellers: tuple[str, ...] = ()) -> Entry:
    data = {"interfaceName": "net1"} if managers else None
    return Entry(data, (), {}, frozenset(managers), frozenset(tellers))


@pytest.mark.parametrize(
    ("found", "others"),
    [
        (None, set()),
        (entry(), set()),
        (entry(FIELD_MANAGER, tellers=(FIELD_MANAGER,)), set()),
        (entry("driver"), {"driver"}),
        (entry(FIELD_MANAGER, "driver", tellers=(FIELD_MANAGER,)), {"driver"}),
        # It has put back a list with our condition in it.
        (entry("driver", tellers=("driver",)), set()),
        (entry("driver", "another", tellers=("driver",)), {"another"}),
    ],
)
def test_other_managers(found: Entry | None, others: set[str]) -> None:
    assert others_of(found) == others


@pytest.mark.parametrize(
    ("device", "found", "rules", "overdue", "state"),
    [
        (DEVICE, None, Rules(), False, "published"),
        (DEVICE, entry(FIELD_MANAGER), Rules(), False, "published"),
        (DEVICE, entry("driver"), Rules(), False, "deferred"),
        (DEVICE, entry("driver", FIELD_MANAGER), Rules(), False, "deferred"),
        (DEVICE, entry("driver"), Rules(conflict="force"), False, "published"),
        (DEVICE, entry("driver", tellers=("driver",)), Rules(), False, "published"),
        (DEVICE, None, Rules(drivers=frozenset({"dra.net"})), False, "unlisted"),
        (DEVICE, entry("driver"), Rules(drivers=frozenset({"dra.net"}), conflict="force"), False, "unlisted"),
        (DEVICE, None, Rules(drivers=frozenset({"vf.example.com"})), False, "published"),
        (DRANET, None, Rules(), True, "self-publishing"),
        (DRANET, None, Rules(self_publishing=frozenset()), False, "published"),
        (DRANET, None, Rules(repair_after=60), False, "self-publishing"),
        (DRANET, None, Rules(repair_after=60), True, "published"),
        (DRANET, entry("dra.net"), Rules(repair_after=60), True, "self-publishing"),
        (DRANET, entry("dra.net"), Rules(repair_after=60, conflict="force"), True, "self-publishing"),
        (DRANET, entry(FIELD_MANAGER), Rules(repair_after=60), False, "published"),
        (DRANET, entry(FIELD_MANAGER, "dra.net"), Rules(repair_after=60), False, "self-publishing"),
        (DRANET, entry(FIELD_MANAGER), Rules(), False, "self-publishing"),
    ],
)
def test_states(device: DeviceKey, found: Entry | None, rules: Rules, *, overdue: bool, state: str) -> None:
    assert state_of(device, found, rules, overdue=overdue) == state
