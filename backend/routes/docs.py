"""GET /api/v1/docs: the API's document as one page of plain HTML, with nothing to fetch from anywhere."""

from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from backend.routes.house import BASE

router = APIRouter(prefix=BASE)

STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; }
code { font-family: ui-monospace, monospace; font-size: 0.9em; }
section { border-top: 1px solid color-mix(in srgb, currentColor 25%, transparent); padding: 0.5rem 0; }
table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); text-align: left; }
td, th { padding: 0.25rem 0.75rem 0.25rem 0; vertical-align: top; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 600; }
"""
STYLE_HASH = b64encode(sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""The page holds one style and no script, and needs nothing else."""


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """The API for people."""
    return HTMLResponse(page(request.app.openapi()), headers={"Content-Security-Policy": POLICY})


def page(document: dict[str, Any]) -> str:
    """The whole page."""
    info, forms = document["info"], document["components"]["schemas"]
    operations = [
        _operation(path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(info['title'])} API</title><style>{STYLE}</style><body>"
        f"<h1>{escape(info['title'])} API</h1><p>{escape(info['description'])}</p>"
        "<p>For programs: <a href=openapi.json>openapi.json</a></p><h2>Addresses</h2>"
        + "".join(operations)
        + "<h2>Forms</h2>"
        + "".join(_form(name, form) for name, form in sorted(forms.items()))
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    rows = [
        _row(given["name"], given["schema"], given.get("description", ""), given.get("required", False), given["in"])
        for given in operation.get("parameters", [])
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    answers = [
        f"<code>{status}</code> {_type(content.get('schema', {})) or escape(kind)}"
        for status, response in operation["responses"].items()
        for kind, content in response.get("content", {"": {}}).items()
    ]
    return (
        f"<section><h3><code><span class=method>{method.upper()}</span> {escape(path)}</code></h3>"
        f"<p>{escape(operation.get('description', ''))}</p>{_table(rows)}"
        + (f"<p>Send {_type(body)}</p>" if body else "")
        + f"<p>Answers {', '.join(answers)}</p></section>"
    )


def _form(name: str, form: dict[str, Any]) -> str:
    required = form.get("required", [])
    rows = [
        _row(field, schema, schema.get("description", ""), field in required)
        for field, schema in form.get("properties", {}).items()
    ]
    about = escape(form.get("description", "")).replace("\n", "<br>")
    return f"<section id='{escape(name)}'><h3><code>{escape(name)}</code></h3><p>{about}</p>{_table(rows)}</section>"


def _table(rows: list[str]) -> str:
    return f"<table><tr><th>field<th>holds<th>about{''.join(rows)}</table>" if rows else ""


def _row(name: str, schema: dict[str, Any], about: str, required: bool, where: str = "") -> str:
    need = "required" if required else f"default {schema['default']!r}" if "default" in schema else "optional"
    note = ", ".join(filter(None, (where, need)))
    return f"<tr><td><code>{escape(name)}</code><td>{_type(schema)}<td>{escape(about)} <small>{escape(note)}</small>"


def _type(schema: dict[str, Any]) -> str:
    """What a schema admits, in a few words, with links to the forms."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rsplit("/", 1)[-1])
        return f"<a href='#{name}'><code>{name}</code></a>"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(_type(one) for one in schema[several])
    if "const" in schema or "enum" in schema:
        return " or ".join(f"<code>{escape(repr(value))}</code>" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        items = schema.get("items") or {}
        return f"list of {_type(items)}" if items else "list of " + ", ".join(map(_type, schema.get("prefixItems", [])))
    bounds = [
        f"{sign} {schema[bound]}"
        for bound, sign in (("minimum", "≥"), ("exclusiveMinimum", "&gt;"), ("maximum", "≤"))
        if bound in schema
    ]
    return escape(str(schema.get("type", ""))) + (f" {', '.join(bounds)}" if bounds else "")
