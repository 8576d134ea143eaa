"""What follows a set of certificates: never less trust than before, and never a CA that callers cannot know."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.certs.bundles import parse_bundle
from app.certs.certificate_set import load, make, renewal_due
from app.certs.issuing import CLOCK_SKEW, names_of, serving_names
from app.certs.rotation import SETTLING, Wanted, can_sign, careful, settled, successor, trusted

NAMES = serving_names(service="berth-webhook", namespace="berth")
WANTED = Wanted(NAMES, days=90, authority_days=900)


@pytest.fixture
def present(now) -> dict[str, bytes]:
    return successor({}, WANTED, now=now)


def verified(files) -> None:
    load(files, "tls").certificate.verify_directly_issued_by(load(files, "ca").certificate)


def test_what_is_good_stays(present, now) -> None:
    verified(present)
    assert successor(present, WANTED, now=now + timedelta(days=59)) == present


def test_a_renewal_comes_a_third_of_the_life_before_the_end(present, now) -> None:
    due = renewal_due(load(present, "tls").certificate)
    assert successor(present, WANTED, now=due - timedelta(seconds=1)) == present
    after = successor(present, WANTED, now=due)
    assert after["ca.crt"] == present["ca.crt"]
    assert load(after, "tls").certificate.not_valid_after_utc == due + timedelta(days=90)
    assert load(present, "tls").certificate.not_valid_after_utc - due >= timedelta(days=30)


def test_a_new_length_of_life_holds_from_the_next_certificate_on(present, now) -> None:
    longer = Wanted(NAMES, days=200, authority_days=900)
    assert successor(present, longer, now=now) == present
    at = renewal_due(load(present, "tls").certificate)
    assert load(successor(present, longer, now=at), "tls").certificate.not_valid_after_utc == at + timedelta(days=200)


def test_other_names_need_another_certificate_of_the_same_ca(present, now) -> None:
    after = successor(present, Wanted(serving_names(service="other", namespace="berth")), now=now)
    assert after["ca.crt"] == present["ca.crt"]
    assert "other.berth.svc" in names_of(load(after, "tls").certificate)


@pytest.mark.parametrize(("force", "same_ca"), [("certificate", True), ("ca", False)])
def test_what_is_asked_for_is_renewed_though_not_due(present, now, force, same_ca) -> None:
    after = successor(present, WANTED, now=now, force=force)
    assert after["tls.crt"] != present["tls.crt"]
    assert (after["ca.crt"] == present["ca.crt"]) == same_ca
    assert parse_bundle(present["ca.crt"], source="x")[0] in trusted(after)
    verified(after)


@pytest.mark.parametrize("name", ["ca-bundle.crt", "ca-bridge.crt"])
@pytest.mark.parametrize("content", [b"-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n", b""])
def test_a_broken_bundle_or_bridge_does_not_cost_the_ca(present, now, name, content) -> None:
    after = successor(present | {name: content}, WANTED, now=now)
    assert after["ca.crt"] == present["ca.crt"]
    assert trusted(after) == parse_bundle(present["ca.crt"], source="x")
    verified(after)


def test_without_its_key_a_ca_is_followed_by_another(present, now) -> None:
    damaged = {name: content for name, content in present.items() if name != "ca.key"}
    assert not can_sign(damaged)
    after = successor(damaged, WANTED, now=now)
    assert after["ca.crt"] != present["ca.crt"]
    verified(after)


def test_a_ca_without_a_bridge_waits_until_callers_know_it(present, now) -> None:
    """What is served stays until then, for no caller could verify its successor."""
    fresh = successor({}, WANTED, now=now)
    held = careful(present, fresh, now=now)
    assert (held["tls.crt"], held["tls.key"]) == (present["tls.crt"], present["tls.key"])
    assert held["ca.crt"] == fresh["ca.crt"]
    assert settled(held) == load(fresh, "ca").certificate.not_valid_before_utc + CLOCK_SKEW + SETTLING
    again = successor(held, WANTED, now=now + timedelta(seconds=5))
    assert again["ca.crt"] == fresh["ca.crt"]
    assert careful(held, again, now=now + timedelta(seconds=5)) == held
    later = settled(held)
    after = careful(held, successor(held, WANTED, now=later), now=later)
    verified(after)


def test_a_ca_with_a_bridge_need_not_wait(present, now) -> None:
    fresh = successor(present, WANTED, now=now, force="ca")
    assert careful(present, fresh, now=now) == fresh
    assert fresh["ca-bridge.crt"] in fresh["tls.crt"]


def test_another_certificate_of_the_same_ca_need_not_wait(present, now) -> None:
    """However young the CA is: who knows the one certificate knows the other."""
    fresh = successor(present, WANTED, now=now, force="certificate")
    assert careful(present, fresh, now=now) == fresh


def test_nothing_is_held_back_where_nothing_is_served(present, now) -> None:
    fresh = successor({}, WANTED, now=now)
    assert careful({}, fresh, now=now) == fresh
    assert careful(present, fresh, now=now + timedelta(days=91)) == fresh
    assert careful(present | {"tls.key": b"junk"}, fresh, now=now) == fresh


def test_trust_is_read_from_the_bundle_or_the_ca(present) -> None:
    ca = parse_bundle(present["ca.crt"], source="x")
    assert trusted({"ca.crt": present["ca.crt"]}) == ca
    assert trusted({"ca.crt": present["ca.crt"], "ca-bundle.crt": b"-----BEGIN CERTIFICATE-----\n!"}) == ca
    assert trusted({}) == []
    other = make({}, names=NAMES, now=load(present, "ca").certificate.not_valid_before_utc + CLOCK_SKEW)
    assert len(trusted({"ca-bundle.crt": present["ca.crt"] + other["ca.crt"]})) == 2
