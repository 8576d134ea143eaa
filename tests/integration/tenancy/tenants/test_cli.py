"""`berth tenant`, as it is typed, against an API server."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from app.certs.certificate_set import fingerprint
from app.certs.issuing import common_name_of, encode_certificate, issue_authority, names_of
from app.cli.main import run
from app.errors import ApiError
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SECRETS
from app.placement.model import TENANT_LABEL
from app.tenancy.model import CA_SECRET
from app.tenancy.namespace import POD_SECURITY
from app.tenancy.tenants.bundles import Issuing
from app.tenancy.tenants.changes import Adding
from app.tenancy.tenants.enrolling import add
from app.workloads.model import SYSTEM_NAMESPACE, TENANTS
from tests.support.tenants import tenant


def certificate_in(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "tls.crt").read_bytes())


async def test_add_makes_tenant_namespace_and_bundle(cluster, tmp_path) -> None:
    """The certificate in the bundle is the one that the Tenant pins, and the CA in the cluster has signed it."""
    folder = tmp_path / "bundle"
    result = await cluster.berth("add", "tenant1", "--host", "host-a", "--host", "host-b", "--out", str(folder))
    assert (result.status, result.err) == (0, "")
    assert "tenant tenant1 created" in result.out
    assert f"kubectl apply -f {folder}/secret.yaml" in result.out
    certificate = certificate_in(folder)
    spec = await cluster.spec()
    assert spec["identity"]["names"] == ["tenant1.tenant.local"]
    assert [pin["sha256"] for pin in spec["identity"]["certificates"]] == [fingerprint(certificate)]
    assert datetime.fromisoformat(spec["identity"]["certificates"][0]["until"]) == certificate.not_valid_after_utc
    assert spec["hosts"] == ["host-a", "host-b"]
    namespace = await cluster.client.get(NAMESPACES, "tenant-tenant1")
    assert namespace["metadata"]["labels"][TENANT_LABEL] == "tenant1"
    assert namespace["metadata"]["labels"][POD_SECURITY] == "baseline"
    authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    certificate.verify_directly_issued_by(authority)
    assert common_name_of(certificate) == "tenant1.tenant.local"
    assert names_of(certificate) == ["tenant1.tenant.local"]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    stored = await cluster.client.get(SECRETS, CA_SECRET, namespace=SYSTEM_NAMESPACE)
    assert base64.b64decode(stored["data"]["ca.crt"]) == (folder / "ca.crt").read_bytes()


async def test_the_bundle_is_private_and_its_secret_is_the_same(cluster, tmp_path) -> None:
    """Nobody but the owner reads any of it; secret.yaml can be created as it is."""
    folder = tmp_path / "bundle"
    await cluster.berth("add", "tenant1", "--out", str(folder))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    manifest = yaml.safe_load((folder / "secret.yaml").read_text())
    assert (manifest["metadata"]["name"], manifest["metadata"]["namespace"]) == ("berth-agent", "berth-system")
    await cluster.client.create(NAMESPACES, NAMESPACES.body({"name": "berth-system"}))
    await cluster.client.create(SECRETS, manifest, namespace="berth-system")
    for name, value in manifest["data"].items():
        assert base64.b64decode(value) == (folder / name).read_bytes()
    assert (folder / "gateway-name").read_text() == "api-gateway.local"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "infra.kubeconfig"]


async def test_git_ignores_what_is_secret(cluster, tmp_path) -> None:
    """In any repository, under whatever name of the directory; a second bundle replaces the first."""

    async def git(*arguments: str) -> str:
        run_git = partial(subprocess.run, check=True, capture_output=True, text=True)
        return (await asyncio.to_thread(run_git, ["git", *arguments], cwd=tmp_path)).stdout

    await git("init", "--quiet")
    for command in ("add", "rotate"):
        assert (await cluster.berth(command, "tenant1", "--out", "handed-over")).status == 0
    assert (await cluster.berth("authority", "--out", "authority")).status == 0
    assert await git("status", "--porcelain", "--untracked-files=all") == "?? infra.kubeconfig\n"


async def test_the_namespaces_of_the_ca_and_of_the_agent_can_be_told(cluster, tmp_path) -> None:
    """Where `berth certificates --gateway` keeps the CA, and where the agent of the tenant's cluster looks."""
    made = await cluster.berth("authority", "--berth-namespace", "berth")
    assert f"Secret berth/{CA_SECRET} made" in made.out
    folder = tmp_path / "bundle"
    flags = ("--out", str(folder), "--berth-namespace", "berth", "--agent-namespace", "there")
    for command in ("add", "rotate"):
        result = await cluster.berth(command, "tenant1", *flags)
        assert (result.status, result.err) == (0, "")
        assert yaml.safe_load((folder / "secret.yaml").read_text())["metadata"]["namespace"] == "there"
        stored = await cluster.client.get(SECRETS, CA_SECRET, namespace="berth")
        assert base64.b64decode(stored["data"]["ca.crt"]) == (folder / "ca.crt").read_bytes()
    assert await cluster.find(SECRETS, CA_SECRET, namespace=SYSTEM_NAMESPACE) is None


