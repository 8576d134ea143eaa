"""The webhooks of configurations that call Berth, and what they lack of those that Berth would register. Pure.

Goes by the chart's labels where there are some, and by what is called where there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from app.admission.heads import split_path
from app.cel import matchconditions
from app.cel.webhookrules import names_resource
from app.doctor.objects import INSTANCE, PART_OF, labels, namespace_labels
from app.kube.resources import MUTATING_WEBHOOKS, PODS, Resource
from app.kube.selectors import label_selector_from_json
from app.registration import Terms, further_webhooks, objects_to, pods_to
from app.registry import ALWAYS_REVIEWED, REVIEWED, reviews_of, webhooks_of
from app.wire import JSON
from app.wiring import Webhook

_SERVING_PATHS = ("/mutate", "/validate")
_MANAGED_BY = "app.kubernetes.io/managed-by"
_RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"
_SHARED = tuple(kind for kind, answer in ALWAYS_REVIEWED.items() if answer == "validate")
"""Kinds of reviews for which several webhooks may be called: these are judged together."""
_CHECKED = frozenset(plural for rule in reviews_of(*_SHARED) for plural in rule.resources) - {"pods"}
NEW_POD = matchconditions.Attributes(
    "CREATE", "", "v1", "Pod", "pods", "", "", "probe", True, matchconditions.UserInfo("doctor"), None, None
)
"""The creation of a Pod, in no namespace yet."""
_NO_EFFECTS = "None"


@dataclass(frozen=True, slots=True)
class Registered:
    """One webhook of a configuration, that calls Berth. `index` is its place in the configuration."""

    resource: Resource
    configuration: JSON
    index: int
    webhook: JSON

    @property
    def name(self) -> str:
        return str(self.configuration["metadata"]["name"])

    @property
    def mutating(self) -> bool:
        return self.resource == MUTATING_WEBHOOKS

    @property
    def subject(self) -> str:
        return f"{self.resource.kind} {self.name}, webhook {self.webhook.get('name')}"

    @property
    def client(self) -> JSON:
        return self.webhook.get("clientConfig") or {}

    @property
    def service(self) -> tuple[str, str, int] | None:
        """Namespace, name and port of the Service that is called; None where a URL is."""
        called = self.client.get("service")
        return (called["namespace"], called["name"], called.get("port") or 443) if called else None

    @property
    def url(self) -> str:
        """Without the token of callers, which no finding repeats."""
        return split_path(str(self.client.get("url") or ""))[0]

    @property
    def host(self) -> str:
        """That of the URL."""
        return urlsplit(self.url).hostname or ""

    @property
    def bundle(self) -> str:
        return str(self.client.get("caBundle") or "")

    @property
    def fails_closed(self) -> bool:
        return self.webhook.get("failurePolicy") != "Ignore"

    @property
    def injects(self) -> bool:
        return self.mutating and self.covers("", "pods", "CREATE")

    @property
    def conditions(self) -> list[JSON]:
        return self.webhook.get("matchConditions") or []

    @property
    def known(self) -> Webhook | None:
        """The webhook of the chart that has its name."""
        return next(
            (webhook for webhook in webhooks_of() if f"{webhook.name}.berth.dev" == self.webhook.get("name")), None
        )

    @property
    def shows_token(self) -> bool:
        """Whether a token of callers ends the path."""
        called = self.client.get("url") or (self.client.get("service") or {}).get("path") or "/"
        return bool(split_path(called)[1])

    @property
    def needs_proof(self) -> bool:
        """Whether it is called for what is answered in full to proven callers alone."""
        alike = (webhook for webhook in webhooks_of() if (REVIEWED[webhook.kind] == "mutate") == self.mutating)
        return any(
            self.covers(rule.group, plural, operation)
            for rule in reviews_of(*{webhook.kind for webhook in alike if webhook.proven})
            for plural in rule.resources
            for operation in rule.operations
        )

    @property
    def unproven(self) -> str:
        """What happens to objects that are created without such a proof, "" where they are only told less."""
        creations = (
            webhook.unproven
            for webhook in webhooks_of()
            for rule in (reviews_of(webhook.kind) if webhook.unproven else ())
            for plural in rule.resources
            if self.covers(rule.group, plural, "CREATE")
        )
        return next(creations, "")

    @property
    def values(self) -> str:
        """The path of the chart's values for it, "" where it has none."""
        return f"webhook.webhooks.{self.known.values}" if self.known else ""

    @property
    def by_chart(self) -> bool:
        """Whether the chart owns it; what others write into it, the next upgrade may refuse to overwrite."""
        return labels(self.configuration).get(_MANAGED_BY) == "Helm"

    @property
    def release(self) -> str:
        """The release that it says it is of, "" where it says none."""
        return labels(self.configuration).get(INSTANCE, "")

    @property
    def home(self) -> str:
        """The namespace of its release: as Helm noted it down, else that of the Service; "" where there is neither."""
        noted = (self.configuration["metadata"].get("annotations") or {}).get(_RELEASE_NAMESPACE)
        return str(noted or (self.service[0] if self.service else ""))

    def covers(self, group: str, plural: str, operation: str) -> bool:
        return any(
            {group, "*"} & set(rule.get("apiGroups") or [])
            and names_resource(rule, *plural.split("/"))
            and {operation, "*"} & set(rule.get("operations") or [])
            for rule in self.webhook.get("rules") or []
        )

    def selects_namespace(self, labels: dict[str, str]) -> bool:
        return selects(self.webhook.get("namespaceSelector"), labels)

    def selects_object(self, labels: dict[str, str]) -> bool:
        return selects(self.webhook.get("objectSelector"), labels)

    def admits(self, metadata: JSON) -> bool:
        """Whether its conditions let a new Pod through. Raises ConditionFailed where that cannot be decided."""
        asked = replace(NEW_POD, namespace=metadata["namespace"])
        # Conditions read its containers: no Pod is without.
        probe = PODS.body({"name": "probe", **metadata}, spec={"containers": [{"name": "probe", "image": "probe"}]})
        return matchconditions.holds(self.conditions, asked, probe)

    def may_admit(self, metadata: JSON) -> bool:
        """Whether they let it through, or whether that cannot be decided."""
        try:
            return self.admits(metadata)
        except matchconditions.ConditionFailed:
            return True

    def refusing(self, pod: JSON) -> str:
        """The name of the first condition that leaves this Pod out when it is created; "" where none is known to."""
        asked = replace(NEW_POD, namespace=pod["metadata"].get("namespace") or "")
        for condition in self.conditions:
            try:
                if not matchconditions.holds([condition], asked, pod):
                    return str(condition.get("name"))
            except matchconditions.ConditionFailed:
                continue
        return ""

    @property
    def installer_name(self) -> str:
        """The `--name` of `berth certs install`, where that made it; else ""."""
        for ending in ("-mutating-config", "-validating-config"):
            name = self.name.removesuffix(ending)
            if name != self.name and self.service is not None and self.service[1] == f"{name}-service":
                return name
        return ""


