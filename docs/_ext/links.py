"""Links to the reference: ``wp.sin`` in the text of any page leads to the entry of ``warp_like.sin``.

An author writes plain inline code, `` `wp.sin` `` or `` `wp.launch()` ``; it becomes a link where the reference has
such an entry. A role, ``{py:func}`wp.sin` ``, does the same and fails the build where there is none.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

_NAME = re.compile(r"wp\.([A-Za-z_][\w.]*?)(?:\(\))?")


def full_name(text: str) -> str | None:
    """Return the entry of the reference that a text names: ``warp_like.sin`` for ``wp.sin``."""
    found = _NAME.fullmatch(text)
    return f"warp_like.{found[1]}" if found else None


def resolve(app: Sphinx, env: Any, node: Any, content: nodes.Node) -> nodes.Node | None:
    """Resolve a role whose target starts with ``wp.``."""
    if node.get("refdomain") != "py":
        return None
    return _reference(app.builder, env, node["refdoc"], str(node["reftarget"]), content)


class LinkNames(SphinxPostTransform):
    """Link the names in inline code, except in headings, in signatures and inside of other links."""

    default_priority = 300

    def run(self, **_: Any) -> None:
        for code in list(self.document.findall(nodes.literal)):
            if isinstance(code.parent, (nodes.reference, nodes.title)):
                continue
            link = _reference(
                self.app.builder, self.env, self.env.current_document.docname, code.astext(), code.deepcopy()
            )
            if link is not None:
                code.replace_self(link)


def _reference(builder: Any, env: Any, page: str, text: str, content: nodes.Node) -> nodes.Node | None:
    from sphinx.util.nodes import make_refnode

    name = full_name(text)
    found = env.domains.python_domain.objects.get(name) if name else None
    return None if found is None else make_refnode(builder, page, found.docname, found.node_id, [content], name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("missing-reference", resolve)
    app.add_post_transform(LinkNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
