"""Creates objects of manifests in a cluster, in dry runs: what its whole admission makes of them. Nothing is written.

A workload is tried as it is, and so is the Pod that its template makes. Both are tried as the user who asks: who makes
the Pods of a workload in the cluster is a controller, and a webhook may answer it otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from app.cel.matchconditions import Attributes, UserInfo
from app.errors import ApiError
from app.explain.callees import Callee, Marks, Registrations, Seen, registrations_of, user_of
from app.explain.manifests import Manifests
from app.explain.model import Finding, Manifest, PodManifest
from app.explain.origins import Origin, Tried, as_written, lacking, origins, with_defaults
from app.explain.rendering import Explained
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, PODS, Resource
from app.kube.retry import get_or_none, if_there
from app.wire import JSON

_DRY_RUN = re.compile(r'admission webhook "([^"]+)" does not support dry run')
_RIGHT = re.compile(r'cannot create resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]*)")?')
_WEBHOOK = re.compile(r'(?:Internal error occurred: )?(?:admission webhook|failed calling webhook) "([^"]+)"')
_POLICY = re.compile(
    r"""(?:\S+ (?:"[^"]*" )?is forbidden: )?(Validating|Mutating)?(?:AdmissionPolicy|policy) ['"]([^'"]+)['"]"""
    r"""(?: with binding '([^']+)')? denied request"""
)
_PLUGINS = (
    ("PodSecurity", r"violates PodSecurity "),
    ("ResourceQuota", r"exceeded quota: |failed quota: "),
    ("LimitRanger", r"(minimum|maximum) .* usage per \w+ is |max limit to request ratio per "),
    ("ServiceAccount", r"error looking up service account "),
    (
        "Priority",
        r"no PriorityClass with name |the integer value of priority |PreemptionPolicy .* must not be provided",
    ),
    ("RuntimeClass", r"pod rejected: (RuntimeClass|Pod)|conflict: runtimeClass\."),
    ("NamespaceLifecycle", r'^namespaces "[^"]*" not found|because it is being terminated'),
)
"""What plugins of the API server say of an object that they refuse. Source: Kubernetes 1.37."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What the API server answers to the creation of an object.

    `sent` is the object of the request, `stored` what it would be; None where it was not admitted. `refused` is its
    message, `by` who refused. `untried` says why there is no answer about the object. `lacking` are fields that Berth
    plans, and that the answer does not have.
    """

    manifest: Manifest | PodManifest
    sent: JSON
    stored: JSON | None = None
    warnings: Sequence[str] = ()
    origins: Sequence[Origin] = ()
    lacking: Sequence[str] = ()
    refused: str = ""
    by: str = ""
    untried: str = ""
    mutating: Sequence[Callee] = ()
    validating: Sequence[Callee] = ()

    @property
    def subject(self) -> str:
        """What was tried, with its place."""
        manifest = self.manifest
        made = isinstance(manifest, PodManifest) and manifest.owner.kind != PODS.kind
        return f"{'the Pod of ' * made}{manifest.subject}"

    @property
    def verdict(self) -> str:
        """One sentence without its subject."""
        if self.untried:
            return f"server dry run: not tried: {self.untried}"
        if self.refused:
            return f"server dry run: would be refused by {self.by}: {self.refused}"
        return "server dry run: would be admitted"


@dataclass(slots=True)
class Trials:
    """All of one run, with what is read once for all. `ours` are the webhooks of Berth."""

    client: KubeClient
    ours: Marks = frozenset()
    notes: list[str] = field(default_factory=list)
    _registrations: Registrations = field(default_factory=Registrations)
    _user: UserInfo | None = None
    _discovered: dict[str, JSON | None] = field(default_factory=dict)
    _namespaces: dict[str, JSON | None] = field(default_factory=dict)

    async def of(self, manifests: Manifests, explained: Sequence[Explained]) -> list[Trial]:
        """One of each Pod, and of each object that makes Pods, in the order of the manifests.

        Raises ApiError where the API server does not answer.
        """
        self._registrations, self._user = await registrations_of(self.client, self.ours), await user_of(self.client)
        self.notes += self._registrations.unread
        return [await self._tried(manifest, obj, plan) for manifest, obj, plan in _subjects(manifests, explained)]

    async def _tried(self, manifest: Manifest | PodManifest, obj: JSON, plan: JSON) -> Trial:
        resource, fault = await self._resource(obj)
        namespace = _owner(manifest).namespace if resource is None or resource.namespaced else ""
        sent = new(obj, namespace)
        if resource is None:
            return Trial(manifest, sent, untried=fault)
        planned = sent if plan is obj else new(plan, namespace)
        try:
            return await self._created(manifest, sent, planned, resource)
        except ApiError as refusal:
            name = sent["metadata"].get("name")
            if refusal.reason != "AlreadyExists" or not name:
                return await self._refused(manifest, sent, resource, refusal)
        # The API server does not say what it makes of an object that is there.
        told = f"exists already: tried with generateName {name}-; what goes by its name may answer otherwise"
        self.notes.append(f"{manifest.subject}: {told}")
        nameless = _nameless(sent)
        try:
            return await self._created(
                manifest, nameless, nameless if planned is sent else _nameless(planned), resource
            )
        except ApiError as refusal:
            return await self._refused(manifest, nameless, resource, refusal)

    async def _created(self, manifest: Manifest | PodManifest, sent: JSON, planned: JSON, resource: Resource) -> Trial:
        """Raises ApiError for a refusal."""
        stored, warnings = await self.client.dry_run(resource, sent, namespace=sent["metadata"].get("namespace"))
        if "name" not in sent["metadata"]:
            stored = _without_name(stored)
        mutating, validating = await self._callees(sent, stored, resource)
        tried = Tried(sent, stored, planned, mutating)
        missing = list(lacking(tried)) if any(callee.ours for callee in mutating) else []
        return Trial(
            manifest, sent, stored, warnings, origins(tried), missing, mutating=mutating, validating=validating
        )

    async def _refused(
        self, manifest: Manifest | PodManifest, sent: JSON, resource: Resource, refusal: ApiError
    ) -> Trial:
        """Raises the refusal where it is not about the object."""
        if refusal.about_server or refusal.timed_out:
            raise refusal
        message = str(refusal).partition(f"HTTP {refusal.status}: ")[2] or str(refusal)
        mutating, validating = await self._callees(sent, sent, resource)
        asked = [*mutating, *validating]
        untried = ""
        # The texts of webhooks and policies are theirs: one may speak of rights to create.
        denied = _WEBHOOK.match(message) or _POLICY.match(message)
        if refusal.status == 403 and not denied and (missing := _RIGHT.search(message)):
            group = f".{missing[2]}" if missing[2] else ""
            where = f" in namespace {missing[3]}" if missing[3] else ""
            untried = f"you have no right to create {missing[1]}{group}{where}"
        elif effects := _DRY_RUN.match(message):
            who = _named(effects[1], asked)
            said = next((callee.side_effects for callee in asked if callee.name == effects[1]), "") or "not None"
            untried = (
                f"{who} has sideEffects {said}, so that the API server refuses each dry run for which it is called; "
                "this does not concern the creation itself, of which nothing more is known"
            )
        return Trial(
            manifest,
            sent,
            warnings=refusal.warnings,
            refused="" if untried else message,
            by="" if untried else _refuser(message, refusal, asked),
            untried=untried,
            mutating=mutating,
            validating=validating,
        )

    async def _callees(self, sent: JSON, stored: JSON, resource: Resource) -> tuple[list[Callee], list[Callee]]:
        metadata = sent["metadata"]
        home = str(metadata.get("namespace") or "")
        options = {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]}
        attributes = Attributes(
            operation="CREATE",
            group=resource.group,
            version=resource.version,
            kind=resource.kind,
            resource=resource.plural,
            subresource="",
            namespace=home,
            name=str(metadata.get("name") or ""),
            dry_run=True,
            user=self._user or UserInfo(""),
            old_object=None,
            options={**options, "fieldValidation": "Warn"},
        )
        states = with_defaults(sent), stored
        versions = tuple(await self._versions(resource.group))
        seen = Seen(attributes, states, await self._namespace(home), versions, known=self._user is not None)
        mutating, validating = (self._registrations.callees(phase, seen) for phase in ("Mutating", "Validating"))
        return mutating, validating

    async def _resource(self, obj: JSON) -> tuple[Resource | None, str]:
        """How the API server serves the kind; else None, and why it does not."""
        version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind"))
        if (version, kind) == (PODS.api_version, PODS.kind):
            return PODS, ""
        if not version:
            return None, "apiVersion is missing: the API server does not know which kind is meant"
        group, _, number = version.rpartition("/")
        listed = await self._discovery(f"/apis/{version}" if group else f"/api/{version}")
        for entry in (listed or {}).get("resources") or ():
            if entry.get("kind") == kind and "/" not in str(entry.get("name")):
                return Resource(group, number, entry["name"], kind, bool(entry.get("namespaced"))), ""
        return None, f"the API server serves no {kind} of {version}: is its definition installed, in this version?"

    async def _versions(self, group: str) -> Iterator[str]:
        listed = await self._discovery(f"/apis/{group}") if group else None
        return (str(entry.get("version")) for entry in (listed or {}).get("versions") or ())

    async def _discovery(self, path: str) -> JSON | None:
        if path not in self._discovered:
            self._discovered[path] = await if_there(self.client.get_path(path))
        return self._discovered[path]

    async def _namespace(self, name: str) -> JSON | None:
        """The Namespace, without labels where there is none; None where it may not be read."""
        if name not in self._namespaces:
            try:
                namespace = await get_or_none(self.client, NAMESPACES, name) if name else None
                self._namespaces[name] = namespace or {"metadata": {"name": name}}
            except ApiError as refusal:
                if refusal.status != 403:
                    raise
                self._namespaces[name] = None
        return self._namespaces[name]


