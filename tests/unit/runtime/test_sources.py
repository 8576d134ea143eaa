"""What fills the caches from a cluster, with the rights that an existing deployment has."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from app.admission.parts import ReviewCaches
from app.errors import Transient
from app.kube.resources import CONFIG_MAPS, NETWORK_ATTACHMENTS
from app.networks.settings import CONFIG_MAP_NAME, ControlSwitches, Switches, text_of
from app.registry import settings_of
from app.runtime.serving import Sources
from tests.support.fake_apiserver import ApiServer, config_map, parse_path, status, write_kubeconfig
from tests.support.running import running
from tests.support.waiting import eventually

WebhookSettings = settings_of("webhook")


async def no_list_of_config_maps(server: ApiServer, request: web.Request) -> web.StreamResponse | None:
    plural, _, name = parse_path(request.path)
    if plural == "configmaps" and name is None:
        return web.json_response(status(403, "Forbidden", "configmaps is forbidden"), status=403)
    return None


async def test_a_role_that_may_only_get_config_maps_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Network Resources Injector's role: `get` on ConfigMaps, everything on attachments."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    server = ApiServer()
    server.fault = no_list_of_config_maps
    await server.start()
    text = '{"features": {"enableHugePageDownApi": true}}'
    server.put(config_map("nri-control-switches", namespace="kube-system", **{"config.json": text}))
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.url)
    settings = WebhookSettings.load({"kubeconfig": str(kubeconfig), "namespace": "kube-system"})
    caches = ReviewCaches()
    store = caches.cache(CONFIG_MAPS, text_of, only=("kube-system", CONFIG_MAP_NAME))
    caches.cache(NETWORK_ATTACHMENTS, lambda obj: obj)
    switches = ControlSwitches(store, namespace="kube-system", initial=Switches())
    sources = Sources(settings, caches)
    with pytest.raises(Transient):
        switches()
    try:
        async with running(sources.run()):
            await eventually(lambda: not sources.waiting())
            assert switches().hugepage_down_api
    finally:
        await server.stop()
