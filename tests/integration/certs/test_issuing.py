"""Issued certificates hold in real handshakes and under strict verifiers."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from app.certs.certificate_set import load
from app.certs.folder import make, renew
from app.certs.issuing import (
    bridge,
    common_name_of,
    issue_authority,
    issue_client,
    issue_serving,
    names_of,
    serving_names,
)
from app.errors import UsageError

SERVICE = "berth.kube-system.svc"


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, *, name: str) -> str:
    """A whole TLS handshake through memory; returns the protocol version or raises what either side raised."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    done = [False, False]
    for _ in range(20):
        for index, side in enumerate(sides):
            if not done[index]:
                try:
                    side.do_handshake()
                    done[index] = True
                except ssl.SSLWantReadError:
                    continue
        if all(done):
            break
    assert all(done)
    # TLS 1.3 servers judge the client's certificate after the client is done: let a byte travel.
    sides[0].write(b"x")
    assert sides[1].read(1) == b"x"
    return str(sides[1].version())


def contexts(tmp_path: Path, files: dict[str, bytes], *, trust: bytes) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client = ssl.create_default_context(cadata=trust.decode())
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    return server, client


@pytest.fixture(scope="module", params=["ecdsa", "rsa"])
def files(request: pytest.FixtureRequest, now: datetime) -> dict[str, bytes]:
    names = serving_names(service="berth", namespace="kube-system", dns=["extra.example"], addresses=["127.0.0.1"])
    return make({}, names=names, now=now, algorithm=request.param)


@pytest.mark.parametrize("name", ["berth", SERVICE, f"{SERVICE}.cluster.local", "extra.example", "127.0.0.1"])
def test_a_strict_client_accepts_every_name(tmp_path, files, name) -> None:
    server, client = contexts(tmp_path, files, trust=files["ca.crt"])
    assert handshake(server, client, name=name) == "TLSv1.3"


def test_a_foreign_name_is_refused(tmp_path, now) -> None:
    files = make({}, names=serving_names(service="berth", namespace="kube-system"), now=now)
    server, client = contexts(tmp_path, files, trust=files["ca.crt"])
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(server, client, name="berth.default.svc")


@pytest.mark.parametrize(("usage", "accepted"), [("client-api", True), ("tls", False)])
def test_mutual_tls_takes_client_certificates_only(tmp_path, now, usage, accepted) -> None:
    """A server that demands a client certificate accepts ours, and not a serving certificate in its place."""
    files = make({}, names=serving_names(service="berth"), clients=[("api", ["system:masters"])], now=now)
    server, client = contexts(tmp_path, files, trust=files["ca.crt"])
    server.verify_mode = ssl.CERT_REQUIRED
    server.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    server.load_verify_locations(cadata=files["ca-bundle.crt"].decode())
    client.load_cert_chain(tmp_path / f"{usage}.crt", tmp_path / f"{usage}.key")
    if accepted:
        handshake(server, client, name="berth")
    else:
        with pytest.raises(ssl.SSLError):
            handshake(server, client, name="berth")


def test_the_client_subject_is_user_and_groups(now) -> None:
    authority = issue_authority(common_name="CA", now=now, days=10)
    issued = issue_client(authority, common_name="alice", organizations=["a", "b"], now=now, days=1)
    assert issued.certificate.subject.rfc4514_string() == "CN=alice,O=b,O=a"


@pytest.mark.parametrize("trust", ["old", "new"])
def test_after_a_new_ca_either_trust_reaches_the_server(tmp_path, now, trust) -> None:
    """The bridge: a client that has only the old CA, or only the new one, accepts the renewed certificate."""
    old = make({}, names=serving_names(service="berth"), now=now - timedelta(days=3000))
    new = renew(old, now=now).files
    assert new["ca.crt"] != old["ca.crt"]
    server, client = contexts(tmp_path, new, trust={"old": old, "new": new}[trust]["ca.crt"])
    handshake(server, client, name="berth")


