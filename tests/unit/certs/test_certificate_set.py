"""A set of certificates is made, extended and renewed as a whole."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.certs.certificate_set import encode_bundle, fingerprint, load, overlap, parse_bundle, renewal_due
from app.certs.folder import describe, make, render, renew
from app.certs.issuing import issue_authority, names_of, serving_names
from app.errors import UsageError

NAMES = serving_names(service="berth", namespace="kube-system")


def test_nothing_is_renewed_before_a_third_is_left(now) -> None:
    files = make({}, names=NAMES, now=now, days=90)
    due = renewal_due(load(files, "tls").certificate)
    result = renew(files, now=due - timedelta(seconds=1))
    assert (result.renewed, result.files, result.next_due) == ((), files, due)


def test_a_leaf_is_renewed_when_less_than_a_third_is_left(now) -> None:
    """Names, length of life and CA stay; key and serial number are new."""
    files = make({}, names=NAMES, clients=[("api", [])], now=now, days=90)
    before = load(files, "tls")
    at = renewal_due(before.certificate)
    result = renew(files, now=at)
    after = load(result.files, "tls")
    assert result.renewed == ("tls", "client-api")
    assert result.files["ca.crt"] == files["ca.crt"]
    assert names_of(after.certificate) == names_of(before.certificate)
    assert after.key_pem != before.key_pem
    assert after.certificate.not_valid_after_utc == at + timedelta(days=90)
    assert result.next_due > at
    assert renew(result.files, now=at).renewed == ()


def test_renewal_works_out_however_often_it_is_repeated(now) -> None:
    """Life does not shrink over the generations, and no bundle grows without end."""
    files = make({}, names=NAMES, now=now, days=90, authority_days=300)
    at = now
    for _ in range(40):
        at = renew(files, now=at).next_due
        result = renew(files, now=at)
        assert result.renewed
        files = result.files
        load(files, "tls").certificate.verify_directly_issued_by(load(files, "ca").certificate)
    assert len(parse_bundle(files["ca-bundle.crt"], source="b")) <= 2
    assert load(files, "ca").certificate.not_valid_after_utc > at


def test_a_new_ca_overlaps_with_the_old_one(now) -> None:
    files = make({}, names=NAMES, now=now, authority_days=300)
    old = load(files, "ca").certificate
    at = renewal_due(old)
    result = renew(files, now=at)
    new = load(result.files, "ca").certificate
    assert result.renewed[0] == "ca"
    assert parse_bundle(result.files["ca-bundle.crt"], source="b") == [new, old]
    later = renew(result.files, now=old.not_valid_after_utc)
    assert parse_bundle(later.files["ca-bundle.crt"], source="b") == [new]


def test_force_renews_leaves_and_leaves_the_ca(now) -> None:
    files = make({}, names=NAMES, now=now)
    result = renew(files, now=now, force=True)
    assert result.renewed == ("tls",)
    assert result.files["ca.crt"] == files["ca.crt"]


def test_making_again_keeps_the_ca_and_other_certificates(now) -> None:
    first = make({}, names=NAMES, clients=[("one", [])], now=now)
    second = make(first, names=NAMES, clients=[("two", [])], now=now)
    assert second["ca.crt"] == first["ca.crt"]
    assert second["client-one.crt"] == first["client-one.crt"]
    assert {"client-two.crt", "client-two.key"} <= second.keys()


def test_a_new_ca_on_demand_reissues_everything(now) -> None:
    first = make({}, names=NAMES, clients=[("one", [])], now=now)
    second = make(first, names=NAMES, now=now, new_authority=True)
    authority = load(second, "ca").certificate
    for stem in ("tls", "client-one"):
        load(second, stem).certificate.verify_directly_issued_by(authority)
    assert len(parse_bundle(second["ca-bundle.crt"], source="b")) == 2


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"ca.key": None}, "both needed"),
        ({"tls.key": None}, "tls.key is missing"),
        ({"tls.key": b"junk"}, "tls.key cannot be read"),
        ({"tls.crt": b"junk"}, "tls.crt holds no certificate"),
        ({"ca.crt": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}, "ca.crt: a certificate"),
    ],
)
def test_damage_is_named(now, damage, message) -> None:
    files = make({}, names=NAMES, now=now) | damage
    with pytest.raises(UsageError, match=message):
        renew({name: content for name, content in files.items() if content is not None}, now=now, force=True)


def test_a_key_of_another_certificate_is_refused(now) -> None:
    files = make({}, names=NAMES, now=now)
    files["tls.key"] = files["ca.key"]
    with pytest.raises(UsageError, match="does not belong"):
        renew(files, now=now, force=True)


def test_overlap_drops_doubles_and_the_expired(now) -> None:
    new, old, expired = (
        issue_authority(common_name="CA", now=now - timedelta(days=age), days=10).certificate for age in (0, 5, 20)
    )
    assert overlap([new], [old, new, expired, old], now=now) == [new, old]
    assert parse_bundle(encode_bundle([new, old]), source="b") == [new, old]
    assert parse_bundle(b"", source="b") == []


def test_showing_names_what_is_there_and_no_key(now) -> None:
    files = make({}, names=NAMES, now=now, days=30)
    shown = {item["file"]: item for item in describe(files, now=now)}
    assert shown["tls.crt"]["daysLeft"] == 30
    assert shown["tls.crt"]["sans"][0] == "berth"
    assert shown["tls.crt"]["sha256"] == fingerprint(load(files, "tls").certificate)
    text = render(list(shown.values()))
    assert "berth.kube-system.svc" in text
    assert "PRIVATE" not in text
