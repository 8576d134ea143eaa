"""What no API server sends: the answer is an error, and the server goes on."""

from __future__ import annotations

import json
import socket
import ssl

import pytest

from app.admission.endpoint import VALUES
from tests.support.waiting import PATIENCE

LIMIT = 7 * 1024 * 1024
HEAD = b"POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(autouse=True)
def goes_on(server, review):
    """Whatever a test does, the next review is answered."""
    yield
    assert server.post(review("plain"))[0] == 200


@pytest.fixture
def raw(server):
    """Sends bytes on a TLS connection and reads until the server closes it, or until it has `answers` answers."""
    opened = []

    def send(content: bytes, *, answers: int = 0) -> bytes:
        plain = socket.create_connection(server.address, timeout=PATIENCE)
        connection = server.pki.context().wrap_socket(plain, server_hostname="localhost")
        opened.append(connection)
        connection.sendall(content)
        received = b""
        while not answers or received.count(b"HTTP/1.1 ") < answers or not received.endswith(b"}"):
            try:
                chunk = connection.recv(65536)
            except (ssl.SSLEOFError, ConnectionResetError):
                break
            if not chunk:
                break
            received += chunk
        return received

    yield send
    for connection in opened:
        connection.close()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_the_largest_body_is_read_and_one_byte_more_is_not(server, review) -> None:
    asked = review("plain")
    body = json.dumps(asked).encode()
    assert server.post(body + b" " * (LIMIT - len(body)))[0] == 200
    status, answer = server.post(body + b" " * (LIMIT - len(body) + 1))
    assert status == 413
    assert answer["response"]["uid"] == asked["request"]["uid"]
    assert str(LIMIT) in answer["response"]["status"]["message"]


def test_a_chunked_body_without_a_length_is_bounded_too(server, review) -> None:
    asked = json.dumps(review("plain")).encode()
    for filler, status in ((b" " * 1000, 200), (b" " * LIMIT, 413)):
        connection = server.connect()
        chunks = iter([asked, filler])
        connection.request("POST", "/mutate", chunks, {"Content-Type": "application/json"}, encode_chunked=True)
        assert connection.getresponse().status == status
        connection.close()


def test_an_endless_body_is_cut_off(raw) -> None:
    length = b"Content-Length: 1000000000000\r\n\r\n"
    try:
        answer = raw(HEAD + length + b" " * (5 * LIMIT))
    except (ConnectionError, ssl.SSLError):
        return  # closed while we were still writing: as good an answer
    assert status_of(answer) == 413
    assert b"connection: close" in answer


def test_a_body_shorter_than_its_length_meets_the_deadline(server, raw) -> None:
    answer = raw(
        HEAD.replace(b"/mutate", b"/mutate?timeout=1s") + b'Content-Length: 500\r\n\r\n{"kind":"AdmissionReview"'
    )
    assert status_of(answer) == 500
    assert b"DeadlineExceeded" in answer
    assert b"connection: close" in answer


def test_a_body_longer_than_its_length_is_no_second_request(raw, review) -> None:
    body = json.dumps(review("plain")).encode()
    answer = raw(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body + b"GARBAGE \x00 / HTTP/9\r\n\r\n")
    assert answer.endswith(b"Invalid HTTP request received.")
    assert answer.count(b"HTTP/1.1 200") <= 1
    assert b"connection: close" in answer


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
        b"Content-Length: +4\r\n\r\nabcd",
        b"Content-Length: -1\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"X: a\r\n b\x00c\r\n\r\n",
        b"\x00: a\r\n\r\n",
    ],
)
def test_shapes_of_request_smuggling_are_refused_and_the_connection_closed(raw, head) -> None:
    answer = raw(HEAD + head)
    assert status_of(answer) == 400
    assert answer.count(b"HTTP/1.1 ") == 1


