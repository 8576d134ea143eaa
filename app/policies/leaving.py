"""Which Pods policies leave to the webhook, in CEL. Pure.

The rules are those of `app.networks` (selection, interfaces, device_requests, podnetinfo, plan). The text of each is
proven by tests that have a real API server judge the same Pods by policy and by webhook.
"""

from __future__ import annotations

from app.admission.pods import INJECT, MIRROR
from app.cel.literals import listed, literal
from app.kube.resources import IMPLICIT_PREFIX
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.networks.podnetinfo import VOLUME
from app.policies.cel import Maps
from app.policies.model import Terms

Variables = list[dict[str, str]]
MOST_CHARACTERS = 4096
"""Of the annotation."""
MOST_NETWORKS = 32
MOST_LABELS = 8
"""Of the node selector of one network."""
MOST_CONTAINERS = 32
MOST_MOUNTS = 512
"""Mounts and block devices of a Pod, and volumes. These bounds keep the cost of one expression below a third of what an
API server lets it have (`PerCallLimit`, 1,000,000); a Pod beyond them is left to the webhook.
"""
_AMOUNT = r"^(?:[0-9]{1,15}|[0-9]{1,5}(?:m|k|M|G|Ki|Mi|Gi|e3|e6|e9))$"
"""Amounts of devices that policies reckon with. API servers store one from 10^18 on in more than one form."""
_ELEMENT = r"\s*(?:[a-z0-9][a-z0-9-]*/)?[a-z0-9][a-z0-9-]*(?:@[A-Za-z0-9._-]{1,15})?\s*"
_LIST = f"^{_ELEMENT}(?:,{_ELEMENT})*$"
_JSON = literal('[[{"]')
ANNOTATIONS, LABELS = "object.metadata.annotations", "object.metadata.labels"
APPS = "object.spec.containers"
INITS = "(has(object.spec.initContainers) ? object.spec.initContainers : [])"


def has_annotation(key: str) -> str:
    return f"(has({ANNOTATIONS}) && {literal(key)} in {ANNOTATIONS})"


def annotation_of(key: str) -> str:
    return f"string({ANNOTATIONS}[{literal(key)}])"


def _is_false(place: str) -> str:
    key = literal(INJECT)
    return f"(has({place}) && {key} in {place} && {place}[{key}].lowerAscii() == 'false')"


SKIPPED = " || ".join(
    (
        "(has(object.spec.hostNetwork) && object.spec.hostNetwork)",
        has_annotation(MIRROR),
        _is_false(LABELS),
        _is_false(ANNOTATIONS),
    )
)
"""A Pod that gets no networks."""
SELECTS = f"{has_annotation(NETWORKS)} && {annotation_of(NETWORKS)} != ''"
_VALUE = annotation_of(NETWORKS)
_SPLIT = f"{_VALUE}.split(',').map(element, element.trim())"
CONTAINERS = f"({APPS} + {INITS})"
FEW_MOUNTS = (
    f"(!has(c.volumeMounts) || c.volumeMounts.size() <= {MOST_MOUNTS // MOST_CONTAINERS}) && !has(c.volumeDevices)"
)
"""Of a container `c`: as few as `MOST_CONTAINERS` may have without more than `MOST_MOUNTS` in all."""


def _keys(elements: str) -> str:
    whole = "(element.contains('/') ? element : request.namespace + '/' + element)"
    return f"{elements}.map(element, {whole}.split('@')[0])"


def _any_container(condition: str, containers: str = CONTAINERS) -> str:
    """Whether the condition holds for a container `c`."""
    return f"{containers}.exists(c, {condition})"


def _any_resource(condition: str) -> str:
    """Whether the condition holds for an amount of container `c`; `{side}` in it is the map, `key` the resource."""
    sides = ("c.resources.requests", "c.resources.limits")
    texts = (f"(has({side}) && {side}.exists(key, {condition.replace('{side}', side)}))" for side in sides)
    return f"has(c.resources) && ({' || '.join(texts)})"


_SELECTED = [
    {"name": "elements", "expression": _SPLIT},
    {"name": "keys", "expression": _keys("variables.elements")},
]


def _elsewhere(keys: str) -> tuple[str, str]:
    """Of `keys`, an expression."""
    said = literal("it selects networks of another namespace")
    return f"!{keys}.all(key, key.startsWith(request.namespace + '/'))", said


