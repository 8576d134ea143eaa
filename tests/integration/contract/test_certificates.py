"""Who is let in, by which TLS, and certificates that change while the server runs."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from app.certs.issuing import issue_authority, issue_client
from tests.support.waiting import PATIENCE


@pytest.fixture(scope="module")
def stranger(pki):
    return issue_authority(common_name="other CA", now=pki.now, days=1)


@pytest.fixture(scope="module")
def mutual(launch, pki, stranger):
    """Asks for client certificates of the test CA, and of a second one given with another --client-ca."""
    second = issue_authority(common_name="second CA", now=pki.now, days=1)
    extra = pki.write("second-ca.crt", second.certificate_pem)
    server = launch(pki, f"--client-ca={pki.ca}", f"-client-ca={extra}").until_ready()
    server.second = second
    return server


@pytest.fixture(scope="module")
def named(launch, pki):
    """Lets in two common names of the test CA."""
    return launch(pki, f"--client-ca={pki.ca}", "--client-allowed-names=apiserver,front proxy").until_ready()


def refused(server, context, review) -> bool:
    """Whether the handshake failed; with TLS 1.3 the client learns of it when it reads."""
    try:
        server.post(review("plain"), context=context)
    except (ssl.SSLError, ConnectionError):
        return True
    return False


def test_no_client_certificate_is_refused(mutual, pki, review) -> None:
    """The log has one line of all that fail alike, with the peer and the reason."""
    for _ in range(3):
        assert refused(mutual, pki.context(), review)
    assert_logged(mutual, "the client sent no certificate")


def test_a_client_of_a_wrong_ca_is_refused(mutual, pki, stranger, review) -> None:
    assert refused(mutual, pki.context(pki.client("rogue", stranger)), review)
    assert_logged(mutual, "the certificate of the client is refused: unable to get local issuer certificate")


def assert_logged(server, reason: str) -> None:
    def found() -> list[dict[str, object]]:
        return [event for event in server.events("TLS handshake failed") if event["reason"] == reason]

    (line,) = server.until(found, reason)
    assert (line["level"], line["port"]) == ("warning", server.address[1])
    assert line["peer"].startswith("127.0.0.1:")


def test_a_client_without_tls_and_one_that_only_connects(server) -> None:
    """The first is a line in the log; the second is what probes of ports do, and is none."""
    socket.create_connection(server.address, timeout=PATIENCE).close()
    with socket.create_connection(server.address, timeout=PATIENCE) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        plain.recv(1)
    assert_logged(server, "the client speaks HTTP without TLS")
    assert len(server.events("TLS handshake failed")) == 1


def test_clients_of_each_given_ca_are_let_in(mutual, pki, review) -> None:
    assert mutual.post(review("plain"), context=pki.context(pki.client("apiserver")))[0] == 200
    assert mutual.post(review("plain"), context=pki.context(pki.client("second", mutual.second)))[0] == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_of_another_name_is_refused(named, pki, review, version) -> None:
    """Kubelets and users have certificates of the same CA. Names are compared as kube-apiserver compares its own."""
    for name in ("apiserver", "front proxy"):
        assert named.post(review("plain"), context=pki.context(pki.client(name), maximum_version=version))[0] == 200
    others = (
        "kubelet",
        "API server",
        "Apiserver",
        "apiserver ",
        "apiserver.example",
        "front",
        "*",
        "apiserver,front proxy",
    )
    for name in others:
        assert refused(named, pki.context(pki.client(name), maximum_version=version), review), name
    if version == ssl.TLSVersion.TLSv1_2:
        for name in others[:2]:
            assert_logged(
                named,
                f"the certificate of the client is refused: want a common name of --client-allowed-names, got '{name}'",
            )


def test_a_client_of_a_wrong_ca_with_an_allowed_name_is_refused(named, pki, stranger, review) -> None:
    assert refused(named, pki.context(pki.client("apiserver", stranger)), review)
    assert refused(named, pki.context(), review)


@pytest.mark.parametrize(
    ("subject", "allowed"),
    [
        ([], False),
        ([(NameOID.ORGANIZATION_NAME, "apiserver")], False),
        ([(NameOID.COMMON_NAME, "apiserver"), (NameOID.COMMON_NAME, "other")], False),
        ([(NameOID.COMMON_NAME, "other"), (NameOID.COMMON_NAME, "apiserver")], True),
    ],
)
def test_of_several_names_the_last_counts_and_without_one_none(named, pki, review, subject, *, allowed: bool) -> None:
    """As Go's pkix.Name has CommonName, which kube-apiserver compares."""
    assert refused(named, pki.context(_issued(pki, subject)), review) is not allowed


