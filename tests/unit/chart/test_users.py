"""Rights of users that come with `view`, `edit` and `admin`, and those that an admin binds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.registry import CLUSTERS, CONTROLLERS, kinds_of
from app.rmd.model import RMD_WORKLOADS
from app.workloads.model import ADMIN_RULES, TENANTS, UVS_RESOURCES, UVS_SECRETS, WORKLOAD_RULES
from tests.support.chart import JSON, Render
from tests.support.chart_combinations import ALL, COMBINATIONS

EVERY = {**ALL, "controller": {"enabled": True, "args": {"controllers": [*CONTROLLERS]}}}
AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
READ = {"get", "list", "watch"}
WRITE = {"create", "delete", "patch", "update"}
Granted = set[tuple[str, str, str]]


def roles(render: Render, values: JSON) -> Iterator[tuple[str, set[str], Granted]]:
    """Name, what it is aggregated to, and (group, resource, verb), of each role for users."""
    for role in render(values).of("ClusterRole"):
        name, labels = role["metadata"]["name"], role["metadata"]["labels"]
        if name.rpartition("-")[2] not in ("viewer", "user", "editor"):
            assert not any(key.startswith(AGGREGATE) for key in labels)
            continue
        aggregated = {key.removeprefix(AGGREGATE) for key, value in labels.items() if key.startswith(AGGREGATE)}
        assert all(rule.keys() == {"apiGroups", "resources", "verbs"} for rule in role["rules"])
        granted = {
            (group, resource, verb)
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        yield name, aggregated, granted


def of(granted: Granted, verbs: set[str]) -> set[tuple[str, str]]:
    return {(group, resource) for group, resource, verb in granted if verb in verbs}


def test_what_users_may_write_because_they_may_edit_reaches_no_further_than_their_namespace(render: Render) -> None:
    """Rules of the admin run trusted Pods for all tenants, and an RmdWorkload takes cache ways of any node."""
    written = set[tuple[str, str]]()
    for name, aggregated, granted in roles(render, EVERY):
        assert {verb for _, _, verb in granted} <= READ | WRITE
        assert aggregated <= {"view", "edit", "admin"}, name
        if "view" in aggregated:
            assert not of(granted, WRITE), name
            assert (UVS_SECRETS.group, UVS_SECRETS.plural) not in of(granted, READ), "view reads no Secrets"
        if aggregated:
            written |= of(granted, WRITE)
    tenants = {(kind.group, kind.plural) for kind in (WORKLOAD_RULES, *UVS_RESOURCES)}
    assert written <= tenants | {("workload.codeflare.dev", "appwrappers")}
    assert tenants <= written
    unbound = {name for name, aggregated, granted in roles(render, EVERY) if not aggregated}
    assert unbound == {"berth-admin-rule-editor", "berth-appwrapper-user", "berth-rmd-editor"}


def test_users_may_read_every_namespaced_kind_of_berth(render: Render) -> None:
    """But the objects of Secrets. Tenants are of no namespace, as nodes are: `view` has neither."""
    read = set[tuple[str, str]]()
    for values in COMBINATIONS.values():
        for _, aggregated, granted in roles(render, values):
            read |= of(granted, READ) if "view" in aggregated else set()
    kinds = {(kind.group, kind.plural) for cluster, title in CLUSTERS.items() if title for kind in kinds_of(cluster)}
    assert kinds - read == {(kind.group, kind.plural) for kind in (TENANTS, UVS_SECRETS)}


@pytest.mark.parametrize(
    ("combination", "names"),
    [
        ("infra", {"attachment-viewer", "admin-rule-viewer", "admin-rule-editor"}),
        ("tenant", {"rule-viewer", "rule-editor"}),
        ("defaults", {"attachment-viewer"}),
    ],
)
def test_rights_are_there_where_the_kinds_are(render: Render, combination: str, names: set[str]) -> None:
    assert {name.removeprefix("berth-") for name, _, _ in roles(render, COMBINATIONS[combination])} == names


@pytest.mark.parametrize("webhook", [True, False])
def test_users_read_attachments_where_policies_inject(render: Render, *, webhook: bool) -> None:
    """One role, whether the webhook runs or not."""
    keeping = {"enabled": True, "args": {"controllers": ["policies"]}}
    values = {"mode": "both" if webhook else "policies", "controller": keeping, "webhook": {"enabled": webhook}}
    named = [name for name, _, _ in roles(render, values)]
    assert named == ["berth-attachment-viewer"]


def test_editors_write_what_there_is_to_write(render: Render) -> None:
    granted = {name: granted for name, _, granted in roles(render, EVERY)}
    assert of(granted["berth-admin-rule-editor"], WRITE) == {(ADMIN_RULES.group, ADMIN_RULES.plural)}
    assert of(granted["berth-rmd-editor"], WRITE) == {(RMD_WORKLOADS.group, RMD_WORKLOADS.plural)}
