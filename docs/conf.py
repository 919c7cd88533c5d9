"""How Sphinx builds these pages: Markdown, furo, and every warning an error."""

from importlib.metadata import version as installed_version

project = "Penstock"
author = "The Penstock authors"
project_copyright = "The Penstock authors, Apache-2.0"
version = release = installed_version("penstock")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]

# Markdown pipe tables need no extension.
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist", "smartquotes"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"Penstock {release}"

nitpicky = True
# The build needs no network, so names of other projects have no inventory to be looked up in.
# Our own names must resolve.
nitpick_ignore_regex = [(r"py:.*", r"(?!penstock\.).*")]

autodoc_typehints = "description"
autodoc_member_order = "bysource"
