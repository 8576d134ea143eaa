"""What follows a set of certificates: never less trust than before, and never a CA that callers cannot know."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.certs.certificate_set import CertificateSet, renewal_due
from app.certs.folder import make
from app.certs.issuing import CLOCK_SKEW, names_of, serving_names
from app.certs.rotation import SETTLING, careful, settled, successor, webhook

NAMES = serving_names(service="berth-webhook", namespace="berth")
WANTED = webhook(NAMES, days=90, authority_days=900)
NOTHING = CertificateSet()


@pytest.fixture
def present(now) -> CertificateSet:
    return successor(NOTHING, WANTED, now=now)


def damaged(held: CertificateSet, **changes: bytes | None) -> CertificateSet:
    """The set without a file, or with other contents of it."""
    return parsed({name: content for name, content in (held.files | changes).items() if content is not None})


def parsed(files: dict[str, bytes]) -> CertificateSet:
    return CertificateSet.parse(files)


def verified(held: CertificateSet) -> None:
    held.serving.certificate.verify_directly_issued_by(held.authority.certificate)


def test_what_is_good_stays(present, now) -> None:
    verified(present)
    assert successor(present, WANTED, now=now + timedelta(days=59)) == present


def test_files_that_are_read_and_written_again_are_the_same(present) -> None:
    assert parsed(present.files) == present
    assert parsed(present.files).files == present.files


def test_a_renewal_comes_a_third_of_the_life_before_the_end(present, now) -> None:
    due = renewal_due(present.serving.certificate)
    assert successor(present, WANTED, now=due - timedelta(seconds=1)) == present
    after = successor(present, WANTED, now=due)
    assert after.authority == present.authority
    assert after.serving.certificate.not_valid_after_utc == due + timedelta(days=90)
    assert present.serving.certificate.not_valid_after_utc - due >= timedelta(days=30)


def test_a_new_length_of_life_holds_from_the_next_certificate_on(present, now) -> None:
    longer = webhook(NAMES, days=200, authority_days=900)
    assert successor(present, longer, now=now) == present
    at = renewal_due(present.serving.certificate)
    after = successor(present, longer, now=at)
    assert after.serving.certificate.not_valid_after_utc == at + timedelta(days=200)


def test_other_names_need_another_certificate_of_the_same_ca(present, now) -> None:
    after = successor(present, webhook(serving_names(service="other", namespace="berth")), now=now)
    assert after.authority == present.authority
    assert "other.berth.svc" in names_of(after.serving.certificate)


@pytest.mark.parametrize(("force", "same_ca"), [("certificate", True), ("ca", False)])
def test_what_is_asked_for_is_renewed_though_not_due(present, now, force, same_ca) -> None:
    after = successor(present, WANTED, now=now, force=force)
    assert after.serving != present.serving
    assert (after.authority == present.authority) == same_ca
    assert present.authority.certificate in after.trusted
    verified(after)


@pytest.mark.parametrize("name", ["ca-bundle.crt", "ca-bridge.crt"])
@pytest.mark.parametrize("content", [b"-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n", b""])
def test_a_broken_bundle_or_bridge_does_not_cost_the_ca(present, now, name, content) -> None:
    after = successor(damaged(present, **{name: content}), WANTED, now=now)
    assert after.authority == present.authority
    assert after.trusted == (present.authority.certificate,)
    assert parsed(after.files).problems == {}
    verified(after)


def test_without_its_key_a_ca_is_followed_by_another(present, now) -> None:
    left = damaged(present, **{"ca.key": None})
    assert not left.can_sign
    after = successor(left, WANTED, now=now)
    assert after.authority.certificate != present.authority.certificate
    verified(after)


def test_a_ca_without_a_bridge_waits_until_callers_know_it(present, now) -> None:
    """What is served stays until then, for no caller could verify its successor."""
    fresh = successor(NOTHING, WANTED, now=now)
    held = careful(present, fresh, now=now)
    assert held.serving == present.serving
    assert held.serving.key_pem == present.serving.key_pem
    assert held.authority == fresh.authority
    assert settled(held) == fresh.authority.certificate.not_valid_before_utc + CLOCK_SKEW + SETTLING
    again = successor(held, WANTED, now=now + timedelta(seconds=5))
    assert again.authority == fresh.authority
    assert careful(held, again, now=now + timedelta(seconds=5)) == held
    later = settled(held)
    after = careful(held, successor(held, WANTED, now=later), now=later)
    verified(after)


def test_a_ca_with_a_bridge_need_not_wait(present, now) -> None:
    fresh = successor(present, WANTED, now=now, force="ca")
    assert careful(present, fresh, now=now) == fresh
    assert fresh.files["ca-bridge.crt"] in fresh.files["tls.crt"]


def test_another_certificate_of_the_same_ca_need_not_wait(present, now) -> None:
    """However young the CA is: who knows the one certificate knows the other."""
    fresh = successor(present, WANTED, now=now, force="certificate")
    assert careful(present, fresh, now=now) == fresh


def test_nothing_is_held_back_where_nothing_is_served(present, now) -> None:
    fresh = successor(NOTHING, WANTED, now=now)
    assert careful(NOTHING, fresh, now=now) == fresh
    assert careful(present, fresh, now=now + timedelta(days=91)) == fresh
    assert careful(damaged(present, **{"tls.key": b"junk"}), fresh, now=now) == fresh


def test_trust_is_read_from_the_bundle_or_the_ca(present, now) -> None:
    files, ca = present.files, (present.authority.certificate,)
    assert parsed({"ca.crt": files["ca.crt"]}).trusted == ca
    assert parsed({"ca.crt": files["ca.crt"], "ca-bundle.crt": b"-----BEGIN CERTIFICATE-----\n!"}).trusted == ca
    assert parsed({}).trusted == ()
    other = make({}, names=NAMES, now=now)
    assert len(parsed({"ca-bundle.crt": files["ca.crt"] + other["ca.crt"]}).trusted) == 2