HAS_VOLUME = f"(has(object.spec.volumes) && object.spec.volumes.exists(volume, volume.name == {literal(VOLUME)}))"
_HOLDERS = f"({APPS} + {INITS}.filter(c, has(c.restartPolicy) && c.restartPolicy == 'Always'))"
_LIMITS, _NAME = "c.resources.limits", "texts[names[key][0]]"
_LIMIT = f"string({_LIMITS}[{_NAME}])"
_HELD = (
    f"{_HOLDERS}.map(c, !(has(c.resources) && has({_LIMITS}) && {_NAME} in {_LIMITS}) ? 0 : "
    f"{_LIMIT}.matches('^[0-9]{{1,15}}$') ? int({_LIMIT}) : {_LIMIT}.endsWith('m') ? 0 : 1000).sum()"
)
"""How many of the resource of a network the Pod has. API servers write 1000 as 1k: more than a Pod can need."""
_LACKS_DEVICES = (
    f"keys.exists(key, {_NAME} != '' && (!{HAS_VOLUME} || "
    f"{_HELD} < keys.filter(other, names[other][0] == names[key][0]).size()))"
)
_SELECTOR = "object.spec.nodeSelector"
_LACKS_LABELS = (
    f"keys.exists(key, names[key].size() > 1 && !(has({_SELECTOR}) && names[key].all(place, place == names[key][0] || "
    f"{_SELECTOR}.exists(label, texts[place] == label + '=' + {_SELECTOR}[label]))))"
)
_NOT_SERVED = [(_LACKS_DEVICES, "''"), (_LACKS_LABELS, "''")]
"""Of a Pod that lacks what its networks need: devices, the volume, or labels of its node selector.

Policies have not served it: they are not there, or another webhook has added its networks. Policies run before all
webhooks, and what did not match then is not evaluated again.
"""