async def test_the_ca_is_found_where_it_is(cluster, tmp_path) -> None:
    """As the chart keeps it: nobody has to say where, and no second CA is made that no gateway knows."""
    await cluster.berth("authority", "--berth-namespace", "berth-system")
    # What a tenant may have made says nothing of the gateway.
    await cluster.berth("authority", "--berth-namespace", "tenant-other")
    made = await cluster.berth("add", "tenant1", "--out", str(tmp_path / "one"))
    assert made.status == 0
    stored = await cluster.client.get(SECRETS, CA_SECRET, namespace="berth-system")
    assert (tmp_path / "one" / "ca.crt").read_bytes() == base64.b64decode(stored["data"]["ca.crt"])
    again = await cluster.berth("authority")
    assert "berth-system/berth-gateway-ca is good until" in again.out
    assert await cluster.find(SECRETS, CA_SECRET, namespace=SYSTEM_NAMESPACE) is None


async def test_of_two_cas_one_has_to_be_named(cluster, tmp_path) -> None:
    for namespace in ("here", "there"):
        await cluster.berth("authority", "--berth-namespace", namespace)
    result = await cluster.berth("add", "tenant1", "--out", str(tmp_path / "one"))
    assert result.status == 2
    assert "Secret berth-gateway-ca is in namespaces here, there: say --berth-namespace" in result.err
    assert not (tmp_path / "one").exists()


async def test_of_two_cas_that_of_the_one_release_counts(cluster, tmp_path) -> None:
    """A Secret that an earlier command has left elsewhere does not stop later ones."""
    for namespace in ("here", "there"):
        await cluster.berth("authority", "--berth-namespace", namespace)
    await cluster.deployment("berth-gateway", "there")
    assert (await cluster.berth("add", "tenant1", "--out", str(tmp_path / "one"))).status == 0
    stored = await cluster.client.get(SECRETS, CA_SECRET, namespace="there")
    assert (tmp_path / "one" / "ca.crt").read_bytes() == base64.b64decode(stored["data"]["ca.crt"])
    await cluster.deployment("berth-gateway", "here")
    assert "say --berth-namespace" in (await cluster.berth("authority")).err


@pytest.mark.parametrize("flag", ["--berth-namespace", "--agent-namespace"])
async def test_what_is_no_namespace_is_one_line(cluster, flag) -> None:
    result = await cluster.berth("add", "tenant1", flag, "No Name")
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert result.err.startswith(f"Error: {flag}: 'No Name' is not a valid name")


async def test_no_key_is_ever_printed(cluster, tmp_path) -> None:
    folder = tmp_path / "bundle"
    first = await cluster.berth("add", "tenant1", "--out", str(folder))
    second = await cluster.berth("rotate", "tenant1", "--out", str(folder))
    for text in (first.out + first.err, second.out + second.err):
        assert "PRIVATE" not in text
        assert "BEGIN" not in text


