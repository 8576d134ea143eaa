"""The programs that the folders beside this file pin, and where they are built: outside the tree, once for each pin."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_FOLDER = Path(__file__).parent
_NEWEST, _OLDEST = "kubernetes", "kubernetes-1.30"
"""The folders of Kubernetes: with the version that Berth is made for, and with the oldest that its chart lets in."""
_BLOCK = re.compile(r"^tool \(\n(.*?)^\)$", re.MULTILINE | re.DOTALL)
_TOOL = re.compile(r"^(?:tool |\t)(?P<package>[\w./-]+)(?: // (?P<name>[\w-]+))?$", re.MULTILINE)
"""One program; a comment behind it is its name, where the package has another."""
SETS = {
    "control-plane": ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"),
    "clients": ("helm", "grpcurl"),
    "neighbors": (
        "helm3",
        "kueue",
        "appwrapper",
        "appwrapper-e2e",
        "jobset",
        "training-operator",
        "kuberay",
        "promtool",
        "kwok",
    ),
    "node": (
        *("kubelet", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "multus"),
        *("bridge", "host-local", "host-device", "loopback", "pause"),
    ),
}
"""Names for several programs: what an API server is made of, what calls it and a gateway, what takes long to build, and
what a node is made of, with the one program in its images."""
_C = ("github.com/opencontainers/runc",)
"""The modules that are built with a C compiler."""
_STAMPS = {
    "k8s.io/kubernetes": ("k8s.io/component-base/version.gitVersion", "k8s.io/client-go/pkg/version.gitVersion"),
    "sigs.k8s.io/kueue": ("sigs.k8s.io/kueue/pkg/version.GitVersion",),
    "sigs.k8s.io/kwok": ("sigs.k8s.io/kwok/pkg/consts.Version",),
    "helm.sh/helm/v4": ("helm.sh/helm/v4/internal/version.version",),
    "helm.sh/helm/v3": ("helm.sh/helm/v3/internal/version.version",),
    "github.com/prometheus/prometheus": ("github.com/prometheus/common/version.Version",),
    "github.com/fullstorydev/grpcurl": ("main.version",),
    "github.com/containerd/containerd/v2": ("github.com/containerd/containerd/v2/version.Version",),
    "gopkg.in/k8snetworkplumbingwg/multus-cni.v4": ("gopkg.in/k8snetworkplumbingwg/multus-cni.v4/pkg/multus.version",),
}
"""By module: the variables that hold its version. A build from a module leaves them empty."""


@dataclass(frozen=True)
class Program:
    """One program: the name of its file, the module that pins it, and the package that is built."""

    name: str
    folder: Path
    package: str

    @cached_property
    def pin(self) -> tuple[str, str]:
        """The module that the package belongs to, and its version."""
        found = re.findall(r"^(?:require )?\t?(\S+) (v\S+)", (self.folder / "go.mod").read_text(), re.MULTILINE)
        modules = {module: version for module, version in found if f"{self.package}/".startswith(f"{module}/")}
        module = max(modules, key=len)
        return module, modules[module]

    @property
    def tests(self) -> bool:
        """Whether the package has tests alone, which the program runs."""
        return "/test/" in self.package

    @property
    def has_c(self) -> bool:
        """Whether its build needs a C compiler."""
        return self.pin[0] in _C

    @property
    def linked(self) -> str:
        """The flags for the linker: the version, and no tables of symbols, which nothing here reads."""
        module, version = self.pin
        return " ".join(["-s", "-w", *(f"-X {variable}={version}" for variable in _STAMPS.get(module, ()))])

    def built(self, cache: Path) -> Path:
        """Where it is built; another place for each pin of any module that it is made of."""
        sums = hashlib.sha256((self.folder / "go.sum").read_bytes())
        sums.update(f"{self.package} {self.linked}".encode())
        return cache / f"{self.name}-{sums.hexdigest()[:16]}" / self.name


def programs(*, oldest: bool = False) -> Iterator[Program]:
    """All of them, by folder; those of the oldest Kubernetes have the names that those of the newest have."""
    for path in sorted(_FOLDER.glob("*/go.mod")):
        if path.parent.name == (_NEWEST if oldest else _OLDEST):
            continue
        text = path.read_text()
        lines = [*_BLOCK.findall(text), *re.findall(r"^tool [^(\n]*$", text, re.MULTILINE)]
        for tool in _TOOL.finditer("\n".join(lines)):
            package = tool["package"]
            yield Program(tool["name"] or package.rpartition("/")[2], path.parent, package)


def cache_directory() -> Path:
    """`BERTH_REAL_CACHE`, else `berth/real` in the user's directory of caches (XDG Base Directory Specification)."""
    if named := os.environ.get("BERTH_REAL_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "berth" / "real"


def directory(cache: Path, *, oldest: bool = False) -> Path:
    """The folder with all programs by their names, for `KUBEBUILDER_ASSETS`: another one where any pin is another."""
    keys = hashlib.sha256("\n".join(str(program.built(Path())) for program in programs(oldest=oldest)).encode())
    return cache / f"bin-{keys.hexdigest()[:16]}"
