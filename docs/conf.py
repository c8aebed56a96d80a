"""Sphinx configuration. Build with ``make docs``; every warning is an error."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

project = "warp_like"
author = "the warp_like developers"
copyright = f"2026, {author}"

extensions = [
    "myst_nb",  # Markdown and notebooks
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "tables",
    "links",
    "mathml",
]
exclude_patterns = ["_ext"]
html_theme = "furo"
html_math_renderer = "mathml"
html_title = "warp_like"
html_static_path = ["_static"]
html_css_files = ["warp_like.css", "gallery.css"]
pygments_style = "friendly"
pygments_dark_style = "github-dark"

# Output, tables of a terminal and mathematics have nothing to copy.
copybutton_selector = "div:not(.highlight-output):not(.highlight-text):not(.output) > div.highlight > pre"
copybutton_prompt_text = ">>> "
copybutton_only_copy_prompt_lines = True

myst_enable_extensions = ["deflist", "dollarmath", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks keep their outputs; tests/docs/test_notebooks.py runs them

add_module_names = False
default_role = "code"  # docstrings may write `name` as well as ``name``
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
