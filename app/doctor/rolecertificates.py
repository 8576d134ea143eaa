"""The certificates of gateway and agents, as the Secrets that they mount hold them: how long they last."""

from __future__ import annotations

import base64
import binascii
import shlex

from cryptography import x509
from cryptography.x509.oid import NameOID

from app.certs.bundles import parse_bundle
from app.certs.certificate_set import renewal_due
from app.doctor.cluster import Cluster
from app.doctor.commands import restart
from app.doctor.installed import Installed
from app.doctor.model import Finding, Severity
from app.doctor.running import unchecked
from app.errors import ApiError, UsageError
from app.kube.resources import SECRETS
from app.registry import BY_NAME, ROLES
from app.text import stamp

_CHECK = "certificate"


async def role_certificates(cluster: Cluster, roles: dict[str, list[Installed]]) -> list[Finding]:
    """Findings for certificates that have expired, or that were not renewed before the last quarter of their lifetime.

    The check of the Pods reports a missing Secret.
    """
    findings = []
    for role in (known for known in ROLES if known.when_expired):
        for one in roles.get(role.name, []):
            for name in one.secrets:
                findings += await _judged(cluster, one, name, roles)
    return findings


async def _judged(cluster: Cluster, one: Installed, name: str, roles: dict[str, list[Installed]]) -> list[Finding]:
    subject = f"Secret {one.namespace}/{name}"
    try:
        secret = await cluster.get(SECRETS, name, namespace=one.namespace)
        pem = base64.b64decode(((secret or {}).get("data") or {}).get("tls.crt") or "", validate=True)
        certificates = parse_bundle(pem, source=subject)
    except ApiError as error:
        return [unchecked(_CHECK, error)]
    except (binascii.Error, ValueError, UsageError) as error:
        text, fix = f"its certificate cannot be read: {error}", _fix(one, None, roles)
        return [Finding(_CHECK, Severity.error, subject, text, BY_NAME[one.role].when_expired, fix)]
    if not certificates:
        return []
    leaf, now = certificates[0], cluster.now()
    end, life = leaf.not_valid_after_utc, leaf.not_valid_after_utc - leaf.not_valid_before_utc
    fix = _fix(one, leaf, roles)
    if now >= end:
        text = f"its certificate expired on {stamp(end)}"
        return [Finding(_CHECK, Severity.error, subject, text, BY_NAME[one.role].when_expired, fix)]
    if now > end - life / 4:
        text = f"its certificate expires on {stamp(end)}; its renewal was due on {stamp(renewal_due(leaf))}"
        return [Finding(_CHECK, Severity.warning, subject, text, f"then {BY_NAME[one.role].when_expired}", fix)]
    return []


def _fix(one: Installed, leaf: x509.Certificate | None, roles: dict[str, list[Installed]]) -> str:
    if one.role == "gateway":
        keepers = roles.get("certificates")
        if keepers:
            return restart(keepers[0].namespace, keepers[0].name)
        return f"berth tenant authority --namespace {one.namespace}"
    named = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME) if leaf is not None else []
    tenant = one.argument("--tenant") or (str(named[0].value).partition(".")[0] if named else "TENANT")
    written = shlex.quote(f"tenant-{tenant}/secret.yaml")
    return f"berth tenant rotate {shlex.quote(tenant)} --kubeconfig INFRA && kubectl apply -f {written}"
