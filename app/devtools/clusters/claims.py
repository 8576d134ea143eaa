"""Devices for networks in a cluster of the sandbox: a class, and a driver that has four on each host.

Where a node has capacity of the resource itself, as with a device plugin, that is used and not the devices.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.devtools.claims.driver import DriverStandIn
from app.devtools.clusters.parts import Parts
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import DEVICE_CLASSES
from app.wire import JSON

DRIVER = DEVICE_CLASS = "vf.example.com"
RESOURCE = "example.com/foo"
DEVICES = 4
"""On each host."""
_CLASS: JSON = {
    "extendedResourceName": RESOURCE,
    "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
}


async def give_devices(client: KubeClient, parts: Parts, hosts: Sequence[str]) -> bool:
    """To Pods that ask for the resource, or that have claims of the class. False where claims are not served."""
    try:
        await client.apply(DEVICE_CLASSES, DEVICE_CLASS, DEVICE_CLASSES.body({"name": DEVICE_CLASS}, spec=_CLASS))
    except ApiError as error:
        if not error.unserved:
            raise
        return False  # Kubernetes before 1.34
    driver = DriverStandIn(client, DRIVER, "data", hosts, resource=RESOURCE, count=DEVICES)
    await driver.publish_slices()
    parts.run(driver)
    return True
