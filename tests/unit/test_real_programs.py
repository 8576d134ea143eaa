"""What `tests/real` pins: one line of a go.mod is one program with a version."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.real.programs import SETS, Program, directory, programs
from tests.support.paths import ROOT

PROGRAMS = [*programs()]


def test_each_line_is_a_program_with_a_name_of_its_own() -> None:
    names = [program.name for program in PROGRAMS]
    assert len(set(names)) == len(names)
    assert {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"} <= set(names)
    lines = [
        line for path in {program.folder for program in PROGRAMS} for line in (path / "go.mod").read_text().splitlines()
    ]
    assert len(names) == sum(line.startswith("tool ") and line != "tool (" for line in lines) + sum(
        bool(re.fullmatch(r"\t[\w./-]+( // [\w-]+)?", line)) for line in lines
    )


def test_a_set_has_programs_that_are_pinned_and_each_is_in_one() -> None:
    names = [name for several in SETS.values() for name in several]
    assert set(names) <= {program.name for program in PROGRAMS}
    assert len(names) == len(set(names))
    assert not SETS.keys() & {program.name for program in PROGRAMS}


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.name for program in PROGRAMS])
def test_a_program_has_a_module_whose_version_and_sum_are_pinned(program: Program) -> None:
    module, version = program.pin
    assert f"{program.package}/".startswith(f"{module}/")
    assert f"{module} {version} h1:" in (program.folder / "go.sum").read_text()


TITLES = {"kubectl": "kubectl", "helm": "Helm 4", "helm3": "Helm 3", "grpcurl": "grpcurl", "kueue": "Kueue"}
TITLES |= {name: name for name in SETS["control-plane"]}
TITLES |= {"appwrapper": "AppWrapper", "appwrapper-e2e": "AppWrapper"}
TITLES |= {"promtool": "promtool (Prometheus)", "jobset": "JobSet", "kuberay": "KubeRay", "kwok": "KWOK"}
TITLES |= {name: name for name in SETS["node"]} | {"multus": "Multus"}
TITLES |= {"loopback": "loopback (CNI plugins)", "pause": "pause (u-root's sleep)"}
TITLES |= {"training-operator": "Kubeflow's training operator"}


@pytest.mark.parametrize("name", [name for several in SETS.values() for name in several])
def test_the_page_has_the_version_that_runs(name: str) -> None:
    (program,) = (program for program in PROGRAMS if program.name == name)
    page = (ROOT / "docs" / "compatibility.md").read_text().partition("\n## What the tests run with\n")[2]
    rows = [line.split(" | ") for line in page.partition("\n## ")[0].splitlines()]
    (versions,) = (row[1] for row in rows if TITLES[name] in row[0].removeprefix("| ").split(", "))
    wanted = program.pin[1].removeprefix("v")
    assert wanted in versions.split(", ")


def test_another_pin_is_another_place(tmp_path: Path) -> None:
    program = PROGRAMS[0]
    for name in ("go.mod", "go.sum"):
        (tmp_path / name).write_text((program.folder / name).read_text())
    same = Program(program.name, tmp_path, program.package)
    assert same.built(Path("/c")) == program.built(Path("/c"))
    (tmp_path / "go.sum").write_text((program.folder / "go.sum").read_text() + "example.com/m v1.0.0 h1:x=\n")
    assert same.built(Path("/c")) != program.built(Path("/c"))
    assert directory(Path("/c")).parent == Path("/c")
