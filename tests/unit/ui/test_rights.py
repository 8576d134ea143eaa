"""What a caller may read: how it is asked, how long an answer counts, and what the client of a caller refuses."""

from __future__ import annotations

from typing import Any

import pytest

from app.doctor.model import NO_RIGHT, unchecked
from app.errors import ApiError
from app.kube.client import KubeClient, Request
from app.kube.resources import NODES, PODS, SECRETS
from app.ui.footprints import Footprint
from app.ui.reader import Reader
from app.ui.rights import KEPT, Caller, OfCaller, Own, Reviews, Right
from app.ui.stores import Stores, kept, without_secrets
from tests.support.clock import Clock

JSON = dict[str, Any]
ALICE = Caller("alice", groups=("team",))


class Session:
    """Answers access reviews by a set of (verb, resource, namespace, name), and notes what it is asked."""

    server = "https://api.example"

    def __init__(self, *allowed: tuple[str, str, str, str]) -> None:
        self.allowed, self.asked = set(allowed), list[Request]()
        self.denied = False

    async def json(self, request: Request, **_: Any) -> JSON:
        self.asked.append(request)
        if not isinstance(request.body, dict) or request.body.get("kind") != "SubjectAccessReview":
            return {}
        attributes = request.body["spec"].get("resourceAttributes", {})
        question = tuple(attributes.get(name, "") for name in ("verb", "resource", "namespace", "name"))
        return {"status": {"allowed": question in self.allowed, "denied": self.denied}}


def rights_of(session: Session, clock: Clock | None = None) -> OfCaller:
    return OfCaller(Reviews(KubeClient(session), clock=clock or Clock()), ALICE)  # type: ignore[arg-type]


GET = Right("get", PODS, "team", "web")


@pytest.mark.parametrize(
    ("grant", "asked"),
    [(("get", "pods", "", ""), 1), (("get", "pods", "team", ""), 2), (("get", "pods", "team", "web"), 3)],
)
async def test_the_widest_right_is_asked_about_first(grant: tuple[str, str, str, str], asked: int) -> None:
    session = Session(grant)
    assert await rights_of(session).allowed(GET)
    assert len(session.asked) == asked
    assert [request.path for request in session.asked] == ["/apis/authorization.k8s.io/v1/subjectaccessreviews"] * asked


async def test_without_a_grant_there_is_no_right() -> None:
    session = Session(("get", "pods", "other", ""), ("list", "pods", "", ""))
    assert not await rights_of(session).allowed(GET)


async def test_who_is_denied_is_not_allowed() -> None:
    session = Session(("get", "pods", "", ""))
    session.denied = True
    assert not await rights_of(session).allowed(GET)


async def test_answers_count_for_some_seconds() -> None:
    session, clock = Session(("get", "pods", "", "")), Clock()
    rights = rights_of(session, clock)
    for now, asked in ((0.0, 1), (KEPT - 0.1, 1), (KEPT, 2)):
        clock.now = now
        assert await rights.allowed(GET)
        assert len(session.asked) == asked


async def test_nobody_in_a_cluster_has_a_right_to_secrets() -> None:
    session = Session(("get", "secrets", "", ""))
    assert not await rights_of(session).allowed(Right("get", SECRETS, "team", "tls"))
    assert session.asked == []


@pytest.mark.parametrize(
    ("right", "text"),
    [
        (GET, "get pods in namespace team"),
        (Right("list", PODS, "team"), "list pods in namespace team"),
        (Right("list", NODES), "list nodes in the whole cluster"),
        (Right("get", NODES, "", "host-a"), "get nodes in the whole cluster"),
    ],
)
def test_a_refusal_is_worded_as_the_doctor_words_it(right: Right, text: str) -> None:
    finding = unchecked(right.refusal)
    assert finding.code == NO_RIGHT
    assert text in finding.message


def reader(session: Session, rights: Any) -> Reader:
    return Reader(Stores(KubeClient(session)), rights, Footprint())  # type: ignore[arg-type]


@pytest.mark.parametrize("own", [True, False])
async def test_the_reader_changes_nothing(*, own: bool) -> None:
    session = Session(("create", "subjectaccessreviews", "", ""))
    client = reader(session, Own() if own else rights_of(Session()))
    pod = {"metadata": {"name": "web"}}
    for write in (
        client.create(PODS, pod, namespace="team"),
        client.replace(PODS, "web", pod, namespace="team"),
        client.patch(PODS, "web", pod, patch_type="merge", namespace="team"),
        client.apply(PODS, "web", pod, namespace="team"),
        client.delete(PODS, "web", namespace="team"),
        client.post("/api/v1/namespaces/team/pods", pod),
        client.post("/api/v1/namespaces/team/pods?dryRun=All&x=?dryRun=", pod),
    ):
        with pytest.raises(ApiError, match="the page only reads"):
            await write
    with pytest.raises(ApiError, match="the page only reads"):
        client.watch(PODS)
    assert session.asked == []


async def test_dry_runs_are_sent_with_the_rights_of_the_kubeconfig_alone() -> None:
    session = Session()
    await reader(session, Own()).post("/api/v1/namespaces/team/pods?dryRun=All", {})
    assert len(session.asked) == 1
    with pytest.raises(ApiError, match="the page only reads"):
        await reader(session, rights_of(Session())).post("/api/v1/namespaces/team/pods?dryRun=All", {})
    assert len(session.asked) == 1


async def test_questions_about_others_need_the_right_to_ask_them() -> None:
    with pytest.raises(ApiError, match="HTTP 403"):
        await reader(Session(), rights_of(Session())).post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {})


@pytest.mark.parametrize(
    "path",
    ["/api/v1/secrets", "/api/v1/namespaces/team/secrets/tls", "/apis/apps/v1/deployments", "/metrics", "/logs/x"],
)
async def test_paths_of_objects_are_not_read_past_the_rights(path: str) -> None:
    session = Session()
    with pytest.raises(ApiError, match="the page only reads"):
        await reader(session, Own()).get_path(path)
    assert session.asked == []


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/team/services/web/proxy/x",
        "/api/v1/nodes/n/proxy/x",
        "/api/v1/namespaces/team/pods/web/exec",
    ],
)
async def test_the_proxy_is_that_of_pods_alone(path: str) -> None:
    with pytest.raises(ApiError, match="the page only reads"):
        await reader(Session(), Own()).relayed(path)


def test_what_is_kept_has_no_secrets_and_no_second_copy() -> None:
    secret = {
        "kind": "UVSSecret",
        "metadata": {"name": "s"},
        "data": {"a": "x"},
        "spec": {"data": {"a": "x"}},
        "status": {"a": 1},
    }
    assert "x" not in repr(without_secrets(secret))
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    pod = {"kind": "Pod", "metadata": {"name": "p", "annotations": {applied: "{}", "b": "c"}, "managedFields": [{}]}}
    assert kept(pod)["metadata"] == {"name": "p", "annotations": {"b": "c"}}
    assert applied in pod["metadata"]["annotations"]  # type: ignore[index]