async def test_add_again_issues_nothing(cluster, tmp_path) -> None:
    folder = tmp_path / "bundle"
    await cluster.berth("add", "tenant1", "--out", str(folder))
    before, files = await cluster.tenant(), (folder / "tls.crt").read_bytes()
    result = await cluster.berth("add", "tenant1", "--out", str(folder))
    assert result.status == 0
    assert "tenant tenant1 exists" in result.out
    assert "--force" in result.out
    assert "namespace tenant-tenant1 is in place" in result.out
    assert (await cluster.tenant())["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert (folder / "tls.crt").read_bytes() == files


async def test_add_again_with_force_issues_one_more(cluster, tmp_path) -> None:
    """The first certificate stays good: nobody has asked for its end."""
    folder = tmp_path / "bundle"
    await cluster.berth("add", "tenant1", "--out", str(folder))
    before = (await cluster.spec())["identity"]["certificates"]
    assert (await cluster.berth("add", "tenant1", "--out", str(folder), "--force")).status == 0
    after = (await cluster.spec())["identity"]["certificates"]
    assert after[:-1] == before
    assert after[-1]["sha256"] == fingerprint(certificate_in(folder))


@pytest.mark.parametrize(
    ("hosts", "given", "message"),
    [
        (
            ["host-a", "host-b"],
            ["host-a"],
            "with other hosts (host-a, host-b), and add does not change them: use berth tenant host remove tenant1 host-b",
        ),
        (
            ["host-a"],
            ["host-b", "host-c"],
            "use berth tenant host add tenant1 host-b host-c, and berth tenant host remove tenant1 host-a",
        ),
        (None, ["host-a"], "exists without a list of hosts, and add does not change them: use berth tenant host add"),
    ],
)
async def test_add_takes_no_host_away(cluster, hosts, given, message) -> None:
    """Of a tenant that exists nothing changes; the message names the commands that change its hosts."""
    spec = {} if hosts is None else {"hosts": hosts}
    before = await cluster.client.create(TENANTS, tenant("tenant1", **spec))
    result = await cluster.berth("add", "tenant1", *(word for host in given for word in ("--host", host)))
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert message in result.err.replace(f" --kubeconfig {cluster.kubeconfig}", "").replace("`", "")
    assert await cluster.spec() == before["spec"]
    assert await cluster.find(NAMESPACES, "tenant-tenant1") is None


async def test_add_again_with_the_same_hosts_makes_the_namespace(cluster) -> None:
    await cluster.client.create(TENANTS, tenant("tenant1", hosts=["host-a", "host-b"]))
    result = await cluster.berth("add", "tenant1", "--host", "host-b", "--host", "host-a")
    assert (result.status, result.err) == (0, "")
    assert "namespace tenant-tenant1 created" in result.out
    assert (await cluster.spec())["hosts"] == ["host-a", "host-b"]


async def test_own_certificates_bring_no_bundle(cluster, tmp_path) -> None:
    result = await cluster.berth("add", "tenant1", "--name", "agent.tenant1.example")
    assert result.status == 0
    assert (await cluster.spec())["identity"] == {"names": ["agent.tenant1.example"]}
    assert not (tmp_path / "tenant-tenant1").exists()
    for command in (("rotate", "tenant1"), ("add", "tenant1", "--force")):
        refused = await cluster.berth(*command)
        assert refused.status == 2
        assert "certificates of its own" in refused.err
    other = await cluster.berth("add", "tenant1", "--name", "other.example")
    assert other.status == 2
    assert "exists with other certificate names" in other.err


async def test_a_ca_from_files_signs(cluster, tmp_path) -> None:
    """And then the cluster gets none."""
    authority = issue_authority(common_name="Own", now=datetime.now(UTC), days=30)
    (tmp_path / "own.crt").write_bytes(encode_certificate(authority.certificate))
    (tmp_path / "own.key").write_bytes(authority.key_pem)
    result = await cluster.berth("add", "tenant1", "--ca-cert", "own.crt", "--ca-key", "own.key")
    assert (result.status, result.err) == (0, "")
    certificate_in(tmp_path / "tenant-tenant1").verify_directly_issued_by(authority.certificate)
    assert await cluster.find(SECRETS, CA_SECRET, namespace=SYSTEM_NAMESPACE) is None
    for arguments in (("--ca-cert", "own.crt"), ("--ca-cert", "own.crt", "--ca-key", "none.key")):
        refused = await cluster.berth("add", "tenant2", *arguments)
        assert (refused.status, len(refused.err.splitlines())) == (2, 1)
    leaf = await cluster.berth(
        "add", "tenant2", "--ca-cert", "tenant-tenant1/tls.crt", "--ca-key", "tenant-tenant1/tls.key"
    )
    assert leaf.status == 2
    assert "is not a CA" in leaf.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Tenant",), "NAME: 'Tenant' is not a valid name"),
        (("t" * 57,), "has 57 characters: use at most 56"),
        (("a.b",), "NAME: 'a.b' is not a valid name"),
        (("tenant1", "--host", "host a"), "spec.hosts[0]: 'host a' is not a label value"),
        (("tenant1", "--name", "cloud-admin.local"), "is the cloud admin's name"),
        (("tenant1", "--name", "Cloud-Admin.Local"), "is the cloud admin's name"),
        (("tenant1", "--days", "999999999"), "past the calendar's end"),
        (("tenant1", "--out", "."), "--out: . holds other files"),
        (("tenant1", "--out", "infra.kubeconfig"), "--out: cannot read infra.kubeconfig"),
    ],
)
async def test_add_refuses_before_anything_is_changed(cluster, tmp_path, arguments, message) -> None:
    result = await cluster.berth("add", *arguments)
    assert (result.status, len(result.err.splitlines())) == (2, 1)
    assert message in result.err
    assert (await cluster.client.list_page(TENANTS)).items == []
    assert await cluster.find(NAMESPACES, "tenant-tenant1") is None
    assert [path.name for path in tmp_path.iterdir()] == ["infra.kubeconfig"]


