"""What is applied to a claim: our fields alone, and only where they differ."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.claims.model import FIELD_MANAGER, PUBLISHED, DeviceKey
from app.claims.publishing.entries import message_of, reason_of, write_of
from app.claims.publishing.model import NetworkData
from app.claims.stored import Claim, stored_claim

JSON = dict[str, Any]
NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
BEFORE = "2026-01-01T00:00:00Z"


def vf(name: str, share: str = "") -> DeviceKey:
    return DeviceKey("vf.example.com", "n1", name, share)


VF1, VF2 = vf("vf1"), vf("vf2")
DATA = NetworkData("net1", "02:00:00:00:00:01", ("10.0.0.5/24",), (), 0, "default/net")
OTHER = NetworkData("net2", "", ("10.0.0.6/32",), ("10.0.0.6/32",), 2, "default/net")
KEYS = {"driver": "vf.example.com", "pool": "n1", "device": "vf1"}


def condition(data: NetworkData, at: str = BEFORE) -> JSON:
    said = {"status": "True", "reason": reason_of(data), "message": message_of(data)}
    return {"type": PUBLISHED, "lastTransitionTime": at, **said}


def theirs(number: int) -> JSON:
    return {"type": f"T{number}", "status": "True", "reason": "R", "message": "", "lastTransitionTime": BEFORE}


def owned(*members: str, told: bool = True) -> JSON:
    fields: JSON = {".": {}, "f:driver": {}, "f:pool": {}, "f:device": {}}
    if members:
        fields["f:networkData"] = {f"f:{name}": {} for name in members}
    if told:
        fields["f:conditions"] = {f'k:{{"type":"{PUBLISHED}"}}': {".": {}, "f:type": {}}}
    return fields


def claim(*entries: JSON, **managers: list[tuple[str, JSON]]) -> Claim:
    """`managers` have the fields that they own, by device."""
    fields = []
    for manager, found in managers.items():
        devices = {f"k:{json.dumps(KEYS | {'device': device})}": one for device, one in found}
        fields.append({"manager": manager.replace("_", "-"), "fieldsV1": {"f:status": {"f:devices": devices}}})
    metadata = {"namespace": "default", "name": "c", "uid": "u", "resourceVersion": "7", "managedFields": fields}
    return stored_claim({"metadata": metadata, "status": {"devices": list(entries)}})


def published(data: NetworkData = DATA, **more: Any) -> JSON:
    return {**KEYS, "networkData": data.body(), "conditions": [condition(data)], **more}


def ours(device: str = "vf1", data: NetworkData = DATA) -> list[tuple[str, JSON]]:
    return [(device, owned(*data.body()))]


def test_the_first_write() -> None:
    found = write_of(claim(), {VF1: DATA}, now=NOW)
    assert found is not None
    assert found.body == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default", "uid": "u"},
        "status": {
            "devices": [
                {
                    **KEYS,
                    "networkData": {
                        "interfaceName": "net1",
                        "hardwareAddress": "02:00:00:00:00:01",
                        "ips": ["10.0.0.5/24"],
                    },
                    "conditions": [
                        {
                            "type": "NetworkDataPublished",
                            "status": "True",
                            "reason": "Published",
                            "message": "10.0.0.5/24 on net1 of network default/net",
                            "lastTransitionTime": "2026-02-03T04:05:06Z",
                        }
                    ],
                }
            ]
        },
    }
    assert (found.force, found.drivers) == (False, {"vf.example.com"})


def test_what_is_written_already_is_not_written_again() -> None:
    assert write_of(claim(published(), berth_claims=ours()), {VF1: DATA}, now=NOW) is None
    assert write_of(claim(), {}, now=NOW) is None
    assert write_of(claim({**KEYS, "data": {}}, driver=[("vf1", {"f:data": {}})]), {}, now=NOW) is None


@pytest.mark.parametrize(
    ("found", "managers"),
    [
        (published(OTHER), {"berth_claims": ours(data=OTHER)}),
        (published() | {"networkData": {}}, {"berth_claims": [("vf1", owned())]}),
        (published(conditions=[condition(OTHER)]), {"berth_claims": ours()}),
        (published(conditions=[]), {"berth_claims": [("vf1", owned(*DATA.body(), told=False))]}),
        (published(), {"driver": ours()}),
        (published(), {}),
    ],
    ids=["other data", "no data", "other words", "no condition", "of another manager", "of no manager"],
)
def test_what_differs_is_written(found: JSON, managers: dict[str, list[tuple[str, JSON]]]) -> None:
    write = write_of(claim(found, **managers), {VF1: DATA}, now=NOW)
    assert write is not None
    (entry,) = write.body["status"]["devices"]
    assert entry["networkData"] == DATA.body()


def test_the_time_stays_while_the_status_does() -> None:
    write = write_of(claim(published(OTHER), berth_claims=ours(data=OTHER)), {VF1: DATA}, now=NOW)
    assert write is not None
    (said,) = write.body["status"]["devices"][0]["conditions"]
    assert said == condition(DATA, BEFORE)


def test_an_unknown_prefix_and_what_does_not_fit_are_said() -> None:
    assert reason_of(OTHER) == "PrefixUnknown"
    assert message_of(OTHER) == (
        "10.0.0.6/32 on net2 of network default/net; nothing says the prefix of 10.0.0.6/32; "
        "2 more addresses do not fit"
    )


def test_what_is_no_longer_planned_is_released() -> None:
    both = claim(published(), {**published(), "device": "vf2"}, berth_claims=[*ours(), *ours("vf2")])
    write = write_of(both, {VF1: DATA}, now=NOW)
    assert write is not None
    assert [one["device"] for one in write.body["status"]["devices"]] == ["vf1"]
    last = write_of(claim(published(), berth_claims=ours()), {}, now=NOW)
    assert last is not None
    assert "status" not in last.body


def test_what_is_kept_stays_as_it_is() -> None:
    there = claim(published(), berth_claims=ours())
    assert write_of(there, {}, frozenset({VF1}), now=NOW) is None
    write = write_of(there, {VF2: OTHER}, frozenset({VF1}), now=NOW)
    assert write is not None
    assert published() in write.body["status"]["devices"]
    assert {one["device"] for one in write.body["status"]["devices"]} == {"vf1", "vf2"}


def test_with_other_managers_it_is_forced_and_names_the_version() -> None:
    write = write_of(claim(published(OTHER), driver=ours(data=OTHER)), {VF1: DATA}, now=NOW)
    assert write is not None
    assert write.force
    assert write.body["metadata"]["resourceVersion"] == "7"


def test_no_ninth_condition() -> None:
    full = {**KEYS, "conditions": [theirs(number) for number in range(8)]}
    write = write_of(claim(full), {VF1: DATA}, now=NOW)
    assert write is not None
    assert "conditions" not in write.body["status"]["devices"][0]
    done = full | {"networkData": DATA.body()}
    without = [("vf1", owned(*DATA.body(), told=False))]
    assert write_of(claim(done, berth_claims=without), {VF1: DATA}, now=NOW) is None
    room = {**KEYS, "conditions": [theirs(number) for number in range(7)]}
    again = write_of(claim(room), {VF1: DATA}, now=NOW)
    assert again is not None
    assert "conditions" in again.body["status"]["devices"][0]


def test_a_share_is_named() -> None:
    write = write_of(claim(), {vf("vf1", "b2f7"): DATA}, now=NOW)
    assert write is not None
    assert write.body["status"]["devices"][0]["shareID"] == "b2f7"


_texts = st.text(st.characters(categories=("L", "N")), max_size=8)
_json = st.recursive(st.none() | st.booleans() | _texts, lambda one: st.lists(one, max_size=2), max_leaves=3)
_foreign = st.dictionaries(_texts.map("x".__add__), _json, max_size=3)
_devices = st.sampled_from(["vf1", "vf2", "vf3"])
_data = st.builds(
    NetworkData,
    st.sampled_from(["", "net1"]),
    st.sampled_from(["", "02:00:00:00:00:01"]),
    st.lists(st.sampled_from(["10.0.0.5/24", "10.0.0.6/32"]), unique=True).map(tuple),
    st.just(()),
    st.just(0),
    st.just("default/net"),
)
_managers = st.dictionaries(
    st.sampled_from(["berth_claims", "driver", "other"]),
    st.lists(st.tuples(_devices, st.sampled_from([owned(), owned("ips"), owned("ips", told=False)])), max_size=3),
)


@given(
    st.dictionaries(_devices, st.tuples(_foreign, _foreign, st.lists(st.integers(0, 3), unique=True)), max_size=3),
    _managers,
    st.dictionaries(_devices, _data, max_size=3),
    st.frozensets(_devices),
)
def test_no_field_of_others_is_ever_applied(
    entries: dict[str, tuple[JSON, JSON, list[int]]],
    managers: dict[str, list[tuple[str, JSON]]],
    data: dict[str, NetworkData],
    kept: frozenset[str],
) -> None:
    there = claim(
        *(
            {
                **KEYS,
                **foreign,
                "device": name,
                "data": below,
                "networkData": {"interfaceName": "theirs", **foreign},
                "conditions": [theirs(number) for number in numbers],
            }
            for name, (foreign, below, numbers) in entries.items()
        ),
        **managers,
    )
    wanted = {vf(name): one for name, one in data.items()}
    write = write_of(there, wanted, frozenset(vf(name) for name in kept), now=NOW)
    if write is None:
        return
    assert write.body.keys() <= {"apiVersion", "kind", "metadata", "status"}
    assert write.body["metadata"].keys() <= {"name", "namespace", "uid", "resourceVersion"}
    for one in (write.body.get("status") or {"devices": []})["devices"]:
        assert one.keys() <= {"driver", "pool", "device", "shareID", "networkData", "conditions"}
        device = vf(one["device"])
        own = there.entries[device].owned if device not in wanted else wanted[device].body().keys()
        assert one.get("networkData", {}).keys() <= set(own)
        assert [said["type"] for said in one.get("conditions", ())] in ([], [PUBLISHED])


def test_our_manager_has_a_name_of_its_own() -> None:
    assert FIELD_MANAGER == "berth-claims"


def test_addresses_that_make_a_long_message_are_written_once() -> None:
    """What is compared is the message as it is written, which has a bound."""
    ips = tuple(f"2001:db8:aaaa:bbbb:cccc:dddd:eeee:ff{number:02x}/128" for number in range(16))
    data = NetworkData("net1", "02:00:00:00:00:01", ips, ips, 0, "default/net")
    first = write_of(claim(), {VF1: data}, now=NOW)
    assert first is not None
    (entry,) = first.body["status"]["devices"]
    assert write_of(claim(entry, berth_claims=ours(data=data)), {VF1: data}, now=NOW) is None
