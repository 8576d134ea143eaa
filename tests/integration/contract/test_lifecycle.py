"""Start, readiness, drain, workers, manifests that change."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import signal
from pathlib import Path

import aiohttp
import pytest
import yaml

from tests.support.ports import lasting_port
from tests.support.waiting import PATIENCE

SWITCHES = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "nri-control-switches", "namespace": "berth-system"},
    "data": {"config.json": json.dumps({"features": {"enableHugePageDownApi": True}})},
}


@pytest.fixture
def directory(tmp_path: Path, manifests: Path) -> Path:
    """A directory of manifests that a test may change."""
    own = tmp_path / "manifests"
    own.mkdir()
    (own / "nads.yaml").write_text((manifests / "nads.yaml").read_text())
    return own


def test_it_is_alive_but_not_ready_before_its_caches_are_loaded(launch, pki, tmp_path, review) -> None:
    port = lasting_port()
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    document = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [cluster]}
    document |= {"contexts": [context], "users": [{"name": "u", "user": {}}]}
    kubeconfig.write_text(yaml.safe_dump(document))
    server = launch(pki, "--insecure", f"--kubeconfig={kubeconfig}", source=None)
    server.until(lambda: server.get("/healthz")[0] == 200, "alive")
    server.until(lambda: "was refused" in server.get("/readyz")[1], "listening, and refused")
    status, text = server.get("/readyz")
    assert status == 503
    waiting = " ".join(json.loads(text)["waitingFor"])
    assert "network-attachment-definitions" in waiting
    assert "configmaps" in waiting
    # What needs no cache is answered; what does is a failure and no denial.
    assert server.post(review("plain"))[0] == 200
    status, answer = server.post(review("webhook-demo"))
    assert status == 500
    assert answer["response"]["status"]["reason"] == "Unavailable"
    assert server.process.poll() is None
    server.signal()
    assert server.wait() == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_pod_alike_is_answered_from_the_memo_until_an_attachment_changes(
    launch, pki, directory, review, workers
) -> None:
    server = launch(pki, "--insecure", f"--workers={workers}", source=directory).until_ready()
    asked = review("webhook-demo")
    answers = [server.post(asked)[1] for _ in range(8)]
    assert answers == answers[:1] * 8

    def hits() -> float:
        return server.metrics().get('admission_memo_lookups_total{result="hit"}', 0)

    server.until(lambda: hits() >= 8 - 2 * int(workers), "hits in the metrics")
    server.until(lambda: server.metrics().get('admission_memo_bytes{webhook="mutate"}', 0) > 0, "bytes in the metrics")
    lines = server.until(lambda: len(found := server.events("review")) == 8 and found, "eight lines")
    varying = {"time", "duration_ms"}
    assert len({str({key: value for key, value in one.items() if key not in varying}) for one in lines}) == 1
    path = directory / "nads.yaml"
    path.write_text(path.read_text().replace("example.com/foo", "example.com/changed"))
    server.until(lambda: server.post(asked)[1] != answers[0], "the answer after the change")


def test_manifests_are_followed_and_broken_ones_keep_the_last_good_state(launch, pki, directory, review) -> None:
    server = launch(pki, "--insecure", source=directory).until_ready()
    asked = review("webhook-demo")
    asked["request"]["object"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = "later"

    def allowed() -> bool:
        return server.post(asked)[1]["response"]["allowed"]  # type: ignore[no-any-return]  # JSON

    assert not allowed()
    later = (directory / "nads.yaml").read_text().split("---")[0].replace("foo-network", "later")
    (directory / "later.yaml").write_text(later)
    server.until(allowed, "the new attachment")
    (directory / "later.yaml").write_text(later + "\n  broken: [")
    place = re.compile(rf"{re.escape(str(directory / 'later.yaml'))}:\d")
    server.until(lambda: any(map(place.search, server.lines)), "the place of the fault in the log")
    assert server.get("/readyz")[0] == 200  # one document costs itself alone
    assert allowed()
    (directory / "later.yaml").unlink()
    server.until(lambda: not allowed(), "the attachment gone")
    server.until_ready()


def test_control_switches_of_our_namespace_count(launch, pki, directory, review, patched) -> None:
    (directory / "switches.yaml").write_text(yaml.safe_dump(SWITCHES))
    server = launch(pki, "--insecure", source=directory, env={"NAMESPACE": "berth-system"}).until_ready()
    asked = review("rich")

    def files() -> str:
        return json.dumps(patched(asked, server.post(asked)[1])["spec"]["volumes"])

    assert "hugepages_1G_limit_app" in files()
    elsewhere = SWITCHES | {"metadata": {"name": "nri-control-switches", "namespace": "kube-system"}}
    (directory / "switches.yaml").write_text(yaml.safe_dump(elsewhere))
    server.until(lambda: "hugepages_1G_limit_app" not in files(), "the switches of another namespace ignored")


class Clients:
    """Clients that send only to replicas whose /readyz is 200, and learn of it late, as in a cluster."""

    def __init__(self, servers, body: str) -> None:
        self.servers, self.body = servers, body
        self.ready = set(servers)
        self.stopped = asyncio.Event()
        self.answered = dict.fromkeys(servers, 0)

    async def follow_readiness(self) -> None:
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while not self.stopped.is_set():
                for server in self.servers:
                    try:
                        async with session.get("http://{}:{}/readyz".format(*server.health_address)) as answer:
                            ready = answer.status == 200
                    except aiohttp.ClientError:
                        ready = False
                    (self.ready.add if ready else self.ready.discard)(server)
                await asyncio.sleep(0.7)

    async def send(self, number: int, *, keep: bool) -> None:
        connector = aiohttp.TCPConnector(ssl=self.servers[0].pki.context(), force_close=not keep)
        async with aiohttp.ClientSession(connector=connector) as session:
            while not self.stopped.is_set():
                ready = [server for server in self.servers if server in self.ready]
                assert ready, "no replica is left"
                server, number = ready[number % len(ready)], number + 1
                headers = {"Content-Type": "application/json"}
                async with session.post(f"{server.url}/mutate", data=self.body, headers=headers) as answer:
                    assert answer.status == 200
                    assert (await answer.json())["response"]["allowed"] is True
                self.answered[server] += 1
                await asyncio.sleep(0.03)  # more would be load for its own sake

    async def until(self, true, what: str) -> None:
        await asyncio.to_thread(self.servers[-1].until, true, what)


@pytest.mark.parametrize("workers", [1, 2])
async def test_no_request_fails_while_a_replica_is_stopped(launch, pki, review, workers) -> None:
    first, second = (launch(pki, "--insecure", "--drain-seconds=6", f"--workers={workers}") for _ in range(2))
    first.until_ready()
    second.until_ready()
    clients = Clients([first, second], json.dumps(review("webhook-demo")))

    async def scenario() -> None:
        await clients.until(lambda: min(clients.answered.values()) > 20, "load on both")
        first.signal(signal.SIGTERM)
        assert await asyncio.to_thread(first.wait) == 0
        seen = clients.answered[second]
        await clients.until(lambda: clients.answered[second] > seen + 20, "load on the other")
        clients.stopped.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(clients.follow_readiness())
        for number, keep in enumerate((True, False, True, False)):
            tasks.create_task(clients.send(number, keep=keep))
        tasks.create_task(scenario())
    assert len(first.events("drained")) == workers
    errors = [event for event in first.events("review") if event["decision"] != "allowed"]
    assert errors == []


def test_a_review_under_way_is_answered_after_the_signal(launch, pki, review) -> None:
    """Its body is still coming in when the drain begins and ends."""
    server = launch(pki, "--insecure", "--drain-seconds=0.1").until_ready()
    body = json.dumps(review("webhook-demo")).encode()
    connection = server.connect()
    connection.putrequest("POST", "/mutate")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body[:100])
    server.until(lambda: server.metrics()['admission_in_flight{webhook="mutate"}'] == 1, "under way")
    server.signal()
    server.until(lambda: server.get("/readyz")[0] != 200, "unready")
    connection.send(body[100:])
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.getheader("Connection") == "close"
    assert json.loads(answer.read())["response"]["allowed"] is True
    connection.close()
    assert server.wait() == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_interrupt_ends_a_long_drain(launch, pki, workers) -> None:
    server = launch(pki, "--insecure", "--drain-seconds=300", f"--workers={workers}").until_ready()
    # As a terminal does it: to the whole group of processes, each time.
    os.killpg(server.process.pid, signal.SIGINT)
    server.until(lambda: len(server.events("draining")) == workers, "draining")
    asyncio.run(asyncio.sleep(0.4))
    assert server.process.poll() is None
    os.killpg(server.process.pid, signal.SIGINT)
    assert server.wait() == 1
    assert "Traceback" not in "".join(server.lines)


def test_an_interrupt_while_the_workers_start_shows_no_traceback(launch, pki) -> None:
    server = launch(pki, "--insecure", "--workers=2")
    server.until(lambda: len(workers_of(server)) == 2, "the workers' processes")
    os.killpg(server.process.pid, signal.SIGINT)
    assert server.wait() == 0, server.lines
    assert "Traceback" not in "".join(server.lines)


def test_the_same_signal_twice_at_once_is_one_wish(launch, pki) -> None:
    """As wrappers send it: to the child, and to the group that the child is in."""
    server = launch(pki, "--insecure", "--drain-seconds=0.5").until_ready()
    server.signal()
    server.signal()
    assert server.wait() == 0
    assert server.events("drained")
    assert len(server.events("stopping")) == 1


def workers_of(server) -> list[int]:
    """The process ids of the workers, oldest first."""
    return sorted(worker for forks in children(server.process.pid) for worker in children(forks))


def children(pid: int) -> list[int]:
    """Those of its main thread; none where it is gone."""
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def alive(pid: int) -> bool:
    """Whether the process is there and no zombie that nobody has buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_workers_share_the_port_are_summed_and_replaced(launch, pki, review) -> None:
    server = launch(pki, "--insecure", "--workers=2").until_ready()
    count = 'admission_requests_total{decision="allowed",operation="CREATE",webhook="mutate"}'
    assert server.metrics()[count] == 0
    for _ in range(30):
        assert server.post(review("plain"))[0] == 200
    server.until(lambda: server.metrics()[count] == 30, "metrics summed")
    assert server.metrics()["cert_not_after_seconds"] > pki.now.timestamp()
    assert server.metrics()['cache_objects{kind="NetworkAttachmentDefinition"}'] == 2
    before, spent = workers_of(server), server.metrics()["process_cpu_seconds_total"]
    assert len(before) == 2
    resource.prlimit(before[0], resource.RLIMIT_CORE, (0, 0))
    os.kill(before[0], signal.SIGABRT)
    server.until_unready("worker")
    server.until_ready()
    after = workers_of(server)
    assert len(after) == 2
    assert before[1] in after
    for _ in range(30):
        assert server.post(review("plain"))[0] == 200
    server.until(lambda: server.metrics()[count] == 60, "the dead worker's count is kept")
    assert server.metrics()["worker_restarts_total"] == 1
    assert server.metrics()["process_cpu_seconds_total"] > spent, "what the dead worker spent is kept"
    server.signal()
    while (status := server.get("/metrics")[0]) and server.process.poll() is None:
        assert status == 200, "they can be scraped for as long as they are served"
    assert server.wait() == 0
    assert "Fatal Python error: Aborted" in "".join(server.lines)
    assert "Traceback" not in "".join(server.lines)