class LeftOut:
    """The Pods that are left to the webhook: tests in CEL, each with the message of a Pod for which it holds."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms

    @property
    def _foreign(self) -> list[tuple[str, str]]:
        """Conditions by which a Pod asks for something else, with their messages, which are CEL."""
        asked = [*map(has_annotation, self._terms.annotations), *self._terms.asks]
        return [(" || ".join(f"({ask})" for ask in asked), literal("it asks for more than networks"))] if asked else []

    @property
    def _others(self) -> list[tuple[str, str]]:
        tests = [(has_annotation(DEFAULT_NETWORK), literal(f"it has annotation {DEFAULT_NETWORK}"))]
        labels = [injection.label for injection in self._terms.switches.injections]
        if labels:
            said = f"{LABELS}[key].lowerAscii() == 'true'"
            matched = f"has({LABELS}) && {listed(labels)}.exists(key, key in {LABELS} && {said})"
            tests.append((matched, literal("a label injects annotations into it")))
        return tests

    @property
    def _value(self) -> list[tuple[str, str]]:
        most = literal(f"annotation {NETWORKS} has more than {MOST_CHARACTERS} characters")
        said = literal(f"annotation {NETWORKS}: an element is not name[@interface], in letters and digits of a name")
        return [(f"{_VALUE}.size() > {MOST_CHARACTERS}", most), (f"!{_VALUE}.matches({literal(_LIST)})", said)]

    def _elements(self, elements: str) -> list[tuple[str, str]]:
        """Of `elements`, an expression."""
        most = literal(f"annotation {NETWORKS} has more than {MOST_NETWORKS} elements")
        return [(f"{elements}.size() > {MOST_NETWORKS}", most)]

    def _unknown(self, keys: str, known: str) -> list[tuple[str, str]]:
        """Of `keys`, an expression; `known` is the condition that policies know `key`."""
        unknown = f"{keys}.filter(key, !({known}))[0]"
        said = literal(" does not exist, or policies do not serve it")
        return [(f"!{keys}.all(key, {known})", f"'network attachment definition ' + {unknown} + {said}")]

    @property
    def _shape(self) -> list[tuple[str, str]]:
        # What policies add does not count: the Pod is judged again behind them. What is surely below is not counted.
        others = f"filter(volume, volume.name != {literal(VOLUME)}).size()"
        mounts = (
            f"(has(c.volumeMounts) ? c.volumeMounts.{others} : 0) + (has(c.volumeDevices) ? c.volumeDevices.size() : 0)"
        )
        volumes = (
            f"(has(object.spec.volumes) && object.spec.volumes.size() > {MOST_MOUNTS} && "
            f"object.spec.volumes.{others} > {MOST_MOUNTS})"
        )
        counted = f"!{CONTAINERS}.all(c, {FEW_MOUNTS}) && {CONTAINERS}.map(c, {mounts}).sum() > {MOST_MOUNTS}"
        count = f"{APPS}.size() + {INITS}.size()"
        tests = [
            (
                f"{APPS}.size() == 0 || {count} > {MOST_CONTAINERS}",
                literal(f"it has more than {MOST_CONTAINERS} containers"),
            ),
            (f"{volumes} || ({counted})", literal(f"it has more than {MOST_MOUNTS} volumes or mounts")),
            (
                _any_container(
                    _any_resource(f"key.contains('/') && !string({{side}}[key]).matches({literal(_AMOUNT)})")
                ),
                literal("an amount of devices is negative, or has more than 15 digits"),
            ),
        ]
        return [*tests, *self._devices]

    @property
    def _devices(self) -> list[tuple[str, str]]:
        tests = []
        if self._terms.switches.hugepage_down_api:
            pages = _any_container(_any_resource("key.startsWith('hugepages-')"), APPS)
            tests.append((pages, literal("its huge pages are published in /etc/podnetinfo")))
        if self._terms.claims:
            implicit = _any_container(_any_resource(f"key.startsWith({literal(IMPLICIT_PREFIX)})"))
            claims = "(has(object.spec.resourceClaims) && object.spec.resourceClaims.size() > 0)"
            tests.append((f"{claims} || {implicit}", literal("it asks for devices by claims")))
        return tests

    def unknown(self, networks: Maps) -> Variables:
        """`left` for a Pod that this `condition` does not leave: a message where policies do not know one of `keys`."""
        tests = self._unknown("variables.keys", networks.has("key"))
        return [*networks.variables, *_SELECTED, {"name": "left", "expression": chain(tests)}]

    def variables(self, networks: Maps) -> Variables:
        """`left`: the reason why a Pod is left to the webhook, "" where it is not, with what that needs."""
        tests = [
            *self._foreign,
            (SKIPPED, "''"),
            *self._others,
            (f"!({SELECTS})", "''"),
            # Of its characters none is in another element either; the condition does not need to tell it apart.
            (f"{_VALUE}.matches({_JSON})", literal(f"annotation {NETWORKS} is in the JSON form")),
            *self._value,
            *self._elements("variables.elements"),
            _elsewhere("variables.keys"),
            *self._unknown("variables.keys", networks.has("key")),
            *self._shape,
        ]
        return [*networks.variables, *_SELECTED, {"name": "left", "expression": chain(tests)}]

    def besides_networks(self) -> list[str]:
        """The tests by which a Pod is left for what it asks for besides networks."""
        return [test for test, _ in (*self._foreign, *self._others, *self._devices)]

    def taken(self) -> str:
        """The condition that a Pod selects networks and is not left, unless policies do not know them."""
        count = _any(self._elements(f"{_VALUE}.split(',')"))
        elsewhere = f"{_VALUE}.contains('/') && [{_SPLIT}].exists(elements, [{_keys('elements')}].exists(keys, "
        elsewhere = f"({elsewhere}{_elsewhere('keys')[0]})))"
        besides = [*self._foreign, *self._others, *self._value]
        return f"{SELECTS} && !({SKIPPED}) && !({_any(besides)} || {count} || {elsewhere} || {_any(self._shape)})"

    def condition(self, names: str, texts: str) -> str:
        """The condition that a Pod is left, or lacks what its networks need; without variables.

        `texts` is a list of strings, and `names` a map of the networks that policies know to places in it: the first is
        that of the resource ("" for none), the others are those of the labels, as key=value. A Pod that selects a
        network that `names` lacks is left too.
        """
        tests = [_elsewhere("keys"), *self._unknown("keys", "key in names"), *_NOT_SERVED]
        within_elements = f"{_any(self._elements('elements'))} || [{_keys('elements')}].exists(keys, {_any(tests)})"
        named = f"[{names}].exists(names, [{_SPLIT}].exists(elements, {within_elements}))"
        # The shape bounds the number of containers, and with it the cost of what follows.
        selected = f"{SELECTS} && ({_any(self._value)} || {_any(self._shape)} || [{texts}].exists(texts, {named}))"
        networks = f"!({SKIPPED}) && ({_any(self._others)} || ({selected}))"
        return " || ".join(filter(None, (_any(self._foreign), f"({networks})")))


def _any(tests: list[tuple[str, str]]) -> str:
    return " || ".join(f"({test})" for test, _ in tests)


def chain(tests: list[tuple[str, str]]) -> str:
    """The message of the first test that holds, "" where none does. Both are CEL."""
    return "".join(f"({test}) ? {message} : " for test, message in tests) + "''"
