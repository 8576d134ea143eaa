"""Regular expressions of schemas: RE2's syntax and Go's messages, in time that grows with the text alone."""

from __future__ import annotations

from typing import Any

from tests.integration.sandbox.test_crd_rules import CRDS, definition, fields, rules

REFUSED = {
    "(": "missing closing ): `(`",
    ")": "unexpected ): `)`",
    "[a": "missing closing ]: `[a`",
    "a**": "invalid nested repetition operator: `**`",
    "|*": "missing argument to repetition operator: `*`",
    "a{1001}": "invalid repeat count: `{1001}`",
    "\\": "trailing backslash at end of expression: ``",
    "[b-a]": "invalid character class range: `b-a`",
    "\\p{Foo}": "invalid character class range: `\\p{Foo}`",
    "(?=a)": "invalid or unsupported Perl syntax: `(?=`",
    "(?<!a)": "invalid named capture: `(?<!a)`",
    "(?P<n": "invalid named capture: `(?P<n`",
    "\\Z": "invalid escape sequence: `\\Z`",
    "\\1": "invalid escape sequence: `\\1`",
}
MATCHES = [
    ("(?i)abc", "xABC", True),
    ("^a$", "a\n", False),
    ("^[[:alpha:]]+\\z", "abc", True),
    ("^\\d$", "٣", False),
    ("^\\pL$", "é", True),
    ("^.$", "é", True),
    ("^\\Qa.b\\E$", "axb", False),
    ("(?<n>a)(?P<m>b)", "ab", True),
    ("^(a+)+$", "a" * 28 + "b", False),
]


def test_patterns_are_refused_in_the_words_of_go(served: Any) -> None:
    schema = fields(**{f"p{at:02}": {"type": "string", "pattern": one} for at, one in enumerate(REFUSED)})
    answer = served.request("POST", f"{CRDS}?dryRun=All", definition(schema))
    assert answer.status == 422
    found = {cause["field"]: cause["message"] for cause in answer.body["details"]["causes"]}
    for at, text in enumerate(REFUSED.values()):
        message = found[f"spec.validation.openAPIV3Schema.properties[spec].properties[p{at:02}].pattern"]
        assert message.endswith(f"must be a valid regular expression, but isn't: error parsing regexp: {text}")


def test_patterns_match_as_go_matches(served: Any) -> None:
    """Also those that take a backtracking engine minutes."""
    name = f"boxes.{definition({})['spec']['group']}"
    schema = fields(
        **{
            f"p{at}": {"type": "string", "maxLength": 99, "pattern": pattern, **rules(f"self.matches(r'{pattern}')")}
            for at, (pattern, _, _) in enumerate(MATCHES)
        }
    )
    served.define(definition(schema))
    path = f"/apis/{name.partition('.')[2]}/v1/namespaces/{served.namespace()}/boxes"
    for at, (pattern, text, matches) in enumerate(MATCHES):
        body = {
            "apiVersion": "rules.example.com/v1",
            "kind": "Box",
            "metadata": {"name": f"b{at}"},
            "spec": {f"p{at}": text},
        }
        answer = served.request("POST", path, body)
        assert answer.status == (201 if matches else 422), (pattern, text, answer.body)
        if not matches:
            assert "should match '" in answer.body["message"]
            assert "failed rule: self.matches(" in answer.body["message"]
    served.undefine(name)
