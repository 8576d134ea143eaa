"""Reviews of custom kinds look at counts before they work, and nothing is compared with everything."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

import pytest

from app.admission.chain import MutationPlan, refuse, shown
from app.appwrappers.admission import names, templates
from app.appwrappers.admission.components import component_problems
from app.appwrappers.model import ANNOTATIONS
from app.appwrappers.options import FaultTolerance
from app.claims.injection.injector import MOST_TEMPLATES, templates_of
from app.claims.publishing.model import Attachment
from app.errors import Denied
from app.kinds.objects import check_written
from app.placement.model import TenantPolicy
from app.tenancy.model import tenant_problems
from app.workloads.rules import keys
from app.workloads.rules.key_syntax import parse, plain_names, plain_path
from app.workloads.rules.problems import rule_problems
from app.workloads.templates import problems as template_module
from app.workloads.templates.problems import MOST_VALUES, manifest_problems
from tests.support.costs import cost_of
from tests.support.pods import pod

JSON = dict[str, Any]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[Any]]:
    """Has the calls of a function of a module counted."""

    def replace(module: Any, name: str) -> list[Any]:
        calls: list[Any] = []
        original = getattr(module, name)

        def call(*arguments: Any, **named: Any) -> Any:
            calls.append(arguments)
            return original(*arguments, **named)

        monkeypatch.setattr(module, name, call)
        return calls

    return replace


def wrapped(*paths: str) -> JSON:
    pod = {"containers": [{"name": "c", "image": "i"}]}
    template = {"apiVersion": "example.com/v1", "kind": "Other", "metadata": {"name": "o"}, "template": {"spec": pod}}
    return {"components": [{"template": template, "podSets": [{"path": path} for path in paths]}]}


def test_no_template_of_too_many_pod_sets_is_decoded(counted) -> None:
    decoded = counted(templates, "decode_builtin")
    found = list(component_problems(wrapped(*["template.template"] * 600), name="a", namespace="ns", most=18))
    message = "spec.components: components contains 600 podspecs; at most 18 are allowed, as a Workload has no more"
    assert (found, decoded) == ([message], [])


def test_a_template_is_decoded_once_for_a_path(counted) -> None:
    decoded = counted(templates, "decode_builtin")
    found = list(component_problems(wrapped(*["template.template"] * 18), name="a", namespace="ns", most=18))
    assert (len(found), len(decoded)) == (17, 1)


def test_templates_to_inject_into_are_counted_first() -> None:
    obj = {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper"}
    assert len(templates_of(obj | {"spec": wrapped("template.template")})) == 1
    with pytest.raises(Denied, match="want at most 64 Pod templates to inject into, got 65"):
        templates_of(obj | {"spec": wrapped(*["template.template"] * (MOST_TEMPLATES + 1))})


def test_few_annotations_without_a_meaning_are_compared_with_those_that_have_one(counted) -> None:
    compared = counted(names, "closest")
    found = list(names.annotation_warnings({f"{ANNOTATIONS}retrylimit{n}": "" for n in range(8000)}, FaultTolerance()))
    assert (len(compared), len(found)) == (16, 17)
    assert found[-1] == f"metadata.annotations: 7984 more keys below {ANNOTATIONS} without a meaning"


class Name(str):  # noqa: SLOT000  a count is kept
    """A text that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)


def tenant(hosts: list[Any]) -> JSON:
    return {"metadata": {"name": "a"}, "spec": {"identity": {"names": ["a"]}, "hosts": hosts}}


def test_a_host_is_not_compared_with_all_others() -> None:
    Name.compared = 0
    assert tenant_problems(tenant([Name(f"h{n}") for n in range(2000)])) == []
    assert Name.compared < 2 * 2000
    assert tenant_problems(tenant(["h", "h"])) == ["spec.hosts[1]: 'h' stands twice"]


def test_hosts_and_certificates_are_counted_first() -> None:
    broken = tenant(["/"] * 4097)
    broken["spec"]["identity"]["certificates"] = [{}] * 33
    assert tenant_problems(broken) == [
        "spec.identity.certificates: want at most 32, got 33",
        "spec.hosts: want at most 4096, got 4097",
    ]


def of_keys(*texts: str) -> JSON:
    terms = [
        {"matchExpressions": [{"key": text, "operator": "Exists"} for text in texts[begin : begin + 32]]}
        for begin in range(0, len(texts), 32)
    ]
    return {"resourceType": "v1/Pod", "workloadTerms": terms}