def selects(selector: JSON | None, labels: dict[str, str]) -> bool:
    """Whether a selector matches. One that is malformed selects all."""
    try:
        return label_selector_from_json(selector or {}).matches(labels)
    except ValueError:
        return True


def selecting(webhooks: Sequence[Registered], namespace: JSON) -> list[Registered]:
    """Those that are called for objects in this Namespace."""
    own = namespace_labels(namespace)
    return [webhook for webhook in webhooks if webhook.selects_namespace(own)]


def calling_us(resource: Resource, configuration: JSON, *, release: str, namespace: str) -> Iterator[Registered]:
    """The webhooks of a configuration that call Berth: all where it is labeled or named so, else those by their target.

    The target is a Service in `namespace`, called for what Berth serves, at the paths that it serves.
    """
    ours = configuration["metadata"]["name"] == release or labels(configuration).get(PART_OF) == "berth"
    for index, webhook in enumerate(configuration.get("webhooks") or []):
        registered = Registered(resource, configuration, index, webhook)
        if ours or _calls_us(registered, namespace):
            yield registered


def _calls_us(registered: Registered, namespace: str) -> bool:
    if registered.service is None or registered.service[0] != namespace:
        return False
    if split_path(registered.client["service"].get("path") or "/")[0] not in _SERVING_PATHS:
        return False
    resources = {plural for rule in registered.webhook.get("rules") or [] for plural in rule.get("resources") or []}
    return "pods" in resources if registered.mutating else bool(resources & _CHECKED)


def uncovered(webhooks: Sequence[Registered], rules: Iterable[JSON]) -> dict[str, list[str]]:
    """The operations of rules for which none of the webhooks is called, by the plural of the kind."""
    operations: dict[str, list[str]] = {}
    for rule in rules:
        for plural in rule["resources"]:
            for operation in rule["operations"]:
                if not any(webhook.covers(rule["apiGroups"][0], plural, operation) for webhook in webhooks):
                    operations.setdefault(plural, []).append(operation)
    return operations


def wanted_of(registered: Registered) -> JSON:
    """The webhook that Berth would register in the place of this one, by its name."""
    build, path = (pods_to, "/mutate") if registered.mutating else (objects_to, "/validate")
    name = str(registered.webhook.get("name"))
    (entry,) = build({"service": {"path": path}}, name=registered.name, webhook=name, terms=Terms())["webhooks"]
    further = further_webhooks(registered.known.kind, entry, exempt=()) if registered.known else []
    return next((named for named in further if named["name"] == name), entry)


def differences(registered: Registered) -> Iterator[tuple[str, object, object]]:
    """Fields, their values, and those that Berth would register. What is wider, or has more, is no difference.

    Of the rules of a webhook that shares its kinds with others, `registrations` looks at all together.
    """
    wanted = wanted_of(registered)
    path = "clientConfig/service/path"
    called, _ = split_path((registered.client.get("service") or {}).get("path") or "/")
    if registered.service is not None and called != (right := wanted["clientConfig"]["service"]["path"]):
        yield path, called, right
    for field in ("admissionReviewVersions", "sideEffects", "reinvocationPolicy"):
        has, right = registered.webhook.get(field), wanted.get(field)
        enough = set(right) <= set(has or ()) if isinstance(right, list) else has in (right, _NO_EFFECTS)
        if right is not None and not enough:
            yield field, has, right
    alone = registered.mutating if registered.known is None else registered.known.kind not in _SHARED
    if alone and uncovered([registered], wanted["rules"]):
        yield "rules", registered.webhook.get("rules"), wanted["rules"]
