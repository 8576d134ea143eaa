"""Whether gateway and agents trust each other's certificates: now, and when they connect again.

Streams live on where a CA is replaced. So a certificate that was served is compared with what the agent's Secret
trusts; and the time at which a Tenant's certificates were pinned with that of the CA by which the gateway knows agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509

from app.certs.issuing import CLOCK_SKEW
from app.doctor import objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed
from app.doctor.model import or_default
from app.doctor.serving import Answer, answer_of, misnamed, subjects
from app.kube.resources import SECRETS
from app.kube.secrets import FILES, stored_files
from app.serving.tls import read_certificates
from app.tenancy.model import CA_SECRET, SERVING_SECRET
from app.text import moment
from app.wire import JSON
from app.workloads.model import SYSTEM_NAMESPACE


@dataclass(frozen=True, slots=True)
class Trusted:
    """The CAs by which the gateway knows agents; `place` is the Secret that has them, `since` when that was written.

    A Secret that was deleted and made again is younger than what it has, if that was in a backup.
    """

    roots: Sequence[x509.Certificate]
    place: str
    since: datetime | None

    @property
    def oldest(self) -> x509.Certificate:
        return min(self.roots, key=lambda root: root.not_valid_before_utc)

    @property
    def made(self) -> datetime:
        """When the oldest of them was made; a CA that Berth makes is valid a little earlier."""
        return self.oldest.not_valid_before_utc + CLOCK_SKEW

    @property
    def name(self) -> str:
        return subjects([self.oldest])

    def is_younger(self, pinned: datetime) -> bool:
        """Whether no certificate that was pinned at that time can be of one of them, if clocks differ."""
        if self.since is not None and pinned < self.since:
            return pinned < self.made
        return pinned < self.oldest.not_valid_before_utc


async def trusted_by_gateway(cluster: Cluster) -> Trusted | None:
    """As the gateway's Secret has it; None where there is none, or it may not be read."""
    places = [(gateway.namespace, gateway.tls_secret) for gateway in await cluster.running("gateway")]
    for namespace, name in places or [(home, SERVING_SECRET) for home in (cluster.namespace, SYSTEM_NAMESPACE)]:
        secrets = [
            await or_default(cluster.get(SECRETS, secret, namespace=namespace), None) for secret in (name, CA_SECRET)
        ]
        with suppress(ValueError):
            roots = read_certificates(stored_files(secrets[0] or {}).get(FILES[2]) or b"", source=name)
            created = [when for secret in secrets if secret and (when := objects.created(secret))]
            return Trusted(roots, f"{namespace}/{name}", max(created, default=None))
    return None


def pinned_at(tenant: JSON) -> datetime | None:
    """When the pins of a Tenant were last written, at the latest; None without pins, or where nothing says it."""
    times = []
    for entry in tenant["metadata"].get("managedFields") or ():
        spec = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        if not entry.get("subresource") and "f:certificates" in (spec.get("f:identity") or {}):
            times.append(moment(entry.get("time")))
    written = [time for time in times if time is not None]
    pins = (objects.spec(tenant).get("identity") or {}).get("certificates")
    return max(written) if pins and written else None


@dataclass(frozen=True, slots=True)
class Peer:
    """Who answers at the address that an agent has for the gateway; None where no server does, as seen from here.

    `roots` are the CAs that the Secret of the agent trusts, `name` is that of the gateway.
    """

    roots: Sequence[x509.Certificate]
    name: str
    answer: Answer | None

    @property
    def distrusted(self) -> bool:
        return self.answer is not None and bool(self.answer.problem)

    @property
    def elsewhere(self) -> bool:
        """Whether it is another server than a gateway."""
        return self.answer is not None and self.distrusted and bool(misnamed(self.answer.leaf, self.name))

    @property
    def ended(self) -> bool:
        """Whether it is the served certificate that is over: another bundle would not help."""
        return self.answer is not None and "expired" in self.answer.problem

    @property
    def words(self) -> str:
        """The end of a message: who answered, and why that is not trusted; "" where nothing is known."""
        if self.answer is None or not self.distrusted:
            return ""
        if self.elsewhere:
            return f": {plain(self.answer.who)}; that {misnamed(self.answer.leaf, self.name)}: another server"
        return f": {plain(self.answer.who)}; it trusts {plain(subjects(self.roots))}: {self.answer.problem}"


async def peer_of(cluster: Cluster, agent: Installed) -> Peer | None:
    """None for an agent whose address, or whose CAs, cannot be read."""
    host, _, port = str(agent.deployed.get("gateway") or "").rpartition(":")
    secret = await or_default(cluster.get(SECRETS, agent.tls_secret, namespace=agent.namespace), None)
    bundle = stored_files(secret or {}).get(FILES[2]) or b""
    try:
        roots = read_certificates(bundle, source=FILES[2])
    except ValueError:
        return None
    if not host or not port.isdecimal() or not cluster.calls:
        return None
    name = str(agent.setting("gateway_name"))
    return Peer(roots, name, await answer_of(host.strip("[]"), int(port), name=name, roots=bundle))
