"""When CAs go: those whose key is in other hands at a day's notice, those that nothing needs by themselves."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.certs.certificate_set import CertificateSet, fingerprint, parse_bundle
from app.certs.issuing import issue_authority, serving_names
from app.certs.rotation import (
    HANDOVER,
    PENDING,
    SETTLING,
    alone,
    careful,
    handed_over,
    is_alone,
    needed_still,
    next_mark,
    successor,
    webhook,
    without_outlived,
)

DAYS = 90
WANTED = webhook(serving_names(service="berth-webhook", namespace="berth"), days=DAYS, authority_days=900)
SECOND = timedelta(seconds=1)


def authority(held: CertificateSet):
    return parse_bundle(held.files["ca.crt"], source="x")[0]


@pytest.fixture
def old(now) -> CertificateSet:
    return successor(CertificateSet(), WANTED, now=now - timedelta(hours=1))


@pytest.fixture
def new(old, now) -> CertificateSet:
    return successor(old, WANTED, now=now, force="revoke")


def test_a_revocation_begins_as_a_change_of_the_ca(old, new) -> None:
    assert new.trusted == (authority(new), authority(old))
    assert new.files["ca-bridge.crt"] in new.files["tls.crt"]


def test_a_revocation_waits_until_every_webhook_serves_the_new_certificate(new, now) -> None:
    assert handed_over(new) == now + HANDOVER
    mark = next_mark("", new, revoke=True, now=now)
    assert next_mark(mark, new, revoke=False, now=now + HANDOVER - SECOND) == mark == PENDING
    assert not is_alone(mark, new)
    mark = next_mark(mark, new, revoke=False, now=now + HANDOVER)
    assert mark == fingerprint(authority(new))
    assert is_alone(mark, new)


def test_the_wait_begins_anew_with_another_certificate(new, now) -> None:
    """Also where one could be issued late only: the role was away, or no bridge leads to its CA."""
    later = now + timedelta(minutes=4)
    assert handed_over(successor(new, WANTED, now=later, force="certificate")) == later + HANDOVER


def test_a_certificate_that_another_ca_has_signed_is_never_cut_off(old, now) -> None:
    """It is held while callers have not heard of a CA to which no bridge leads."""
    held = careful(old, successor(CertificateSet(), WANTED, now=now, force="revoke"), now=now)
    assert held.serving.key_pem == old.serving.key_pem
    assert next_mark(PENDING, held, revoke=False, now=now + timedelta(days=30)) == PENDING
    at = now + SETTLING
    after = careful(held, successor(held, WANTED, now=at), now=at)
    assert next_mark(PENDING, after, revoke=False, now=at + HANDOVER) == fingerprint(authority(after))


def test_alone_a_ca_has_none_beside_it_and_serves_on(old, new, now) -> None:
    left = alone(new)
    assert left.trusted == (authority(new),)
    assert "ca-bridge.crt" not in left.files
    assert parse_bundle(left.files["tls.crt"], source="x") == [new.serving.certificate]
    assert left.serving.key_pem == new.serving.key_pem
    assert successor(left, WANTED, now=now + timedelta(days=1)) == left == alone(left)


def test_what_is_left_of_a_revocation_is_forgotten_with_the_next_ca(new, now) -> None:
    mark, left = fingerprint(authority(new)), alone(new)
    assert next_mark(mark, left, revoke=False, now=now) == mark
    assert next_mark(mark, successor(left, WANTED, now=now, force="certificate"), revoke=False, now=now) == mark
    assert next_mark(mark, successor(left, WANTED, now=now, force="ca"), revoke=False, now=now) == ""


def test_a_ca_goes_when_all_that_it_signed_has_ended(old, now) -> None:
    """The successor signs from its first day on, so days after it nothing of the old one is valid."""
    new = successor(old, WANTED, now=now, force="ca")
    last = now + timedelta(days=DAYS)
    assert without_outlived(new, days=DAYS, now=last) == new
    after = without_outlived(new, days=DAYS, now=last + SECOND)
    assert after.trusted == (authority(new),)
    assert "ca-bridge.crt" not in after.files
    third = successor(new, WANTED, now=last, force="ca")
    assert without_outlived(third, days=DAYS, now=last + SECOND).trusted == (authority(third), authority(new))


def test_of_what_callers_trust_only_older_cas_of_ours_go(old, new, now) -> None:
    """A CA of somebody else is there for reasons of his; a younger one is a rival's."""
    foreign = issue_authority(common_name="Corporate", now=now - timedelta(days=400), days=4000).certificate
    rival = successor(CertificateSet(), WANTED, now=now + timedelta(days=1))
    young = needed_still(new, days=DAYS, now=now)
    assert all(young(one) for one in (authority(old), foreign, authority(rival)))
    aged = needed_still(new, days=DAYS, now=now + timedelta(days=DAYS, seconds=1))
    assert [aged(one) for one in (authority(old), foreign, authority(new), authority(rival))] == [False, *[True] * 3]
