"""Writes models as HTML. Every text is escaped, wherever it stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from app.ui.frames import Frame
from app.ui.view import Asked, View


class Pages:
    """The pages of these views. Templates are found by their paths below `app`."""

    def __init__(self, views: Sequence[View]) -> None:
        self._views = views
        self._templates = Environment(
            loader=FileSystemLoader(str(files("app"))),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )

    def page(self, asked: Asked, view: View, frame: Frame, *, visitor: str, stream: str) -> str:
        """A whole page. `visitor` is the name of one who may log out, `stream` the path of what changes."""
        fragments = [(name, Markup(self._fragment(asked, view, frame, name))) for name in frame.digests]  # noqa: S704
        return self._write(
            "page",
            title=view.title,
            view=view,
            asked=asked,
            visitor=visitor,
            stream=stream,
            problem=frame.problem,
            fragments=fragments,
            views=self._views,
        )

    def changes(self, asked: Asked, view: View, former: Frame | None, frame: Frame) -> Iterator[tuple[str, str]]:
        """The fragments that differ from those of another frame, by the names of their events.

        With other fragments than before, the event `layout` has the browser read the page anew.
        """
        if former is frame:
            return
        if former is None or former.problem != frame.problem:
            yield "problem", str(Markup.escape(frame.problem))
        if former is not None and former.model and frame.model and [*former.digests] != [*frame.digests]:
            yield "layout", ""
            return
        for name, digest in frame.digests.items():
            if former is None or former.digests.get(name) != digest:
                yield f"f-{name}", self._fragment(asked, view, frame, name)

    def refused(self, text: str) -> str:
        """The page in place of one that is not shown."""
        return self._write("page", title="Not shown", problem=text)

    def login(self, text: str) -> str:
        """The form for a token."""
        return self._write("login", title="Log in", problem=text)

    def _fragment(self, asked: Asked, view: View, frame: Frame, name: str) -> str:
        html = frame.html.get(name)
        if html is None and frame.model is not None:
            template = self._templates.get_template(view.template)
            value = frame.model.fragments()[name]
            html = frame.html[name] = template.render(fragment=name, value=value, model=frame.model, asked=asked)
        return html or ""

    def _write(self, name: str, **values: object) -> str:
        usual: dict[str, object] = dict.fromkeys(("view", "asked", "visitor", "stream"), "")
        usual |= {"fragments": (), "views": ()}
        return self._templates.get_template(f"ui/templates/{name}.html").render(usual | values)