def test_openssl_verifies_the_chain_strictly(tmp_path, now) -> None:
    """The second opinion; where there is no openssl binary, the library behind ssl gives it alone."""
    files = renew(make({}, names=serving_names(service="berth"), now=now - timedelta(days=3000)), now=now).files
    server, client = contexts(tmp_path, files, trust=files["ca.crt"])
    handshake(server, client, name="berth")
    openssl = shutil.which("openssl")
    if openssl is not None:
        command = [openssl, "verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", "berth"]
        answer = subprocess.run(
            [*command, "-CAfile", tmp_path / "ca.crt", tmp_path / "tls.crt"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.stdout.endswith("tls.crt: OK\n"), answer.stderr


def test_extensions_are_what_strict_verifiers_demand(now) -> None:
    authority = issue_authority(common_name="CA", now=now, days=10)
    leaf = issue_serving(authority, names=serving_names(service="s"), now=now, days=5).certificate
    constraints = authority.certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = authority.certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert (constraints.critical, constraints.value.ca, usage.critical) == (True, True, True)
    assert usage.value.key_cert_sign
    identifier = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    issuer = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert issuer.key_identifier == identifier.digest
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not leaf.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_keys_are_p256_unless_rsa_is_asked_for(now) -> None:
    first = issue_authority(common_name="CA", now=now, days=1)
    second = issue_authority(common_name="CA", now=now, days=1, algorithm="rsa")
    assert isinstance(first.key, ec.EllipticCurvePrivateKey)
    assert first.key.curve.name == "secp256r1"
    assert isinstance(second.key, rsa.RSAPrivateKey)
    assert second.key.key_size == 3072


def test_a_leaf_never_outlives_its_ca(now) -> None:
    authority = issue_authority(common_name="CA", now=now, days=10)
    leaf = issue_serving(authority, names=serving_names(service="s"), now=now, days=400).certificate
    assert leaf.not_valid_after_utc == authority.certificate.not_valid_after_utc
    assert leaf.not_valid_before_utc < now  # a verifier whose clock is behind accepts it too


def test_an_expired_ca_issues_nothing(now) -> None:
    authority = issue_authority(common_name="CA", now=now - timedelta(days=20), days=10)
    with pytest.raises(UsageError, match="renew it first"):
        issue_serving(authority, names=serving_names(service="s"), now=now, days=1)


def test_two_cas_never_share_a_subject(now) -> None:
    first, second = (issue_authority(common_name="CA", now=now, days=10) for _ in range(2))
    assert first.certificate.subject != second.certificate.subject
    link = bridge(first, second)
    link.verify_directly_issued_by(first.certificate)
    assert link.public_key() == second.certificate.public_key()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"service": "Berth"}, "'Berth' is not a DNS name"),
        ({"service": "a" * 64}, "at most 63"),
        ({"dns": ["a_b.example"]}, "not a DNS name"),
        ({"addresses": ["10.0.0.256"]}, "not an IP address"),
    ],
)
def test_bad_names_are_a_users_mistake(given, message) -> None:
    with pytest.raises(UsageError, match=message):
        serving_names(**given)


def test_days_are_bounded(now) -> None:
    for days in (0, 10**9):
        with pytest.raises(UsageError):
            issue_authority(common_name="CA", now=now, days=days)


def test_without_names_the_certificate_is_for_loopback(now: datetime) -> None:
    authority = issue_authority(common_name="CA", now=now, days=10)
    leaf = issue_serving(authority, names=serving_names(), now=now, days=1).certificate
    assert names_of(leaf) == ["localhost", "127.0.0.1", "::1"]


def test_a_long_service_name_still_gets_a_certificate(now) -> None:
    """A common name holds 64 characters; the SANs carry what does not fit."""
    names = serving_names(service="s" * 63, namespace="n" * 63)
    files = make({}, names=names, now=now)
    leaf = load(files, "tls").certificate
    assert f"{'s' * 63}.{'n' * 63}.svc" in names_of(leaf)
    assert len(common_name_of(leaf)) <= 64