def _issued(pki, subject):
    """A client certificate of the CA with this subject."""
    like = issue_client(pki.authority, common_name="like", now=pki.now, days=1)
    made = x509.CertificateBuilder(
        issuer_name=pki.authority.certificate.subject,
        subject_name=x509.Name([x509.NameAttribute(oid, value) for oid, value in subject]),
        public_key=like.certificate.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=like.certificate.not_valid_before_utc,
        not_valid_after=like.certificate.not_valid_after_utc,
        extensions=list(like.certificate.extensions),
    ).sign(pki.authority.key, hashes.SHA256())
    pem = made.public_bytes(Encoding.PEM)
    return pki.write("subject.crt", pem), pki.write("subject.key", like.key_pem)


def test_insecure_asks_for_no_client_certificate(server, pki, review) -> None:
    assert server.post(review("plain"), context=pki.context())[0] == 200


def test_a_ca_that_is_taken_away_is_trusted_no_more(launch, own_pki, review) -> None:
    """And one that is added is trusted, both without a restart."""
    before, after = own_pki.authority, issue_authority(common_name="after", now=own_pki.now, days=1)
    trusted = own_pki.write("clients.crt", before.certificate_pem)
    server = launch(own_pki, f"--client-ca={trusted}")
    old, new = own_pki.context(own_pki.client("old")), own_pki.context(own_pki.client("new", after))
    server.until_ready()
    assert server.post(review("plain"), context=old)[0] == 200
    assert refused(server, new, review)
    trusted.write_bytes(after.certificate_pem)
    server.until(lambda: not refused(server, new, review), "the new CA trusted")
    assert refused(server, own_pki.context(own_pki.client("old")), review)
    assert refused(server, old, review)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_of_clients_with_certificates_are_not_resumed(mutual, pki, version) -> None:
    """A resumed session is not verified again: it would outlive the removal of its CA."""
    context = pki.context(pki.client("resuming"), maximum_version=version)
    session = None
    for _ in range(20):  # whether a session can be resumed depends on how the connection before ended
        plain = socket.create_connection(mutual.address, timeout=PATIENCE)
        with context.wrap_socket(plain, server_hostname="localhost", session=session) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 404"
            assert not connection.session_reused
            session = connection.session


@pytest.mark.parametrize(
    ("flags", "client", "version"),
    [
        ((), {}, "TLSv1.3"),
        ((), {"maximum_version": ssl.TLSVersion.TLSv1_2}, "TLSv1.2"),
        (("--tls-min-version=VersionTLS13",), {"maximum_version": ssl.TLSVersion.TLSv1_2}, None),
        (("--tls-min-version=VersionTLS13",), {}, "TLSv1.3"),
    ],
)
def test_the_minimum_version(launch, pki, running, flags, client, version) -> None:
    known = [w for w in running if getattr(w, "flags", None) == flags]
    server = known[0] if known else launch(pki, "--insecure", *flags).until_ready()
    server.flags = flags
    connection = server.connect(pki.context(**client))
    try:
        connection.connect()
        assert connection.sock.version() == version
    except (ssl.SSLError, ConnectionError):
        assert version is None
    finally:
        connection.close()


