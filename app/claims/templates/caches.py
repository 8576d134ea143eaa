"""What the controller reads: who uses templates, the templates that it has made, and the definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.claims.definitions import DeviceClass, stored_class
from app.claims.known import KnownDefinitions
from app.claims.model import CLAIM_TEMPLATE_MARK
from app.claims.templates.planning import (
    OwnTemplate,
    User,
    stored_attachment,
    stored_pod,
    stored_template,
)
from app.kube.client import KubeClient
from app.kube.configuration import data_of
from app.kube.reflector import Reflector
from app.kube.resources import CONFIG_MAPS, DEVICE_CLASSES, NETWORK_ATTACHMENTS, PODS, RESOURCE_CLAIM_TEMPLATES
from app.kube.running import problems_of
from app.kube.store import Key, Store
from app.wire import JSON


class Caches:
    """`wake` is called with (namespace, name) of templates to look at.

    The ConfigMap `config_map` with definitions is in `namespace`. Of Pods, those that name templates are kept.
    """

    def __init__(self, client: KubeClient, *, namespace: str, config_map: str, wake: Callable[[Key], object]) -> None:
        self._wake = wake
        index = {"template": lambda one: one.keys}
        self.pods: Store[User] = Store(stored_pod, indices=index)
        self.attachments: Store[User] = Store(stored_attachment, indices=index)
        self.templates: Store[OwnTemplate] = Store(stored_template)
        self.classes: Store[DeviceClass] = Store(stored_class)
        config_maps: Store[JSON] = Store(data_of)
        self.known = KnownDefinitions(config_maps, self.classes, name=config_map, changed=self.wake_all)
        self.stores: tuple[Store[Any], ...] = (
            self.pods,
            self.attachments,
            self.templates,
            self.classes,
            config_maps,
        )
        self.reflectors = (
            Reflector(client, PODS, self.pods, called="ClaimTemplatePod"),
            Reflector(client, NETWORK_ATTACHMENTS, self.attachments),
            Reflector(client, RESOURCE_CLAIM_TEMPLATES, self.templates, label_selector=CLAIM_TEMPLATE_MARK),
            Reflector(client, DEVICE_CLASSES, self.classes),
            Reflector(client, CONFIG_MAPS, config_maps, namespace=namespace, name=config_map),
        )
        for store in (self.pods, self.attachments):
            store.subscribe(lambda _event, _key, old, new: self._user_changed(old, new))
        self.templates.subscribe(lambda _event, key, _old, _new: wake(key))

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return problems_of(self.reflectors)

    def used(self, key: Key) -> bool:
        return bool(self.pods.count("template", key) or self.attachments.count("template", key))

    def keys(self) -> set[Key]:
        """The templates that are used, or that there are."""
        users = (*self.pods.values(), *self.attachments.values())
        return {key for one in users for key in one.keys} | set(self.templates.keys())

    def wake_all(self) -> None:
        for key in self.keys():
            self._wake(key)

    def _user_changed(self, old: User | None, new: User | None) -> None:
        for key in {key for one in (old, new) if one is not None for key in one.keys}:
            self._wake(key)
