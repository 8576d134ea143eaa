"""Check `definitions`: are the CustomResourceDefinitions there, served, and those of this version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.definitions import INFRA, TENANT, definition_name, read_definitions
from app.doctor.cluster import Cluster
from app.doctor.commands import helm_upgrade
from app.doctor.differences import Differences, compare
from app.doctor.installed import by_chart, expected_roles
from app.doctor.model import Finding, Severity
from app.doctor.objects import kubectl, listed
from app.doctor.webhooks import registered
from app.errors import ApiError
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NETWORK_ATTACHMENTS, Resource
from app.registry import ROLES, kinds_of
from app.wire import JSON

MULTUS = (
    "kubectl apply -f https://raw.githubusercontent.com/k8snetworkplumbingwg/multus-cni/master/deployments/"
    "multus-daemonset-thick.yml"
)


@dataclass(frozen=True, slots=True)
class Definitions:
    name: str = "definitions"

    async def run(self, cluster: Cluster) -> list[Finding]:
        found = await cluster.listed(CUSTOM_RESOURCE_DEFINITIONS) or []
        present = {definition["metadata"]["name"]: definition for definition in found}
        findings: list[Finding] = []
        needed = await _needed(cluster, present)
        for resource in needed:
            definition = present.get(definition_name(resource))
            if definition is None:
                findings.append(await self._missing(cluster, resource))
            else:
                findings += self._judged(cluster, resource, definition)
        if needed and not findings:
            findings.append(Finding(self.name, Severity.ok, "", f"all {len(needed)} definitions are there and current"))
        return findings

    async def _missing(self, cluster: Cluster, resource: Resource) -> Finding:
        subject = f"CustomResourceDefinition {definition_name(resource)}"
        if resource == NETWORK_ATTACHMENTS:
            return Finding(
                self.name,
                Severity.error,
                subject,
                "is not there",
                "the webhook does not get ready, and no Pod can have a network: Multus brings this definition",
                MULTUS,
            )
        return Finding(
            self.name,
            Severity.error,
            subject,
            "is not there",
            f"{'agents do' if resource in TENANT else 'controller and gateway do'} not get ready",
            helm_upgrade(cluster, "crds.install=true") if await by_chart(cluster) else _apply(resource, force=False),
        )

    def _judged(self, cluster: Cluster, resource: Resource, definition: JSON) -> Iterator[Finding]:
        subject = f"CustomResourceDefinition {definition_name(resource)}"
        fix = _fix(cluster, resource, definition)
        conditions = {
            one.get("type"): one for one in (definition.get("status") or {}).get("conditions") or [] if one.get("type")
        }
        established = conditions.get("Established") or {}
        if established.get("status") != "True":
            names = conditions.get("NamesAccepted") or {}
            why = names.get("message") if names.get("status") == "False" else established.get("message")
            yield Finding(
                self.name,
                Severity.error,
                subject,
                f"is not served: {why or 'the API server has not accepted it'}",
                f"{resource.plural} can be neither read nor written, as if the definition were missing",
                f"kubectl describe customresourcedefinition {definition_name(resource)}",
            )
        versions = {one.get("name"): one for one in (definition.get("spec") or {}).get("versions") or []}
        served = versions.get(resource.version) or {}
        if not served.get("served"):
            yield Finding(
                self.name,
                Severity.error,
                subject,
                f"does not serve {resource.version}, which this version of Berth speaks",
                f"reads and writes of {resource.plural} answer 404",
                fix,
            )
        elif resource != NETWORK_ATTACHMENTS:
            yield from self._shipped(subject, compare(read_definitions([resource])[0], definition), fix)
        stored = set((definition.get("status") or {}).get("storedVersions") or [])
        if resource != NETWORK_ATTACHMENTS and (old := sorted(stored - {resource.version})):
            yield Finding(
                self.name,
                Severity.warning,
                subject,
                f"has objects stored as {', '.join(old)}",
                "a later definition without that version is refused until they are written again",
                _rewrite(resource),
            )

    def _shipped(self, subject: str, found: Differences, fix: str) -> Iterator[Finding]:
        if found.missing or found.changed:
            parts = [f"lacks {listed(list(found.missing))}"] if found.missing else []
            parts += [f"differs in {listed(list(found.changed))}"] if found.changed else []
            consequence = (
                "what Berth writes there is dropped by the API server without a word"
                if found.missing
                else "the API server checks objects by other rules than Berth does"
            )
            message = f"is not that of this version: {'; '.join(parts)}"
            yield Finding(self.name, Severity.warning, subject, message, consequence, fix)
        elif found.unknown:
            message = f"is newer than this berth: it also has {listed(list(found.unknown))}"
            yield Finding(self.name, Severity.info, subject, message, "ask the doctor of the version that is installed")


async def _needed(cluster: Cluster, present: dict[str, JSON]) -> list[Resource]:
    """The kinds that the roles need; if one kind of a group is present, all of the group, whatever roles run."""
    try:
        roles = set(await expected_roles(cluster))
        if await registered(cluster):
            roles.add("webhook")
    except ApiError:
        roles = set(cluster.roles)  # another check says what may not be read
    wanted = [resource for role in ROLES if role.name in roles and role.needs for resource in kinds_of(role.needs)]
    for group in (INFRA, TENANT):
        if any(definition_name(resource) in present for resource in group):
            wanted += group
    return list(dict.fromkeys(wanted))


def _fix(cluster: Cluster, resource: Resource, definition: JSON) -> str:
    if resource == NETWORK_ATTACHMENTS:
        return MULTUS
    if (definition["metadata"].get("labels") or {}).get("app.kubernetes.io/managed-by") == "Helm":
        return helm_upgrade(cluster, "crds.install=true")
    return _apply(resource, force=True)


def _apply(resource: Resource, *, force: bool) -> str:
    kinds = "tenant" if resource in TENANT else "infra"
    return f"berth crds {kinds} | kubectl apply --server-side{' --force-conflicts' if force else ''} -f -"


def _rewrite(resource: Resource) -> str:
    """Writes the objects again, and then the list of versions, which the API server only ever adds to."""
    name = definition_name(resource)
    patch = f'{{"status":{{"storedVersions":["{resource.version}"]}}}}'
    listing = kubectl("patch", "customresourcedefinition", name, "--subresource=status", "--type=merge", "-p", patch)
    found = f"kubectl get {name} --all-namespaces --output name"
    return f'kubectl get {name} -A -o yaml | kubectl replace --validate=false -f - || [ -z "$({found})" ] &&\n{listing}'