def _subjects(
    manifests: Manifests, explained: Sequence[Explained]
) -> Iterator[tuple[Manifest | PodManifest, JSON, JSON]]:
    """What is tried, with its object, and that as Berth plans it."""
    of_owner: dict[int, list[Explained]] = {}
    for result in explained:
        of_owner.setdefault(id(result.manifest.owner), []).append(result)
    wrappers = set(map(id, manifests.wrappers))
    for given in manifests.given:
        made = of_owner.get(id(given), ())
        if given.kind != PODS.kind and (made or id(given) in wrappers):
            yield given, given.obj, given.obj
        for result in made:
            before = result.manifest.pod
            yield result.manifest, before, before if result.denied or not result.decision.operations else result.pod


def _owner(manifest: Manifest | PodManifest) -> Manifest:
    return manifest.owner if isinstance(manifest, PodManifest) else manifest


def new(obj: JSON, namespace: str) -> JSON:
    """The object as it can be created: what is read from a cluster has fields that no new object may have."""
    written = as_written(obj)
    return {**written, "metadata": {**written["metadata"], **({"namespace": namespace} if namespace else {})}}


def _nameless(obj: JSON) -> JSON:
    rest = _without_name(obj)
    return {**rest, "metadata": {**rest["metadata"], "generateName": f"{obj['metadata']['name']}-"}}


