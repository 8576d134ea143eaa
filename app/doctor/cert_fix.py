"""Finds the component that manages the webhook's certificate, and builds the commands to reissue or to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.certs.permissions import WEBHOOK_SECRET
from app.certs.secrets import MANAGED_BY, MANAGER
from app.doctor.cluster import Cluster
from app.doctor.commands import certs_install, patch_trust, restart
from app.doctor.installed import Installed, installed
from app.doctor.objects import kubectl, labels
from app.doctor.remediation import recreate
from app.doctor.serving import Served
from app.doctor.webhooks import Registered
from app.errors import ApiError
from app.kube.resources import SECRETS

_CERT_MANAGER = "cert-manager.io/certificate-name"


@dataclass(frozen=True, slots=True)
class Keeping:
    """The roles that run here. `foreign` is the Secret that the role of the certificates should keep and may not.

    Namespace and name, ("", "") where there is none: it lacks the label by which Berth knows its own.
    """

    roles: dict[str, list[Installed]] = field(default_factory=dict)
    foreign: tuple[str, str] = ("", "")
    known: bool = True
    """Whether Deployments could be listed."""

    @property
    def words(self) -> str:
        """The end of a message, about a Secret that Berth does not manage; "" if there is none."""
        namespace, name = self.foreign
        if not name:
            return ""
        hand_over = kubectl("label", "secret", name, f"{MANAGED_BY}={MANAGER}", "--overwrite", namespace=namespace)
        return (
            f"; Secret {namespace}/{name} is not managed by Berth (no label {MANAGED_BY}={MANAGER}), so Berth does not "
            f"write it: delete it, or hand it over with `{hand_over}`"
        )

    def reissue(self, cluster: Cluster, one: Registered, served: Served | None) -> str:
        """The command that has the certificate issued again, by the component that manages it."""
        if served is not None and (name := served.annotations.get(_CERT_MANAGER)) and one.service:
            return f"cmctl renew {name} --namespace {one.service[0]}"
        if one.installer_name and one.service:
            command = certs_install(one.service[0], one.installer_name, failure_policy=one.webhook["failurePolicy"])
            restarts = [restart(webhook.namespace, webhook.name) for webhook in self.roles.get("webhook", [])]
            return " && ".join([command, *restarts])
        if self.foreign[1]:
            return kubectl("delete", "secret", self.foreign[1], namespace=self.foreign[0])
        if keepers := self.roles.get("certificates"):
            return restart(keepers[0].namespace, keepers[0].name)
        if one.url:
            return f"berth certs make --help  # and give its files to the webhook at {one.url}"
        present = not self.known or any(role.by_chart for found in self.roles.values() for role in found)
        return recreate(cluster, one, "certificates.mode=self-managed", present=present)

    def trust(self, cluster: Cluster, one: Registered, served: Served | None) -> str:
        """Trust the CA that the Secret has; where it has none, issue anew or say whose CA it takes."""
        if one.installer_name and one.service:
            return certs_install(one.service[0], one.installer_name, failure_policy=one.webhook["failurePolicy"])
        if served is not None and served.trust_key and one.service:
            return patch_trust(one, one.service[0], served.secret, key=served.trust_key)
        if one.url:
            return f"berth certs patch --ca ca.crt {one.name}"
        return self.reissue(cluster, one, served)


async def keeping(cluster: Cluster) -> Keeping:
    """As it is installed; what may not be read counts as not there."""
    roles: dict[str, list[Installed]] = {}
    try:
        for one in await installed(cluster):
            roles.setdefault(one.role, []).append(one)
    except ApiError:
        return Keeping(known=False)  # the check of Deployments says so
    return Keeping(roles, await _foreign(cluster, roles))


async def _foreign(cluster: Cluster, roles: Mapping[str, Sequence[Installed]]) -> tuple[str, str]:
    for keeper in roles.get("certificates", ()):
        if "--webhook-service=" in keeper.arguments:
            continue  # it keeps the gateway's alone
        name = keeper.argument("--webhook-secret", WEBHOOK_SECRET)
        try:
            secret = await cluster.get(SECRETS, name, namespace=keeper.namespace)
        except ApiError:
            continue
        if secret is not None and labels(secret).get(MANAGED_BY) != MANAGER:
            return keeper.namespace, name
    return "", ""
