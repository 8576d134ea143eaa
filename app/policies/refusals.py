"""What the webhook refuses of an attachment, in CEL, as far as CEL can say it. Pure.

The rules are those of `attachment_problems` (`app.networks.model`). Not judged is what CEL cannot read, the JSON of
`spec.config`, and a node selector that is so long that judging it costs too much.
"""

from __future__ import annotations

from collections.abc import Callable

from app.admission.pods import INJECT
from app.cel.literals import literal
from app.kube.resources import NETWORK_ATTACHMENTS
from app.networks.model import CLAIM_TEMPLATE, DEVICE_CLASS, NODE_SELECTOR
from app.policies.leaving import Variables
from app.policies.model import Left, Terms

JUDGED_LABELS, JUDGED_CHARACTERS = 64, 8192
"""Of a node selector that is judged. A Kubernetes object has as many labels by far."""
_SPACE = r"\x{9}-\x{d}\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
"""What Python strips: more than `trim` of CEL does."""
_TRIMMED = literal(f"(?s)[^{_SPACE}](?:.*[^{_SPACE}])?")
_QUALIFIED = "[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_MOST_PREFIX, _MOST_QUOTA_PREFIX = 253, 244
"""Characters before the slash of a qualified name, and of one that quotas write `requests.` before."""
_CONFIG = literal(r"(?s)^[ \t\r\n]*\{.*\}[ \t\r\n]*$")
_ANNOTATIONS = "variables.annotations"
NOT_JUDGED = (
    Left(
        "spec.config of a NetworkAttachmentDefinition",
        "CEL does not read JSON: policies refuse what has not the braces of a JSON object, and nothing else of it",
    ),
    Left(
        "nodeSelector of a NetworkAttachmentDefinition",
        f"policies judge up to {JUDGED_LABELS} labels and {JUDGED_CHARACTERS} characters of it",
    ),
    Left(
        "annotations of RMD",
        "what they may say follows from nodes and a ConfigMap, which policies do not know: such Pods are left",
    ),
)
"""What the webhook checks and policies do not."""
REVIEWED = (
    "request.operation == 'CREATE' || !has(object.metadata.deletionTimestamp) || "
    "!(object.metadata.?annotations == oldObject.metadata.?annotations && "
    "object.metadata.?labels == oldObject.metadata.?labels && object.?spec == oldObject.?spec)"
)
"""Whether an attachment is looked at. One that is being deleted may be wrong: its finalizers have to be removable."""
RULE = {
    "apiGroups": [NETWORK_ATTACHMENTS.group],
    "apiVersions": [NETWORK_ATTACHMENTS.version],
    "operations": ["CREATE", "UPDATE"],
    "resources": [NETWORK_ATTACHMENTS.plural],
    "scope": "Namespaced",
}


def variables() -> Variables:
    empty = "object.metadata.annotations"
    return [{"name": "annotations", "expression": f"has({empty}) ? {empty} : {{}}"}]


def validations(terms: Terms) -> list[tuple[str, str]]:
    """Expressions that hold for a right attachment, each with its message, which names the field."""
    tests = [_when_named(key, _is_resource, "want a name such as example.com/nic") for key in terms.resource_name_keys]
    said = (
        f"want key=value[,key=value...], with one value for each key, and at most {_MOST_PREFIX} characters of a prefix"
    )
    tests.append(_when_named(NODE_SELECTOR, _is_selector, said))
    if terms.claims:
        tests += _claims()
    config = "object.?spec.?config.orValue('')"
    tests.append((f"{config} == '' || {config}.matches({_CONFIG})", "spec.config: want a JSON object"))
    return tests


def _when_named(key: str, holds: Callable[[str], str], said: str) -> tuple[str, str]:
    test = holds(f"{_ANNOTATIONS}[{literal(key)}]")
    return f"!({literal(key)} in {_ANNOTATIONS}) || {test}", f"metadata.annotations[{key}]: {said}"


def _is_resource(value: str) -> str:
    """A name with a domain, or one without, for which the webhook warns."""
    bare, whole = literal(f"^{_QUALIFIED}$"), literal(f"^{_SUBDOMAIN}/{_QUALIFIED}$")
    quota = f"(!name.startsWith('requests.') && name.lastIndexOf('/') <= {_MOST_QUOTA_PREFIX})"
    domain = f"name.lastIndexOf('/') <= {_MOST_PREFIX} && (name.contains('kubernetes.io/') || {quota})"
    return f"[{value}.find({_TRIMMED})].all(name, name.matches({bare}) || (name.matches({whole}) && {domain}))"


def _is_selector(value: str) -> str:
    space = f"[{_SPACE}]*"
    label = literal(f"^{space}(?:{_SUBDOMAIN}/)?{_QUALIFIED}{space}(?:={space}(?:{_QUALIFIED})?{space})?$")
    key = f"item.split('=')[0].find({_TRIMMED})"
    chosen = f"(item.contains('=') ? item.substring(item.indexOf('=') + 1).find({_TRIMMED}) : '')"
    pairs = f"items.map(item, {key} + '=' + {chosen}).distinct().size() == items.map(item, {key}).distinct().size()"
    short = f"items.all(item, {key}.indexOf('/') <= {_MOST_PREFIX})"
    judged = f"items.size() > {JUDGED_LABELS} || (items.all(item, item.matches({label})) && {short} && {pairs})"
    blank = f"{value}.find({_TRIMMED}) == ''"
    return f"{value}.size() > {JUDGED_CHARACTERS} || {blank} || [{value}.split(',')].all(items, {judged})"


def _claims() -> list[tuple[str, str]]:
    """Of an attachment whose device comes by a claim."""

    def text(key: str) -> str:
        return f"({literal(key)} in {_ANNOTATIONS} ? {_ANNOTATIONS}[{literal(key)}].find({_TRIMMED}) : '')"

    opted_out = f"{text(INJECT)}.lowerAscii() == 'false'"
    both = f"{opted_out} || {text(CLAIM_TEMPLATE)} == '' || {text(DEVICE_CLASS)} == ''"
    tests = [(both, f"metadata.annotations[{DEVICE_CLASS}]: excludes {CLAIM_TEMPLATE}: want one of the two")]
    for key in (CLAIM_TEMPLATE, DEVICE_CLASS):
        named = (
            f"[{text(key)}].all(name, name == '' || (name.size() <= 253 && name.matches({literal(f'^{_SUBDOMAIN}$')})))"
        )
        tests.append((f"{opted_out} || {named}", f"metadata.annotations[{key}]: want the name of an object"))
    return tests