def _without_name(obj: JSON) -> JSON:
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name != "name"}}


def _named(webhook: str, asked: Sequence[Callee]) -> str:
    """The webhook with its configurations, of which several may have one of this name."""
    texts = [callee.text for callee in asked if callee.name == webhook and callee.kind == "webhook"]
    return " or ".join(dict.fromkeys(texts)) or f"webhook {webhook}"


def _refuser(message: str, refusal: ApiError, asked: Sequence[Callee]) -> str:
    """Who refused an object, by the message. The texts of webhooks and policies are theirs, so these come first."""
    if webhook := _WEBHOOK.match(message):
        return _named(webhook[1], asked)
    if policy := _POLICY.match(message):
        kinds = [callee.kind for callee in asked if callee.name == policy[2] and callee.kind != "webhook"]
        kind = f"{policy[1]}AdmissionPolicy" if policy[1] else next(iter(kinds), "policy")
        return f"{kind} {policy[2]}" + (f" (binding {policy[3]})" if policy[3] else "")
    for plugin, pattern in _PLUGINS:
        if re.search(pattern, message):
            return f"admission plugin {plugin}"
    return "the validation of the API server" if refusal.status == 422 else "the API server"


def trial_findings(trials: Sequence[Trial]) -> Iterator[Finding]:
    """What of the trials counts: what was not tried, and what Berth plans and the cluster does not do."""
    for trial in trials:
        owner = _owner(trial.manifest)
        if trial.untried:
            yield Finding("warning", "NotTried", trial.verdict, owner)
        for path in trial.lacking:
            message = "Berth plans this, and the answer of the API server does not have it"
            yield Finding("warning", "NotInjected", message, owner, path)