def test_pipelined_requests_are_answered_in_their_order(raw, review) -> None:
    requests = b""
    for number in range(5):
        asked = review("plain")
        asked["request"]["uid"] = f"number-{number}"
        body = json.dumps(asked).encode()
        requests += HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    answer = raw(requests, answers=5)
    places = [answer.index(b"number-%d" % number) for number in range(5)]
    assert places == sorted(places)


def test_a_header_without_end_is_cut_off(raw) -> None:
    answer = raw(HEAD + b"X-Long: " + b"a" * 200_000)
    assert status_of(answer) == 431


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"[" * 100_000, 400),
        (b'{"a":' * 100_000, 400),
        (b"\x00" * 1000, 400),
        (bytes(range(256)) * (LIMIT // 256 - 1000), 400),
        (b"[" + b"1," * (VALUES - 2) + b"1]", 400),
        (b"[" + b"1," * (LIMIT // 2 - 1000) + b"1]", 413),
    ],
    ids=["arrays", "objects", "zeros", "noise", "numbers", "more numbers than are decoded"],
)
def test_garbage_is_a_bad_review(server, body, wanted) -> None:
    status, answer = server.post(body)
    assert status == wanted
    assert answer["kind"] == "AdmissionReview"


@pytest.mark.parametrize(
    "spec",
    ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000],
    ids=["arrays", "objects"],
)
def test_a_deep_object_in_a_sound_envelope_is_a_bad_review_that_echoes_its_uid(server, review, spec) -> None:
    asked = review("webhook-demo")
    asked["request"]["object"]["spec"]["x"] = "@"
    status, answer = server.post(json.dumps(asked).replace('"@"', spec).encode())
    assert status == 400
    assert answer["response"]["uid"] == asked["request"]["uid"]


def test_huge_maps_and_lists_are_decided(server, review) -> None:
    asked = review("webhook-demo")
    metadata = asked["request"]["object"]["metadata"]
    metadata["annotations"] |= {f"example.com/a{number}": "x" for number in range(100_000)}
    metadata["labels"] = {f"l{number}": "x" for number in range(50_000)}
    status, answer = server.post(asked)
    assert status == 200
    assert answer["response"]["allowed"] is True


@pytest.mark.parametrize("text", ["\x00", "\x1b[31mred\n{}", "a" * 2_000_000, "../../../x", "\u202e", "\U0001f600"])
@pytest.mark.parametrize("field", ["name", "namespace", "uid", "networks", "container"])
def test_odd_text_anywhere_is_decided_and_stays_one_line_of_log(server, review, field, text) -> None:
    asked = review("webhook-demo")
    if field == "networks":
        asked["request"]["object"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = text
    elif field == "container":
        asked["request"]["object"]["spec"]["containers"][0]["name"] = text
    else:
        asked["request"][field] = text
    status, answer = server.post(asked)
    assert status == 200
    assert answer["response"]["uid"] == asked["request"]["uid"]
    for line in list(server.lines):
        assert len(line) < 4096
        assert json.loads(line)["msg"]


@pytest.mark.parametrize("field", ["name", "namespace", "uid"])
def test_lone_surrogates_are_a_bad_review(server, review, field) -> None:
    asked = review("webhook-demo")
    asked["request"][field] = "\ud800"
    assert server.post(asked)[0] == 400


def test_five_hundred_idle_connections_leave_room_for_the_next(server, review) -> None:
    """Half of them never began the handshake, half never sent a request."""
    context = server.pki.context()
    opened = []
    try:
        for number in range(500):
            plain = socket.create_connection(server.address, timeout=PATIENCE)
            opened.append(plain)
            if number % 10 == 0:
                opened[-1] = context.wrap_socket(plain, server_hostname="localhost")
                opened[-1].sendall(HEAD[: number % len(HEAD)])
        for _ in range(20):
            assert server.post(review("webhook-demo"))[0] == 200
        assert server.get("/readyz")[0] == 200
    finally:
        for connection in opened:
            connection.close()


def test_plain_http_on_the_tls_port_gets_nothing(server) -> None:
    with socket.create_connection(server.address, timeout=PATIENCE) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert not plain.recv(100).startswith(b"HTTP")
