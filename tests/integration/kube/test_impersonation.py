"""Acting as somebody else: what a kubeconfig's `as` fields ask for reaches the API server, and nothing else changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.devtools.sandbox.server import Cluster
from app.errors import ApiError, UsageError
from app.kube.credentials import Impersonation
from app.kube.resources import CONFIG_MAPS, Resource
from app.kube.transport import connect

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster("impersonation") as running:
        yield running


def write(cluster: Cluster, path: Path, **fields: Any) -> str:
    config = yaml.safe_load(cluster.kubeconfig())
    config["users"][0]["user"].update({name.replace("_", "-"): value for name, value in fields.items()})
    path.write_text(yaml.safe_dump(config))
    return str(path)


async def who(kubeconfig: str) -> dict[str, Any]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    async with await connect(kubeconfig=kubeconfig) as client:
        return (await client.post(REVIEWS, body))["status"]["userInfo"]


async def test_the_fields_of_a_kubeconfig_reach_the_server(cluster: Cluster, tmp_path: Path) -> None:
    """User, several groups, uid and extra, the keys of which may hold what no header's name may."""
    extra = {"example.com/scopes": ["read", "write"]}
    given = write(cluster, tmp_path / "as", **{"as": "jane"}, as_groups=["dev", "ops"], as_uid="7", as_user_extra=extra)
    found = await who(given)
    assert (found["username"], found["uid"]) == ("jane", "7")
    assert found["groups"] == ["dev", "ops", "system:authenticated"]
    assert found["extra"]["example.com/scopes"] == ["read", "write"]


async def test_a_service_account_has_its_groups(cluster: Cluster, tmp_path: Path) -> None:
    user = {"as": "system:serviceaccount:berth-system:berth-webhook"}
    found = await who(write(cluster, tmp_path / "as", **user))
    assert found["username"] == "system:serviceaccount:berth-system:berth-webhook"
    assert "system:serviceaccounts:berth-system" in found["groups"]


async def test_only_what_the_other_may_is_possible(cluster: Cluster, tmp_path: Path) -> None:
    async with await connect(kubeconfig=write(cluster, tmp_path / "as", **{"as": "nobody"})) as client:
        with pytest.raises(ApiError, match="nobody") as refused:
            await client.list_page(CONFIG_MAPS)
    assert refused.value.status == 403


async def test_without_the_fields_one_is_oneself(cluster: Cluster, tmp_path: Path) -> None:
    assert (await who(write(cluster, tmp_path / "plain")))["username"] == "admin"


async def test_another_person_in_the_file_takes_effect_when_the_server_refuses_the_first(
    cluster: Cluster, tmp_path: Path
) -> None:
    """A kubeconfig is read again after a 401; a client that went on as the old person would be of no use."""
    path = tmp_path / "as"
    config = yaml.safe_load(cluster.kubeconfig())
    config["users"][0]["user"] = {"token": "outdated", "as": "jane"}
    path.write_text(yaml.safe_dump(config))
    async with await connect(kubeconfig=str(path)) as client:
        write(cluster, path, **{"as": "john"})
        found = await client.post(REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    assert found["status"]["userInfo"]["username"] == "john"


async def test_one_request_is_that_of_another_user(cluster: Cluster, tmp_path: Path) -> None:
    """Also where the client acts as somebody else for all others."""
    reviews = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
    extra = {"example.com/scopes": ("read", "write")}
    other = Impersonation("älice:é@example.com", ("dev", "ops"), "8", extra)
    for fields in ({}, {"as": "jane", "as_groups": ["own"], "as_uid": "7", "as_user_extra": {"own": ["a"]}}):
        async with await connect(kubeconfig=write(cluster, tmp_path / "as", **fields)) as client:
            found = (await client.create(reviews, reviews.body({}), acting_as=other))["status"]["userInfo"]
            assert found == {
                "username": "älice:é@example.com",
                "uid": "8",
                "groups": ["dev", "ops", "system:authenticated"],
                "extra": {"example.com/scopes": ["read", "write"]},
            }
            found = (await client.create(reviews, reviews.body({})))["status"]["userInfo"]
            assert found["username"] == fields.get("as", "admin")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"as_groups": ["dev"]}, "want a user in `as`"),
        ({"as_uid": "7"}, "want a user in `as`"),
        ({"as": "jane", "as_groups": "dev"}, "want a list in as-groups"),
        ({"as": "jane", "as_user_extra": {"scopes": "read"}}, "lists by key in as-user-extra"),
        # Headers lose spaces at both ends: it would be another user.
        ({"as": " admin"}, "cannot be impersonated"),
        ({"as": "jane", "as_groups": ["system:masters "]}, "cannot be impersonated"),
    ],
)
async def test_fields_that_mean_nothing_are_refused(
    cluster: Cluster, tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        await connect(kubeconfig=write(cluster, tmp_path / "as", **fields))
