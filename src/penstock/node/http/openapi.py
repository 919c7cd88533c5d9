"""Makes the OpenAPI 3.1 document of the API from the tables of routes and the types they name."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.node.http.access import ACCESS_ROUTES
from penstock.node.http.answers import Problem
from penstock.node.http.channels.routes import CHANNEL_ROUTES
from penstock.node.http.lists import LIST_ROUTES
from penstock.node.http.notify import ROUTES as NOTIFY_ROUTES
from penstock.node.http.routes import ROUTES
from penstock.node.http.traffic import TRAFFIC_ROUTES

if TYPE_CHECKING:
    from penstock.node.http.routes import Parameter, Route

_ALL: Final = (*ROUTES, *TRAFFIC_ROUTES, *ACCESS_ROUTES, *CHANNEL_ROUTES, *LIST_ROUTES, *NOTIFY_ROUTES)


@cache  # made when somebody asks: most nodes are never asked, and it takes as long as the rest of a start
def encoded() -> bytes:
    """Return the document as JSON, as it is served at /api/v1/openapi.json."""
    return msgspec.json.encode(document())


def document() -> dict[str, Any]:
    """Make the document of all routes."""
    kinds = [kind for route in _ALL for kind in (*route.answer, route.body) if kind is not None]
    unique: list[type[msgspec.Struct]] = list(dict.fromkeys([*kinds, Problem]))
    references, components = msgspec.json.schema_components(
        unique, ref_template="#/components/schemas/{name}"
    )
    schemas = dict(zip(unique, references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in _ALL:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock node",
            "version": version("penstock"),
            "description": "The status of a running node, and the commands it takes.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "http.token of the configuration, if there is one",
                }
            },
        },
    }


def _operation(route: Route, schemas: dict[type[msgspec.Struct], dict[str, Any]]) -> dict[str, Any]:
    answered = [schemas[kind] for kind in route.answer]
    schema = answered[0] if len(answered) == 1 else {"anyOf": answered} if answered else {"type": "string"}
    if route.media == "text/event-stream":
        schema = {
            "type": "string",
            "description": "each `data:` line is a JSON value of this schema",
            "contentMediaType": "application/json",
            "contentSchema": schema,
        }
    operation: dict[str, Any] = {
        "operationId": route.handler.rstrip("_"),
        "summary": route.about,
        "responses": {
            "200": {"description": route.about, "content": {route.media: {"schema": schema}}},
            "default": {
                "description": "why the request was refused",
                "content": {"application/problem+json": {"schema": schemas[Problem]}},
            },
        },
    }
    if route.parameters:
        operation["parameters"] = [_parameter(one) for one in route.parameters]
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schemas[route.body]}},
        }
    return operation


def _parameter(one: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": one.kind}
    if one.choices:
        schema["enum"] = list(one.choices)
    if one.kind == "integer":
        schema["minimum"] = 0
    if one.most is not None:
        schema["maximum"] = one.most
    return {
        "name": one.name,
        "in": "path" if one.in_path else "query",
        "required": one.in_path or one.required,
        "description": one.about,
        "schema": schema,
    }