async def test_the_longest_name_works(cluster, tmp_path) -> None:
    """Its certificate's common name would be too long; the whole name is among the DNS names."""
    name = "t" * 56
    result = await cluster.berth("add", name)
    assert (result.status, result.err) == (0, "")
    certificate = certificate_in(tmp_path / f"tenant-{name}")
    assert names_of(certificate) == (await cluster.spec(name))["identity"]["names"]
    assert len(common_name_of(certificate)) <= 64


async def test_a_foreign_namespace_is_not_taken_over(cluster, tmp_path) -> None:
    await cluster.namespace("tenant-tenant1")
    await cluster.namespace("tenant-tenant2", **{TENANT_LABEL: "tenant3"})
    for name in ("tenant1", "tenant2"):
        result = await cluster.berth("add", name)
        assert result.status == 2
        assert "not taken over" in result.err
    assert (await cluster.client.list_page(TENANTS)).items == []
    assert not list(tmp_path.glob("*tenant-*"))


async def test_a_namespace_on_its_way_out_is_waited_for(cluster, tmp_path) -> None:
    """What a removed tenant leaves is not what a new one of its name begins with."""
    await cluster.namespace("tenant-tenant1", **{TENANT_LABEL: "tenant1"})
    await cluster.client.delete(NAMESPACES, "tenant-tenant1")
    result = await cluster.berth("add", "tenant1")
    assert result.status == 1
    assert "is still being deleted" in result.err
    assert (await cluster.client.list_page(TENANTS)).items == []
    assert not (tmp_path / "tenant-tenant1").exists()


async def test_a_quick_second_add_changes_nothing(cluster, tmp_path) -> None:
    """Two at once: one makes the tenant, the other leaves neither a bundle nor half of one."""
    assert sorted(await _both(cluster)) in ([0, 0], [0, 1])
    pins = (await cluster.spec())["identity"]["certificates"]
    written = [fingerprint(certificate_in(folder)) for folder in tmp_path.iterdir() if folder.is_dir()]
    assert written == [pin["sha256"] for pin in pins]