def test_a_worker_shares_what_was_imported(launch, pki) -> None:
    server = launch(pki, "--insecure", "--workers=2").until_ready()
    for pid in workers_of(server):
        fields = dict(line.split(":") for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
        private = sum(int(fields[name].split()[0]) for name in ("Private_Clean", "Private_Dirty"))
        assert private < 20 * 1024, "KiB of its own"


def test_workers_start_where_the_path_of_temporary_files_is_long(launch, pki, tmp_path) -> None:
    """The path of a socket has at most 107 bytes."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    server = launch(pki, "--insecure", "--workers=2", env={"TMPDIR": str(folder)}).until_ready()
    server.signal()
    assert server.wait() == 0


def test_workers_are_replaced_when_what_forks_them_is_killed(launch, pki, review) -> None:
    """The parent cannot follow them any more."""
    server = launch(pki, "--insecure", "--workers=2", "--drain-seconds=0").until_ready()
    before = set(workers_of(server))
    for pid in children(server.process.pid):
        if set(children(pid)) & before:
            os.kill(pid, signal.SIGKILL)
    server.until(lambda: len(set(workers_of(server)) - before) == 2, "other workers")
    server.until_ready()
    assert server.post(review("plain"))[0] == 200
    server.until(lambda: not [pid for pid in before if alive(pid)], "the end of the old ones")
    server.signal()
    assert server.wait() == 0


def test_health_answers_while_what_forks_workers_imports_and_after_it_was_killed(launch, pki, review) -> None:
    server = launch(pki, "--insecure", "--workers=2")

    def importing() -> list[int]:
        found = children(server.process.pid)
        return [pid for pid in found if b"forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    (forks,) = server.until(importing, "the process that forks")
    os.kill(forks, signal.SIGSTOP)
    assert server.get("/healthz")[0] == 200
    assert server.get("/readyz")[0] == 503
    os.kill(forks, signal.SIGKILL)
    server.until_ready()
    assert server.post(review("plain"))[0] == 200
    server.signal()
    assert server.wait() == 0
    assert "Traceback" not in "".join(server.lines)


def test_a_stop_while_what_forks_workers_imports(launch, pki) -> None:
    server = launch(pki, "--insecure", "--workers=2")
    server.until(lambda: server.get("/healthz")[0] == 200, "alive")
    server.signal()
    assert server.wait() == 0
    assert "Traceback" not in "".join(server.lines)


def test_workers_import_nothing_from_the_working_directory(launch, pki, tmp_path) -> None:
    """Many projects have an `app` there."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("raise SystemExit('not this one')")
    launch(pki, "--insecure", "--workers=2", cwd=tmp_path).until_ready()


def test_workers_start_where_shared_memory_alone_can_be_written(launch, pki) -> None:
    module = "tests.support.programs.without_temporary_files"
    launch(pki, "--insecure", "--workers=2", module=module).until_ready()


def test_workers_end_when_their_parent_is_killed(launch, pki) -> None:
    server = launch(pki, "--insecure", "--workers=2").until_ready()
    workers = workers_of(server)
    server.process.kill()
    server.process.wait()
    # The pipe of standard error ends when the last of them has ended.
    server.wait()
    assert not [pid for pid in workers if alive(pid)]
    assert len(server.events("drained")) == 2
