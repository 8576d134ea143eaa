"""What a real node is made of beside its programs: a machine on paper, configurations, and an image."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import yaml

JSON = dict[str, Any]
CPUS = 8
ALL_CPUS = f"0-{CPUS - 1}"
"""As lists of CPUs have them."""
RESERVED = "0"
"""The CPUs that kubelet keeps for the system."""
PAGES = 64
"""Huge pages of 2 MiB."""
IMAGE = "localhost/pause:1"
ADDRESS, BRIDGE, SUBNET = "10.77.0.1", "cni0", "10.77.0.0/24"
"""The node's own address, on the bridge of the cluster's network."""
RUNTIME = "containerd.sock"
_PAGE_SIZE = 2048
_SETUP = """
set -e
trap '' CHLD
mount --make-rshared /
ip link set lo up
ip link add {bridge} type bridge
ip address add {address}/24 dev {bridge}
ip link set {bridge} up
mount -t tmpfs tmpfs {folder}/layers
mkdir {folder}/layers/upper {folder}/layers/work
mount -t overlay overlay -o lowerdir=/var,upperdir={folder}/layers/upper,workdir={folder}/layers/work /var
mkdir -p /var/lib/kubelet
mount --bind {folder}/kubelet /var/lib/kubelet
mount -t tmpfs tmpfs /run
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount --bind {folder}/system /sys/devices/system
mount --bind {folder}/hugepages /sys/kernel/mm/hugepages
echo ready
exec cat > /dev/null
"""
_RUNC = """#!{python}
import json, os, pathlib, sys

arguments = sys.argv[1:]
if "update" in arguments:
    sys.exit(0)
if "create" in arguments:
    config = pathlib.Path(arguments[arguments.index("--bundle") + 1], "config.json")
    spec = json.loads(config.read_text())
    for limits in ("resources", "seccomp"):
        spec["linux"].pop(limits, None)
    config.write_text(json.dumps(spec))
os.execv("{runc}", ["{runc}", *arguments])
"""
_DEVICE = """#!{python}
import json, subprocess, sys

config = json.load(sys.stdin)
config["device"] = config.pop("deviceID", "")
config.pop("pciBusID", None)
sys.exit(subprocess.run(["{plugin}"], input=json.dumps(config).encode()).returncode)
"""
_CONTAINERD = """
version = 3
root = "{folder}/containerd"
state = "/run/containerd"

[grpc]
address = "{folder}/{runtime}"

[plugins.'io.containerd.cri.v1.images']
snapshotter = "native"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{image}"

[plugins.'io.containerd.cri.v1.runtime']
disable_apparmor = true
disable_cgroup = true
disable_hugetlb_controller = true
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{folder}/plugins", "{assets}"]
conf_dir = "{folder}/networks"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "{folder}/runc"
"""


def write_files(folder: Path, assets: Path, *, multus: Path) -> None:
    """Everything that the programs in `assets` read; `multus` is the kubeconfig of Multus."""
    for name in ("kubelet", "layers", "plugins", "networks"):
        (folder / name).mkdir()
    _write_machine(folder / "system")
    _write_pages(folder / "hugepages")
    names = {"folder": folder, "assets": assets, "runtime": RUNTIME, "image": IMAGE, "python": sys.executable}
    _write(folder / "setup", _SETUP.format(folder=folder, address=ADDRESS, bridge=BRIDGE))
    _write(folder / "containerd.toml", _CONTAINERD.format(**names))
    # runc refuses limits where its hierarchy of control groups has no controllers, and filters where it has no libseccomp.
    _write(folder / "runc", _RUNC.format(runc=assets / "runc", **names), mode=0o755)
    # host-device finds its device by a PCI address; the devices of tests have none.
    _write(folder / "plugins" / "vf", _DEVICE.format(plugin=assets / "host-device", **names), mode=0o755)
    _write(folder / "kubelet.yaml", yaml.safe_dump(_kubelet(folder)))
    _write(folder / "networks" / "00-multus.conf", json.dumps(_networks(multus)))
    (folder / "image.tar").write_bytes(_image((assets / "pause").read_bytes()))


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _kubelet(folder: Path) -> JSON:
    """Looks often, and evicts nothing: the disk of the machine is not the node's."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{folder / RUNTIME}",
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": RESERVED,
        "cpuCFSQuota": False,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        "clusterDNS": ["10.0.0.10"],
        "evictionHard": dict.fromkeys(("memory.available", "nodefs.available", "imagefs.available"), "0%"),
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "1s",
        "syncFrequency": "2s",
    }


def _networks(kubeconfig: Path) -> JSON:
    ipam = {"type": "host-local", "subnet": SUBNET, "gateway": ADDRESS}
    bridge = {"cniVersion": "1.0.0", "name": "cluster-network", "type": "bridge", "bridge": BRIDGE, "isGateway": True}
    return {
        "cniVersion": "1.0.0",
        "name": "multus",
        "type": "multus",
        "kubeconfig": str(kubeconfig),
        "delegates": [bridge | {"ipam": ipam}],
    }


def _write_machine(folder: Path) -> None:
    """One socket with CPUs that each are a core, as /sys/devices/system shows them."""
    for name in ("online", "possible", "present"):
        _write(folder / "cpu" / name, f"{ALL_CPUS}\n")
    node = folder / "node" / "node0"
    for name in ("online", "possible"):
        _write(node.parent / name, "0\n")
    _write(node / "cpulist", f"{ALL_CPUS}\n")
    _write(node / "distance", "10\n")
    _write(node / "meminfo", "Node 0 MemTotal: 16777216 kB\nNode 0 MemFree: 16777216 kB\n")
    _write_pages(node / "hugepages")
    for cpu in range(CPUS):
        own = folder / "cpu" / f"cpu{cpu}"
        topology = {
            "core_id": cpu,
            "physical_package_id": 0,
            "thread_siblings_list": cpu,
            "core_siblings_list": ALL_CPUS,
        }
        for name, content in topology.items():
            _write(own / "topology" / name, f"{content}\n")
        _write(own / "online", "1\n")
        (own / "node0").symlink_to("../../node/node0")
        (node / f"cpu{cpu}").symlink_to(f"../../cpu/cpu{cpu}")


def _write_pages(folder: Path) -> None:
    for name in ("nr_hugepages", "free_hugepages"):
        _write(folder / f"hugepages-{_PAGE_SIZE}kB" / name, f"{PAGES}\n")


def _image(program: bytes) -> bytes:
    """An archive as `docker save` writes it: one layer with a program that waits, or as long as its argument says."""
    layer = _archive({"bin/sleep": program})
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/bin/sleep", "1000000h"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    files = {"config.json": config, "layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}
    return _archive(files)


def _archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
