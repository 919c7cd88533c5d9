"""The window into a node: JSON API, live updates, dashboard, Prometheus metrics.

`server` opens it and `guard` decides who may look through; `routes` lists what can be asked, `handlers`
answer it with the values of `answers`, `openapi` writes that down for programs. `watch` looks at the node
once a second for everybody, `history` remembers, `views` sorts, `trial` tries policies, `metrics` speaks to
Prometheus, `page` holds the dashboard's files.
"""

from penstock.node.http.history import History
from penstock.node.http.server import Window, start_http

__all__ = ["History", "Window", "start_http"]
