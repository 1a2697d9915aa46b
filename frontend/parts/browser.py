"""The page that the browser receives before anything is drawn, and what the scripts in assets/ must know."""

import json
from html import escape
from typing import Any

from backend.schema import View
from backend.schema.edit import Edit
from backend.schema.limits import EDITS_MOST
from backend.schema.view import LINK_BYTES, LINK_BYTES_PACKED, LINK_VERSION
from frontend.parts import assets, build
from frontend.parts.upload import file_bytes

INSTRUMENTS = ("attention", "heads", "trace", "weights", "steer")
"""Instruments that have a page, in the order of the rail."""

THEME = """
(function () {
  var kept = null;
  try { kept = localStorage.getItem("lmscope-theme"); } catch (error) { kept = null; }
  var dark = kept === "dark" || (kept !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.setAttribute("data-theme", dark ? "dark" : "light");
})();
"""
"""The theme is set before the first paint: the one script of ours that stands inside the page."""

INDEX = """<!DOCTYPE html>
<html lang="en" data-theme="light">
<head>
{%metas%}
<meta name="color-scheme" content="light dark">
<title>{%title%}</title>
<link rel="icon" type="image/svg+xml" href="LMSCOPE_PATHassets/favicon.svg">
<script>LMSCOPE_THEME</script>
<script type="application/json" id="lmscope-config">LMSCOPE_CONFIG</script>
{%css%}
<link rel="stylesheet" href="LMSCOPE_PATHLMSCOPE_STYLES">
</head>
<body>
<noscript>LMScope draws in the browser and needs JavaScript.</noscript>
{%app_entry%}
<footer>
{%config%}
{%scripts%}
<script src="LMSCOPE_PATHLMSCOPE_SCRIPTS"></script>
{%renderer%}
</footer>
</body>
</html>"""


def index_string(path: str, example: str, backend: str | None = None) -> str:
    """The page with its configuration."""
    config = json.dumps(browser_config(path, example, backend), ensure_ascii=True).replace("<", "\\u003c")
    page = INDEX.replace("LMSCOPE_THEME", THEME).replace("LMSCOPE_PATH", escape(path, quote=True))
    page = page.replace("LMSCOPE_STYLES", assets.address("css")).replace("LMSCOPE_SCRIPTS", assets.address("js"))
    return page.replace("LMSCOPE_CONFIG", config)


def browser_config(path: str, example: str, backend: str | None = None) -> dict[str, Any]:
    """Constants of the schema that assets/view.js needs to make and open links; `backend` when it is elsewhere."""
    return {
        "path": path,
        "build": build.build(),
        "backend": backend,
        "instruments": INSTRUMENTS,
        "version": LINK_VERSION,
        "bytes": LINK_BYTES,
        "packed": LINK_BYTES_PACKED,
        "edits": EDITS_MOST,
        "upload": file_bytes(),
        "view": view_defaults(),
        "edit": edit_defaults(),
        "example": example,
    }


def view_defaults() -> dict[str, Any]:
    """Every field of a View at its default; what a link leaves out."""
    view = View(model="model", text="").model_dump(mode="json")
    return {name: value for name, value in view.items() if name not in ("model", "text")} | {"text": None}


def edit_defaults() -> dict[str, Any]:
    """Defaults that all kinds of edit share."""
    kinds = Edit.__origin__.__args__  # type: ignore[attr-defined]
    fields = [kind.model_fields for kind in kinds]
    shared = set.intersection(*(set(each) for each in fields)) - {"kind"}
    return {name: fields[0][name].default for name in sorted(shared) if not fields[0][name].is_required()}