async def _both(cluster) -> list[int]:
    async def one(folder: str) -> int:
        issuing = Issuing(Path(folder), days=1, gateway="g", authority_files=None, agent_namespace="universe")
        try:
            await add(
                cluster.client, Adding("tenant1", None, (), force=False, admin_names=()), issuing, now=datetime.now(UTC)
            )
        except ApiError as error:
            return 1 if error.conflict else error.status
        return 0

    return list(await asyncio.gather(one("first"), one("second")))


async def test_nothing_is_left_where_the_tenant_cannot_be_created(cluster, tmp_path) -> None:
    """The bundle appears only when the cluster has taken the Tenant."""
    await cluster.client.delete(CUSTOM_RESOURCE_DEFINITIONS, "tenants.workload.infra.universe.nvidia.com")
    result = await cluster.berth("add", "tenant1")
    assert result.status == 1
    command = f"`berth crds infra | kubectl --kubeconfig {cluster.kubeconfig} apply --server-side -f -`"
    assert command in result.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["infra.kubeconfig"]
    for namespace in ("tenant-tenant1", SYSTEM_NAMESPACE):
        assert await cluster.find(NAMESPACES, namespace) is None
    assert (await cluster.berth("list")).status == 1
    for again in ("rotate", "show", "suspend"):
        refused = await cluster.berth(again, "tenant1")
        assert refused.status == 1
        assert command in refused.err