@pytest.mark.parametrize(
    "text", ["@", "a", "a.b", 'a."b.c/d".e', '"x"', "_a.B9", "a. b", '"a\\"b"', "a-b", 'a.""', "ü", "a[0]"]
)
def test_a_plain_path_is_read_without_the_parser_as_with_it(text: str) -> None:
    found = plain_names(text)
    assert found is None or found == plain_path(parse(text))
    assert (found is not None) == (text in ("a", "a.b", 'a."b.c/d".e', '"x"', "_a.B9"))


def test_keys_that_are_plain_paths_are_not_parsed(counted) -> None:
    keys.compile_key.cache_clear()
    parsed = counted(keys, "parse")
    assert rule_problems(of_keys(*(f'state.extra.labels."example.com/l{n}"' for n in range(1024))), kind="tenant") == []
    assert parsed == []


def test_no_key_of_too_many_that_compute_is_parsed(counted) -> None:
    keys.compile_key.cache_clear()
    parsed = counted(keys, "parse")
    assert rule_problems(of_keys(*(f"length(a{n})" for n in range(1024))), kind="tenant") == [
        "spec.workloadTerms: has 1024 different keys that are not written as a path of names: at most 32"
    ]
    assert parsed == []


def test_a_manifest_of_too_many_values_is_neither_copied_nor_counted_to_its_end(counted) -> None:
    copied, steps = counted(template_module, "encode_json"), counted(template_module, "step")
    sources = [{"configMap": {"name": "c"}}] * 50_000
    (found,) = manifest_problems(pod(volumes=[{"name": "v", "projected": {"sources": sources}}]), kind="Pod")
    assert found == f"spec.object: want at most {MOST_VALUES} fields and items at all levels together, got more"
    assert copied == []
    assert len(steps) < 20


def crossed(count: int) -> Callable[[], object]:
    """A Pod with as many containers as volumes and claims."""
    many = pod(
        containers=[{"name": f"c{n}", "image": "i", "resources": {"claims": [{"name": "x"}]}} for n in range(count)],
        volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(count)],
        resourceClaims=[{"name": f"r{n}", "resourceClaimName": "r"} for n in range(count)],
        unknown={f"f{n}": {} for n in range(count)},
    )
    return lambda: check_written("Pod", "v1", many, kept=("name",))


def test_a_container_does_not_go_through_all_volumes_and_claims() -> None:
    once, twice = cost_of(crossed(40)), cost_of(crossed(80))
    assert twice.calls < 2.2 * once.calls


def test_faults_are_not_compared_with_all_unknown_fields() -> None:
    def many(count: int) -> Callable[[], object]:
        containers = [{"name": "A", "image": "i", f"new{n}": 1} for n in range(count)]
        return lambda: manifest_problems(pod(containers=containers), kind="Pod", policy=TenantPolicy())

    once, twice = cost_of(many(40)), cost_of(many(80))
    assert twice.calls < 2.2 * once.calls


def test_an_address_is_not_compared_with_all_subnets() -> None:
    def lan(count: int) -> Attachment:
        subnets = [ip_network(f"10.{n // 256}.{n % 256}.0/24") for n in range(count)]
        return Attachment("ns/lan", "", tuple(subnets), (ip_interface("192.168.0.1/24"),))

    many, outside = lan(1024), ip_address("172.16.0.1")
    assert [many.excludes(ip_address(one)) for one in ("10.3.255.7", "192.168.0.1", "10.4.0.0", "fd00::1")] == [
        *(False, False, True, False)
    ]
    assert [many.includes(ip_address(text)) for text in ("10.3.255.7", "192.168.0.1", "10.4.0.0", "fd00::1")] == [
        *(True, True, False, False)
    ]
    assert cost_of(lambda: many.excludes(outside)).calls < 20
    assert cost_of(lambda: many.includes(outside)).calls < 20


def test_what_is_found_is_bounded_in_number_and_length() -> None:
    found = shown(["x" * 10_000] * 50_000)
    assert (len(found), len(found[0]), found[-1]) == (51, 1024, "and 49950 more problems")
    with pytest.raises(Denied) as denied:
        refuse(["x" * 10_000] * 50_000, reason="No")
    assert len(str(denied.value)) < 64 * 1024
    plan = MutationPlan()
    plan.warnings += ["x" * 10_000] * 50_000
    assert [len(plan.decision().warnings), plan.decision().warnings[-1]] == [51, "and 49950 more warnings"]
