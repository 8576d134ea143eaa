"""What admission adds: differences with intervals, the API server's own sums, and answers that are read whole."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.admission_arms import ARMS, sums_of
from bench.admission_report import Condition, Difference, Run, write
from bench.creations import Arm, Connection, CreationError, Outcome, Series, Server, over_connections

ONE = Condition(connections=1)


def outcome(**milliseconds: list[float]) -> Outcome:
    """One creation a block."""
    series = {name.replace("_", " "): Series([[time / 1000] for time in times]) for name, times in milliseconds.items()}
    return Outcome(series, busy=0.1, rate=100.0, machine=0.5)


def run_of(*outcomes: Outcome, means: dict[str, float] | None = None, condition: Condition = ONE) -> Run:
    return Run.of([(condition, outcomes, means or {})], creations=200, rounds=len(outcomes), attachments=2)


def test_difference_of_percentiles_with_its_interval() -> None:
    times = [2.0 + number % 10 / 10 for number in range(400)]
    slower = [time + 1.5 for time in times]
    (figure,) = run_of(outcome(none=times, webhook=slower), means={"webhook.bench.berth.dev": 0.0009}).found
    assert (figure.arm, figure.against, figure.condition) == ("webhook", "none", "1 connection")
    assert figure.p50.value == pytest.approx(1.5)
    assert figure.p50.low <= 1.5 <= figure.p50.high
    assert figure.p99.value == pytest.approx(1.5)
    assert figure.server == pytest.approx(0.9)


def test_interval_of_arms_that_are_alike_contains_zero() -> None:
    left = [2.0 + number * 7 % 13 / 10 for number in range(500)]
    right = [2.0 + number * 5 % 13 / 10 for number in range(500)]
    (figure,) = run_of(outcome(none=left, webhook=right)).found
    assert figure.p50.low <= 0 <= figure.p50.high


TIMES = [2.0 + number % 10 / 10 for number in range(200)]
SLOWER = [time + 1.0 for time in TIMES]


def page_of(run: Run, folder: Path) -> str:
    write(run, folder)
    return (folder / "bench-apiserver.md").read_text()


def test_what_is_kept_reads_as_it_was(tmp_path: Path) -> None:
    run = run_of(outcome(none=TIMES, webhook=SLOWER), outcome(none=TIMES, webhook=SLOWER))
    run.save(tmp_path / "run.json")
    assert Run.load(tmp_path / "run.json") == run
    (kept,) = json.loads((tmp_path / "run.json").read_text())["found"]
    assert kept["limits"] == [pytest.approx(1.2), pytest.approx(1.2)]


@pytest.mark.parametrize(("added", "failing"), [(1.1, 0), (1.4, 2)])
def test_a_run_fails_that_is_a_fifth_above_the_one_that_is_kept(added: float, failing: int) -> None:
    kept = run_of(outcome(none=TIMES, webhook=SLOWER))
    later = run_of(outcome(none=TIMES, webhook=[time + added for time in TIMES]))
    failures = later.failures(kept)
    assert len(failures) == failing
    assert all("webhook against none: p" in failure and "want at most 1.20 ms" in failure for failure in failures)


def test_a_client_or_a_rate_that_is_saturated_is_told_in_place_of_a_difference(tmp_path: Path) -> None:
    found = outcome(none=TIMES, webhook=SLOWER)
    client = run_of(replace(found, busy=0.9))
    late = run_of(found, condition=Condition(rate=110.0))
    kept_up = run_of(found, condition=Condition(rate=101.0))
    assert "saturated: the client sets the pace" in page_of(client, tmp_path)
    assert "saturated: the rate is not kept" in page_of(late, tmp_path)
    assert "saturated:" not in page_of(kept_up, tmp_path)
    for run in (client, late):
        assert [figure.limits for figure in run.found] == [(None, None)]
        assert run.failures(run_of(found)) == []
        assert "+1.00 (" not in page_of(run, tmp_path)


def test_an_interval_with_zero_in_it_is_no_difference(tmp_path: Path) -> None:
    (figure,) = run_of(outcome(none=TIMES, webhook=SLOWER)).found
    unsure = figure._replace(p50=Difference(0.3, -0.1, 0.6))
    page = page_of(replace(run_of(outcome(none=TIMES)), found=[unsure]), tmp_path)
    assert "none seen (-0.10 to +0.60)" in page
    assert "+0.30" not in page


def test_page_is_the_same_for_the_same_figures(tmp_path: Path) -> None:
    run = run_of(outcome(none=[2.0, 2.1, 2.2], policies=[3.0, 3.1, 3.2], identity_policy=[2.9, 3.0, 3.1]))
    for name in ("first", "second"):
        write(run, tmp_path / name)
    for file in ("bench-apiserver.md", "bench-apiserver.svg"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()
    page = (tmp_path / "first" / "bench-apiserver.md").read_text()
    assert "| 1 connection | policies | identity policy | 3.00 | +0.10" in page


def test_sums_of_the_api_servers_histograms() -> None:
    text = """# TYPE apiserver_admission_webhook_admission_duration_seconds histogram
apiserver_admission_webhook_admission_duration_seconds_bucket{name="webhook.bench.berth.dev",le="0.005"} 9
apiserver_admission_webhook_admission_duration_seconds_sum{name="webhook.bench.berth.dev",operation="CREATE"} 0.25
apiserver_admission_webhook_admission_duration_seconds_count{name="webhook.bench.berth.dev",operation="CREATE"} 100
apiserver_admission_webhook_admission_duration_seconds_sum{name="webhook.bench.berth.dev",operation="UPDATE"} 0.05
apiserver_admission_webhook_admission_duration_seconds_count{name="webhook.bench.berth.dev",operation="UPDATE"} 20
apiserver_request_duration_seconds_sum{verb="POST"} 7
"""
    assert sums_of(text) == {"webhook.bench.berth.dev": (pytest.approx(0.3), 120.0)}


def test_request_has_the_number_of_its_pod() -> None:
    head, _, body = ARMS["webhook"].request("localhost", 7).partition(b"\r\n\r\n")
    assert b"POST /api/v1/namespaces/bench-webhook/pods HTTP/1.1" in head
    assert f"Content-Length: {len(body)}".encode() in head
    assert json.loads(body)["metadata"]["name"] == "webhook-demo-7"


@pytest.mark.parametrize("parts", [1, 7, 1000], ids=["at once", "in pieces", "byte by byte"])
def test_answers_are_read_whole_however_they_arrive(parts: int) -> None:
    answer = b'HTTP/1.1 201 Created\r\nContent-Length: 12\r\n\r\n{"kind":"x"}'

    class Wire(asyncio.Transport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            size = max(1, len(answer) // parts)
            for start in range(0, len(answer), size):
                connection.data_received(answer[start : start + size])

        def is_closing(self) -> bool:
            return False

    async def send() -> tuple[int, bytes]:
        connection.connection_made(Wire())
        return await connection.send(b"")

    connection = Connection()
    assert asyncio.run(send()) == (201, b'{"kind":"x"}')


def test_refusal_ends_the_run_with_its_message() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        body = b'{"message":"pods is forbidden"}'
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set()

    async def run() -> None:
        listening = await asyncio.start_server(refuse, "127.0.0.1", 0)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            server = Server("127.0.0.1", port, None)
            with pytest.raises(CreationError, match="HTTP 403: pods is forbidden"):
                await over_connections(server, [Arm("a", "b", "{}")], connections=1, creations=3, numbers=lambda: 1)
            await ended.wait()

    ended = asyncio.Event()
    asyncio.run(run())
