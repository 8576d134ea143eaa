"""`berth tenant authority`, as it is typed, against an API server."""

from __future__ import annotations

import base64
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from app.certs.issuing import common_name_of, names_of
from app.kube.resources import SECRETS
from app.kube.secrets import MANAGED_BY
from app.tenancy.authority import AuthorityOptions, ensure_authority
from app.tenancy.model import ADMIN_SECRET, CA_SECRET, SERVING_SECRET
from app.workloads.model import SYSTEM_NAMESPACE

NAMES = (CA_SECRET, SERVING_SECRET, ADMIN_SECRET)


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def secrets(cluster) -> dict[str, dict[str, bytes]]:
    found = {}
    for name in NAMES:
        data = (await cluster.client.get(SECRETS, name, namespace=SYSTEM_NAMESPACE))["data"]
        found[name] = {entry: base64.b64decode(value) for entry, value in data.items()}
    return found


async def test_what_is_missing_is_made_and_said(cluster) -> None:
    """The namespace too; the gateway answers to what it is told to."""
    result = await cluster.berth("authority", "--dns", "gateway.example", "--address", "10.133.133.1")
    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert [line.partition(", valid until ")[0] for line in lines[:3]] == [
        f"Secret universe/{name} made" for name in NAMES
    ]
    assert lines[3].startswith("next renewal due 2")
    stored = await secrets(cluster)
    serving = x509.load_pem_x509_certificate(stored[SERVING_SECRET]["tls.crt"])
    assert {"gateway.example", "10.133.133.1", "api-gateway.local"} <= set(names_of(serving))
    admin = x509.load_pem_x509_certificate(stored[ADMIN_SECRET]["admin.crt"])
    assert common_name_of(admin) == "cloud-admin.local"
    assert "BEGIN" not in result.out


async def test_again_it_changes_nothing_and_says_until_when_it_is_good(cluster) -> None:
    await cluster.berth("authority")
    before = await secrets(cluster)
    result = await cluster.berth("authority")
    assert [line.partition(" is good until 2")[0] for line in result.out.splitlines()[:3]] == [
        f"Secret universe/{name}" for name in NAMES
    ]
    assert await secrets(cluster) == before


async def test_what_is_due_is_renewed(cluster) -> None:
    """Of an earlier day: the certificates are due, the CA is not."""
    then = datetime.now(UTC) - timedelta(days=80)
    await ensure_authority(cluster.client, now=then, options=AuthorityOptions(days=90))
    before = await secrets(cluster)
    lines = (await cluster.berth("authority")).out.splitlines()
    assert lines[0].startswith(f"Secret universe/{CA_SECRET} is good until ")
    assert lines[1].startswith(f"Secret universe/{SERVING_SECRET} renewed, valid until ")
    assert lines[2].startswith(f"Secret universe/{ADMIN_SECRET} renewed, valid until ")
    after = await secrets(cluster)
    assert after[CA_SECRET] == before[CA_SECRET]
    assert after[SERVING_SECRET]["tls.crt"] != before[SERVING_SECRET]["tls.crt"]


async def test_what_is_somebody_elses_is_used_and_said(cluster) -> None:
    await cluster.berth("authority")
    patch = {"metadata": {"labels": {MANAGED_BY: "cert-manager"}}}
    await cluster.client.patch(SECRETS, SERVING_SECRET, patch, patch_type="merge", namespace=SYSTEM_NAMESPACE)
    before = await secrets(cluster)
    result = await cluster.berth("authority", "--dns", "other.example")
    assert f"Secret universe/{SERVING_SECRET} is not managed by Berth and used as it is, valid until " in result.out
    assert await secrets(cluster) == before


async def test_out_holds_the_same_as_files_for_the_owner_alone(cluster, tmp_path) -> None:
    for _ in range(2):  # over its own files too
        result = await cluster.berth("authority", "--out", "made")
        assert (result.status, result.err) == (0, "")
        assert "are in made" in result.out
    stored, folder = await secrets(cluster), tmp_path / "made"
    expected = {f"gateway/{name}": content for name, content in stored[SERVING_SECRET].items()}
    expected |= {f"admin/{name}": content for name, content in stored[ADMIN_SECRET].items()}
    assert files_in(folder) == expected | {".gitignore": b"*\n"}
    assert set(expected) == {
        *(f"gateway/{name}" for name in ("tls.crt", "tls.key", "ca.crt")),
        *(f"admin/{name}" for name in ("ca.crt", "admin.crt", "admin.key")),
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir()) if path.is_dir()} == {0o700}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["infra.kubeconfig", "made"]


@pytest.mark.parametrize("foreign", ["notes", "gateway/notes", "admin", ".gitignore"])
async def test_a_directory_with_other_files_is_not_touched(cluster, tmp_path, foreign) -> None:
    """And nothing is made in the cluster before that is known."""
    path = tmp_path / "made" / foreign
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    result = await cluster.berth("authority", "--out", "made")
    assert (result.status, result.out) == (2, "")
    assert f"--out: made holds other files ({foreign})" in result.err
    assert files_in(tmp_path / "made") == {foreign: b"mine"}
    assert await cluster.find(SECRETS, CA_SECRET, namespace=SYSTEM_NAMESPACE) is None


async def test_a_name_that_is_none_is_one_line(cluster) -> None:
    for arguments, words in (
        (("--dns", "UPPER CASE"), "is not a DNS name"),
        (("--address", "1.2"), "is not an IP address"),
    ):
        result = await cluster.berth("authority", *arguments)
        assert (result.status, result.out) == (2, "")
        assert words in result.err
        assert result.err.count("\n") == 1