def test_only_the_named_ciphers_are_spoken(launch, pki) -> None:
    name = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    server = launch(pki, "--insecure", f"--tls-cipher-suites={name}").until_ready()
    context = pki.context(maximum_version=ssl.TLSVersion.TLSv1_2)
    connection = server.connect(context)
    connection.connect()
    assert connection.sock.cipher()[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
    connection.close()
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        server.connect(context).connect()


async def test_rotation_under_load_fails_no_request_and_serves_the_new_serial(launch, own_pki, review) -> None:
    """Three rotations, one of them to another type of key, while clients come and go and others stay."""
    server = launch(own_pki, "--insecure").until_ready()
    body, done, answered = json.dumps(review("webhook-demo")), asyncio.Event(), [0]
    seen: set[int] = set()

    async def load(*, keep: bool) -> None:
        connector = aiohttp.TCPConnector(ssl=own_pki.context(), limit=1, force_close=not keep)
        async with aiohttp.ClientSession(connector=connector) as session:
            while not done.is_set():
                headers = {"Content-Type": "application/json"}
                async with session.post(f"{server.url}/mutate", data=body, headers=headers) as answer:
                    assert answer.status == 200
                    assert (await answer.json())["response"]["allowed"] is True
                    answered[0] += 1

    async def rotate() -> None:
        for algorithm in ("ecdsa", "rsa", "ecdsa"):
            serial = own_pki.swap(own_pki.serving(algorithm=algorithm))
            await asyncio.to_thread(server.until, lambda wanted=serial: server.serial() == wanted, "the new serial")
            seen.add(serial)
            before = answered[0]
            while answered[0] < before + 10:  # noqa: ASYNC110 - the clients tell nobody
                await asyncio.sleep(0.01)
        done.set()

    async with asyncio.TaskGroup() as tasks:
        for keep in (True, False, True, False):
            tasks.create_task(load(keep=keep))
        tasks.create_task(rotate())
    assert len(seen) == 3
    # A look between the two renames of a swap finds a pair that does not match; readiness is published after the reload.
    server.until_ready()
    server.until(lambda: len(server.events("certificate reloaded")) == 3, "three reloads in the log")


def test_no_certificate_of_the_old_key_type_is_left_behind(launch, own_pki) -> None:
    """A client that prefers RSA must not get the RSA certificate of last year."""
    own_pki.swap(own_pki.serving(algorithm="rsa"))
    server = launch(own_pki, "--insecure").until_ready()
    serial = own_pki.swap(own_pki.serving(algorithm="ecdsa"))
    server.until(lambda: server.serial() == serial or server.events("certificate reloaded"), "reloaded")
    assert server.serial() == serial
    rsa_only = own_pki.context(maximum_version=ssl.TLSVersion.TLSv1_2)
    rsa_only.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        server.serial(rsa_only)


def test_a_pair_that_does_not_match_leaves_the_old_one_in_service(launch, own_pki, review) -> None:
    server = launch(own_pki, "--insecure").until_ready()
    serial, good = server.serial(), own_pki.key.read_bytes()
    own_pki.key.write_bytes(own_pki.serving().key_pem)
    server.until_unready("tls.key is not the key of")
    assert server.get("/healthz")[0] == 200
    assert server.post(review("plain"))[0] == 200
    assert server.serial() == serial
    own_pki.key.write_bytes(good)
    server.until_ready()


@pytest.mark.parametrize("content", [b"", b"no PEM", None], ids=["empty", "garbage", "missing"])
def test_unreadable_files_leave_the_old_one_in_service(launch, own_pki, content) -> None:
    server = launch(own_pki, "--insecure").until_ready()
    serial = server.serial()
    if content is None:
        own_pki.certificate.unlink()
    else:
        own_pki.certificate.write_bytes(content)
    server.until_unready("tls.crt")
    assert server.serial() == serial
    own_pki.swap(own_pki.serving())
    server.until_ready()


def test_an_expired_certificate_makes_it_unready_and_names_the_time(launch, own_pki) -> None:
    server = launch(own_pki, "--insecure").until_ready()
    own_pki.swap(own_pki.expired())
    server.until_unready("expired at")
    own_pki.swap(own_pki.serving())
    server.until_ready()
