"""Components that are created as the users who created the AppWrappers. The controller has its own rights and no others."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.appwrappers.controller.controller import AppWrappers
from app.appwrappers.model import APP_WRAPPERS, CREATOR, NO_AUTHOR, RESOURCES_DEPLOYED, UNHEALTHY
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.conditions import condition
from app.kube.credentials import Impersonation
from app.kube.kit import Kit
from app.kube.resources import PODS, SERVICE_ACCOUNTS, VALIDATING_WEBHOOKS, Resource
from app.kube.retry import get_or_none
from app.kube.transport import connect
from app.permissions import permissions_of
from tests.support.appwrapper_reviews import WRAP, Opening, Reviewed
from tests.support.appwrappers import CONFIG, NAMESPACE, SYSTEM, app_wrapper, pod
from tests.support.chart import ASSETS
from tests.support.rbac import allow, token_kubeconfig
from tests.support.real_parts import since
from tests.support.running import at_work
from tests.support.waiting import PATIENCE, eventually

JSON = dict[str, Any]
POLICIES = "admissionregistration.k8s.io"
POLICY = Resource(POLICIES, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
POLICY_BINDING = Resource(
    POLICIES, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
)
ACCOUNT = "berth-controller"
PODS_RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"]}


@contextlib.asynccontextmanager
async def controller(place: Reviewed, mode: str) -> AsyncIterator[KubeClient]:
    """The controller by a token of its service account, with what its role has for this mode of impersonation."""
    await account(place, SYSTEM, ACCOUNT)
    needed = permissions_of("controller", controllers=("appwrappers",), appwrapper_impersonation=mode)
    await allow(place.admin, f"system:serviceaccount:{SYSTEM}:{ACCOUNT}", needed, role=ACCOUNT, release=SYSTEM)
    async with await by_token(place, SYSTEM, ACCOUNT) as client:
        kit = Kit(client, resync=None)
        AppWrappers(kit, config=CONFIG, namespace=SYSTEM, impersonate=True)
        async with at_work(kit):
            yield client


async def account(place: Reviewed, namespace: str, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    await place.admin.create(SERVICE_ACCOUNTS, body, namespace=namespace)


async def by_token(place: Reviewed, namespace: str, name: str) -> KubeClient:
    return await connect(
        kubeconfig=str(await token_kubeconfig(place.admin, place.kubeconfig, namespace, name)), deadline=PATIENCE
    )


async def status(place: Reviewed, name: str) -> JSON:
    found: JSON = (await place.admin.get(APP_WRAPPERS, name, namespace=NAMESPACE)).get("status") or {}
    return found


async def says(place: Reviewed, name: str, kind: str, reason: str, *, component: bool = False) -> str:
    """The message of the condition, as soon as it has this reason."""

    async def look() -> JSON:
        said = await status(place, name)
        return condition((said.get("componentStatus") or [{}])[0] if component else said, kind)

    return str((await eventually(look, lambda one: one.get("reason") == reason))["message"])


async def reaches(place: Reviewed, name: str, phase: str) -> None:
    await eventually(lambda: status(place, name), lambda said: said.get("phase") == phase)


async def is_there(place: Reviewed, name: str) -> bool:
    return await get_or_none(place.admin, PODS, name, namespace=NAMESPACE) is not None


async def test_a_component_is_created_as_who_created_the_app_wrapper(opening: Opening) -> None:
    async with (
        opening(appwrapper_strict=True) as place,
        controller(place, "legacy"),
        place.user("alice", PODS_RULE) as alice,
    ):
        await place.create(app_wrapper("runs", pod("p")), client=alice)
        await reaches(place, "runs", "Running")
        made = await place.admin.get(PODS, "p", namespace=NAMESPACE)
        (owner,) = made["metadata"]["ownerReferences"]
        assert "blockOwnerDeletion" not in owner
        body = app_wrapper("late", pod("late"), suspend=True)
        await place.create(body, client=alice)
        await place.grant("alice", WRAP)
        await place.admin.delete(VALIDATING_WEBHOOKS, "berth")

        async def resumed() -> bool:
            with contextlib.suppress(ApiError):
                await place.change("late", {"spec": {"suspend": False}})
                return True
            return False

        await eventually(resumed)
        said = await says(place, "late", RESOURCES_DEPLOYED, "ComponentCreationErrored", component=True)
        assert 'User "alice" cannot create resource "pods"' in said
        assert not await is_there(place, "late")
        await place.grant("alice", WRAP, PODS_RULE)
        await reaches(place, "late", "Running")
        # All else is done as the controller: alice may not get Pods.
        await place.admin.delete(APP_WRAPPERS, "runs", namespace=NAMESPACE)
        await eventually(lambda: is_there(place, "p"), lambda there: not there)


async def test_a_service_account_creates_as_itself(opening: Opening) -> None:
    async with opening(appwrapper_strict=True) as place, controller(place, "legacy"):
        await account(place, NAMESPACE, "builder")
        await place.grant(f"system:serviceaccount:{NAMESPACE}:builder", WRAP, PODS_RULE)
        async with await by_token(place, NAMESPACE, "builder") as builder:
            await place.create(app_wrapper("built", pod("p")), client=builder)
            await reaches(place, "built", "Running")


async def test_without_a_record_nothing_is_created(opening: Opening) -> None:
    """Where admission is not strict, and where it has been switched off: a record that names no user is none."""
    async with opening() as place, controller(place, "legacy"):
        await place.create(app_wrapper("unknown", pod("p")))
        said = await says(place, "unknown", UNHEALTHY, NO_AUTHOR)
        assert said.startswith(f"the annotation {CREATOR} is missing: it was created without strict admission")
        await place.admin.delete(VALIDATING_WEBHOOKS, "berth")
        body = app_wrapper("strange", pod("p"))
        await place.create(body)

        async def changed() -> bool:
            with contextlib.suppress(ApiError):
                annotations = {CREATOR: '{"username":"alice","groups":[" system:masters"]}'}
                await place.change("strange", {"metadata": {"annotations": annotations}})
                return True
            return False

        await eventually(changed)
        await eventually(
            lambda: says(place, "strange", UNHEALTHY, NO_AUTHOR), lambda said: "cannot be impersonated" in said
        )
        assert not await is_there(place, "p")
        assert (await status(place, "unknown"))["phase"] == "Resuming"


@since(36)
@pytest.mark.skipif(not ASSETS, reason="the sandbox has no policies: KUBEBUILDER_ASSETS")
@pytest.mark.parametrize("opening", [pytest.param("real", marks=pytest.mark.conformance)], indirect=True)
async def test_policies_see_who_created_the_app_wrapper(opening: Opening) -> None:
    """By rights that are bound to the creation of wrapped kinds: they are worth nothing for anything else."""
    async with opening(appwrapper_strict=True) as place, controller(place, "constrained") as ours:
        await policy(place, "deny-alice", "request.userInfo.username != 'alice'", "Pods of alice are not wanted")
        known = "request.userInfo.username != 'bob' || 'devs' in request.userInfo.groups"
        await policy(place, "groups-of-bob", known, "bob is not in devs")
        async with place.user("alice", PODS_RULE) as alice, place.user("bob", PODS_RULE, groups=("devs",)) as bob:
            await eventually(lambda: denied(place, pod("probe"), alice))
            await place.create(app_wrapper("of-alice", pod("a")), client=alice)
            said = await says(place, "of-alice", UNHEALTHY, "CreateFailed")
            assert "ValidatingAdmissionPolicy 'deny-alice'" in said
            await reaches(place, "of-alice", "Failed")
            await place.create(app_wrapper("of-bob", pod("b")), client=bob)
            await reaches(place, "of-bob", "Running")
        masters = await connect(kubeconfig=str(place.kubeconfig), deadline=PATIENCE)
        async with masters:
            await place.create(app_wrapper("of-masters", pod("m")), client=masters)
            said = await says(place, "of-masters", RESOURCES_DEPLOYED, "ComponentCreationErrored", component=True)
            assert "system:masters" in said
        with pytest.raises(ApiError) as refusal:
            await ours.create(
                Resource("", "v1", "secrets", "Secret"),
                {"metadata": {"name": "s"}},
                namespace=NAMESPACE,
                acting_as=Impersonation("bob"),
            )
        assert refusal.value.status == 403
        await account(place, NAMESPACE, "builder")
        await place.grant(f"system:serviceaccount:{NAMESPACE}:builder", WRAP, PODS_RULE)
        async with await by_token(place, NAMESPACE, "builder") as builder:
            await place.create(app_wrapper("built", pod("p")), client=builder)
            await reaches(place, "built", "Running")


async def policy(place: Reviewed, name: str, expression: str, message: str) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec: JSON = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}}
    spec |= {"validations": [{"expression": expression, "message": message}]}
    await place.admin.create(POLICY, POLICY.body({"name": name}, spec=spec))
    bound = {"policyName": name, "validationActions": ["Deny"]}
    await place.admin.create(POLICY_BINDING, POLICY_BINDING.body({"name": name}, spec=bound))


async def denied(place: Reviewed, body: JSON, client: KubeClient) -> bool:
    try:
        await client.create(PODS, body, namespace=NAMESPACE)
    except ApiError as error:
        return "deny-alice" in str(error)
    await place.admin.delete(PODS, body["metadata"]["name"], namespace=NAMESPACE, grace_period_seconds=0)
    return False
