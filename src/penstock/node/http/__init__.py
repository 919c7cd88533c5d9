"""The HTTP side of a node: JSON API, live updates, dashboard, Prometheus metrics.

server.py    aiohttp on one port; connections without a complete request are bounded
guard.py     tokens, hosts and origins; security headers
routes.py    the table of requests; openapi.py, the same table as an OpenAPI document
handlers.py  answers to requests, with the values of answers.py and the helpers of replies.py
channels/    routes, values and handlers of channels
lists.py     lists of watched pages, imported and exported
traffic.py   what is being published: topics, attributes, messages
access.py    users and access rules; verdicts.py says which rule decides
notify.py    routes and handlers of notifications: API, feeds, the hub, callbacks for hubs
trial.py     tries a policy on the messages that are being published, and finds their attributes
page/        the files of the dashboard
"""

from penstock.node.http.server import HttpServer, start_http

__all__ = ["HttpServer", "start_http"]