@pytest.mark.parametrize("verb", ["create", "update"])
async def test_nothing_is_left_where_the_user_may_not_write_the_tenant(cluster, tmp_path, verb) -> None:
    """The CA is made first otherwise."""
    if verb == "update":
        assert (await cluster.berth("add", "tenant1", "--out", str(tmp_path / "one"))).status == 0
        await cluster.client.delete(SECRETS, CA_SECRET, namespace=SYSTEM_NAMESPACE)
    verbs = ["get", "list", *(["create"] if verb == "update" else [])]
    kubeconfig = await cluster.user_with(
        {"apiGroups": ["*"], "resources": ["tenants"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["secrets", "namespaces"], "verbs": ["get", "list", "create"]},
    )
    done = await cluster.berth("add" if verb == "create" else "rotate", "tenant1", by=kubeconfig)
    assert done.status != 0
    assert "tenants" in done.err
    assert await cluster.find(SECRETS, CA_SECRET, namespace=SYSTEM_NAMESPACE) is None


async def test_rotate_keeps_the_old_certificate_for_the_overlap(cluster, tmp_path) -> None:
    folder = tmp_path / "tenant-tenant1"
    await cluster.berth("add", "tenant1")
    old = certificate_in(folder)
    start = datetime.now(UTC)
    result = await cluster.berth("rotate", "tenant1", "--overlap", "2h")
    assert result.status == 0
    assert "are accepted until" in result.out
    before, after = (await cluster.spec())["identity"]["certificates"]
    assert (before["sha256"], after["sha256"]) == (fingerprint(old), fingerprint(certificate_in(folder)))
    end = datetime.fromisoformat(before["until"]) - start
    assert timedelta(hours=1, minutes=59) < end < timedelta(hours=2, minutes=1)
    await cluster.berth("rotate", "tenant1", "--overlap", "7d")
    again = (await cluster.spec())["identity"]["certificates"]
    assert again[0] == before, "an end that is set never moves further away"
    assert len(again) == 3


async def test_rotate_now_ends_the_old_certificate(cluster, tmp_path) -> None:
    await cluster.berth("add", "tenant1")
    result = await cluster.berth("rotate", "tenant1", "--now", "--out", "second")
    assert "are refused from now on" in result.out
    pins = (await cluster.spec())["identity"]["certificates"]
    assert [pin["sha256"] for pin in pins] == [fingerprint(certificate_in(tmp_path / "second"))]


async def test_rotate_refuses_what_it_cannot_do(cluster) -> None:
    missing = await cluster.berth("rotate", "tenant1")
    assert (missing.status, missing.err) == (2, "Error: there is no tenant tenant1\n")
    bad = await cluster.berth("rotate", "tenant1", "--overlap", "soon")
    assert bad.status == 2
    assert "--overlap: want a time such as" in bad.err


async def test_list_shows_the_tenants(cluster) -> None:
    await cluster.berth("add", "tenant2", "--host", "host-c")
    await cluster.client.create(TENANTS, tenant("tenant1", suspended=True))
    pin = (await cluster.spec("tenant2"))["identity"]["certificates"][0]
    table = (await cluster.berth("list")).out.splitlines()
    assert [line.split("   ")[0].strip() for line in table] == ["NAME", "tenant1", "tenant2"]
    assert [word.strip() for word in table[1].split("   ") if word.strip()] == [
        "tenant1",
        "tenant-tenant1",
        "<any>",
        "by name: tenant1.tenant.local",
        "suspended",
    ]
    assert f"{pin['sha256'][:12]} until {pin['until']}" in table[2]
    assert table[2].endswith("pending")
    assert (await cluster.berth("list", "-o", "name")).out.splitlines() == [
        "tenant.workload.infra.universe.nvidia.com/tenant1",
        "tenant.workload.infra.universe.nvidia.com/tenant2",
    ]
    listed = json.loads((await cluster.berth("list", "-o", "json")).out)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["tenant1", "tenant2"]
    assert yaml.safe_load((await cluster.berth("list", "-o", "yaml")).out) == listed


async def test_list_of_none(cluster) -> None:
    result = await cluster.berth("list")
    assert (result.status, result.out) == (0, "")
    assert "berth tenant add" in result.err
    assert json.loads((await cluster.berth("list", "-o", "json")).out)["items"] == []


async def test_a_name_of_the_cloud_admin_is_no_tenants(cluster) -> None:
    """Neither the usual one nor those that are told; compared as verifiers compare them."""
    for name, told in (("Cloud-Admin.local", ()), ("root.local", ("--admin-names", "a.local, Root.local"))):
        refused = await cluster.berth("add", "tenant1", "--name", name, *told)
        assert refused.status == 2
        assert f"spec.identity.names: '{name}' is the cloud admin's name" in refused.err
    assert (await cluster.berth("add", "tenant1", "--name", "root.local")).status == 0


def test_help_breaks_no_line_twice_and_shows_no_default_of_a_switch(monkeypatch, capsys) -> None:
    """A paragraph is broken by the terminal alone, and `--no-force` is nothing that anybody types."""
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("authority", "add", "list", "show", "rotate", "suspend", "resume", "remove"):
        assert run(["tenant", command, "--help"]) == 0
        shown = capsys.readouterr().out
        assert "no-" not in shown, command
        lines = [line.strip() for line in shown.partition("Examples:")[2].partition("\n\n")[2].splitlines()]
        for line, following in itertools.pairwise(lines):
            assert not following or not line or len(f"{line} {following.split()[0]}") > 74, (command, line)


async def test_what_another_tenant_has_is_not_given_twice(cluster, tmp_path) -> None:
    """A name that two tenants have would let neither in, whatever its case; a host belongs to one."""
    await cluster.berth("add", "tenant1", "--host", "host-a", "--out", str(tmp_path / "one"))
    for arguments, message in (
        (["add", "x", "--name", "Tenant1.Tenant.Local"], "is a name of tenant tenant1"),
        (["add", "x", "--host", "host-a", "--out", str(tmp_path / "x")], "'host-a' is a host of tenant tenant1"),
    ):
        result = await cluster.berth(*arguments)
        assert result.status == 2
        assert message in result.err
    assert not (tmp_path / "x").exists()
    await cluster.berth("add", "x", "--host", "host-b", "--out", str(tmp_path / "x"))
    result = await cluster.berth("host", "add", "x", "host-a")
    assert result.status == 2
    assert "'host-a' is a host of tenant tenant1" in result.err
    result = await cluster.berth("host", "add", "tenant1", "host-a", "host-c")
    assert (result.status, result.out) == (0, "tenant tenant1 has hosts host-a, host-c\n")
