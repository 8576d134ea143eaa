"""What manages the certificate of the webhook, and the commands that have it issued again, or trusted."""

from __future__ import annotations

from dataclasses import dataclass

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import or_default
from app.doctor.serving import Served
from app.doctor.webhooks import Registered
from app.kube.resources import SECRETS
from app.kube.secrets import MANAGED_BY, MANAGER

_CERT_MANAGER = "cert-manager.io/certificate-name"


@dataclass(frozen=True, slots=True)
class Keeping:
    """What manages the webhook's certificate: `restart` is the command that has Berth look at it again, if Berth does.

    `foreign` is the Secret that Berth should manage and may not: namespace and name, ("", "") where there is none. It
    lacks the label by which Berth knows its own.
    """

    restart: str = ""
    foreign: tuple[str, str] = ("", "")

    @property
    def words(self) -> str:
        """The end of a message, about a Secret that Berth does not manage; "" if there is none."""
        namespace, name = self.foreign
        if not name:
            return ""
        hand_over = commands.set_label("secret", name, MANAGED_BY, MANAGER, namespace=namespace)
        return (
            f"; Secret {namespace}/{name} is not managed by Berth (no label {MANAGED_BY}={MANAGER}), so Berth does not "
            f"write it: delete it, or hand it over with `{hand_over}`"
        )

    async def reissue(self, cluster: Cluster, one: Registered, served: Served | None) -> str:
        """The command that has the certificate issued again, by the component that manages it."""
        if served is not None and (name := served.annotations.get(_CERT_MANAGER)) and one.service:
            return f"cmctl renew {name} --namespace {one.service[0]}"
        if one.installer_name:
            return " && ".join([commands.certs_install(one), *map(commands.restart, await cluster.running("webhook"))])
        if self.foreign[1]:
            return commands.kubectl("delete", "secret", self.foreign[1], namespace=self.foreign[0])
        if self.restart:
            return self.restart
        if one.url:
            return f"berth certs make --help  # and give its files to the webhook at {one.url}"
        return await commands.recreate(cluster, one, "certificates.mode=self-managed")

    async def trust(self, cluster: Cluster, one: Registered, served: Served | None) -> str:
        """Trust the CA that the Secret has; where it has none, issue it again, or say which CA it needs."""
        if one.installer_name:
            return commands.certs_install(one)
        if served is not None and served.trust_key and one.service:
            namespace, service, _ = one.service
            template = f'go-template={{{{index .data "{served.trust_key}" | base64decode}}}}'
            reading = commands.kubectl("get", "secret", served.secret, "--output", template, namespace=namespace)
            return f"{reading} | berth certs patch --ca /dev/stdin --service {namespace}/{service} {one.name}"
        return f"berth certs patch --ca ca.crt {one.name}" if one.url else await self.reissue(cluster, one, served)


async def keeping_in(cluster: Cluster) -> Keeping:
    """As it is installed; what may not be read counts as not there."""
    keepers = await cluster.running("certificates")
    restart = commands.restart(keepers[0]) if keepers else ""
    for keeper in keepers:
        if keeper.deployed.get("webhook_service") == "":
            continue  # it keeps the gateway's alone
        name = str(keeper.setting("webhook_secret"))
        secret = await or_default(cluster.get(SECRETS, name, namespace=keeper.namespace), None)
        if secret is not None and objects.labels(secret).get(MANAGED_BY) != MANAGER:
            return Keeping(restart, (keeper.namespace, name))
    return Keeping(restart)
