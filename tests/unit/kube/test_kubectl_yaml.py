"""YAML is read as kubectl reads it: `kubectl_yaml.json` has what kubectl's own code made of each text.

That code is `tests/peers/kubectl`: k8s.io/apimachinery, which reads by sigs.k8s.io/yaml, in the versions of the file.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.kube.documents import DocumentError, parse_documents
from app.wire import JSON
from app.yaml_documents import LEVELS, YamlError, documents_in, load_yaml

READINGS: list[JSON] = json.loads(Path(__file__).with_name("kubectl_yaml.json").read_text())["readings"]
DROPPED = {" a: 1\nb: 2", "a: 1\n...\nb: 2"}
"""Of which kubectl drops the end without a word, and we say that it does."""
LENIENT = {'v: "\\/"', '{"a": 1} # c'}
"""What kubectl refuses and we read: an escape of JSON in YAML, a comment behind JSON."""


def read(text: str) -> tuple[list[str], bool]:
    """The values before the first fault as JSON, which tells 1, 1.0 and true apart, and whether there is a fault."""
    values: list[str] = []
    for document in documents_in(text):
        if isinstance(document, YamlError):
            return values, True
        if document[1] is not None:
            values.append(json.dumps(document[1], sort_keys=True))
    return values, False


def whole(text: str) -> float:
    """kubectl keeps the 1.0 of a text in JSON until it sends the object: then it is 1."""
    return int(float(text)) if float(text).is_integer() and float(text) < 1e21 else float(text)


def wanted(reading: JSON) -> tuple[list[str], bool]:
    values = [json.loads(document, parse_float=whole) for document in reading["documents"]]
    return [json.dumps(value, sort_keys=True) for value in values], "error" in reading


def test_texts_have_the_values_that_kubectl_reads() -> None:
    separated = [reading for reading in READINGS if "separator" in reading.get("error", "")]
    others = [reading for reading in READINGS if reading not in separated and reading["text"] not in LENIENT]
    assert len(others) > 600
    differing = {reading["text"]: (read(reading["text"]), wanted(reading)) for reading in others}
    assert {text: pair for text, pair in differing.items() if pair[0] != pair[1] and text not in DROPPED} == {}
    assert [differing[text][0][0] for text in DROPPED] == [differing[text][1][0] for text in DROPPED]
    assert [differing[text][0][1] for text in DROPPED] == [True] * len(DROPPED)
    # kubectl drops what stands before a bad separator, too.
    assert [read(reading["text"])[1] for reading in separated] == [True] * len(separated)
    assert [read(text)[1] for text in LENIENT] == [False] * len(LENIENT)


@pytest.mark.parametrize(
    ("broken", "place"),
    [
        ("kind: B\na: b: c\n", "x:4:5: not valid YAML: mapping values"),
        ("kind: B\na: [1,\n", "x:5:1: not valid YAML"),
        ("kind: B\na: .inf\n", "x:4:4: not valid YAML: inf is no number of JSON"),
        ("~: 1\n", "x:3:1: not valid YAML: a key of a mapping is null"),
        ("a: !!int x\n", "x:3:4: not valid YAML: !!int: 'x' is none"),
        ("a: *none\n", "x:3:4: not valid YAML: no anchor none stands before its alias"),
        ("a: {<<: 1}\n", "x:3:9: not valid YAML: a merge (<<) wants a mapping"),
        ("a: \x00\n", "x:3: not valid YAML: a character that it does not allow"),
        ("- a\n", "x:3: want an object with apiVersion and kind, got a list"),
        ("{{ .Values.x }}\n", "x:3:"),
        ('{"a": 1e400}\n', "x:3: not valid YAML: 1e400 is no number of 64 bits"),
        ('{"a": 1} b\n', "x:3: want an object with apiVersion and kind, got text"),
        ("[" * 5000 + "\n", f"x:3:{LEVELS + 1}: not valid YAML: nested in more than {LEVELS} levels"),
        ("a: \t- b: c\n", "x:3:"),
    ],
)
def test_a_document_that_cannot_be_read_costs_itself_alone(broken: str, place: str) -> None:
    faults: list[DocumentError] = []
    text = f"kind: A\n---\n{broken}--- # the last\nkind: C\n"
    documents = parse_documents(text, source="x", fault=faults.append)
    assert [document.content["kind"] for document in documents if "kind" in document.content] == ["A", "C"]
    assert len(faults) == 1
    assert str(faults[0]).startswith(place)
    with pytest.raises(DocumentError):
        parse_documents(text, source="x")


def test_aliases_cannot_nest_more_deeply_than_a_text() -> None:
    chain = "a0: &a0 {}\n" + "".join(f"a{n}: &a{n} {{x: *a{n - 1}}}\n" for n in range(1, LEVELS + 10))
    with pytest.raises(YamlError, match="nested in more than"):
        load_yaml(chain + "#" * 100_000)
