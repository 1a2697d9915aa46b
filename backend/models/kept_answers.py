"""Answers about weights that took long, known by their content: the model's conditions and the question.

`<cache>/tables/<kind>@<digest12>/answer.json` beside its card, whole or absent.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from backend.models.cache import is_whole, putting, read_card, write_card, write_errors
from backend.schema import Conditions
from backend.schema.frozen import Frozen
from backend.schema.view import canonical_json

FILE = "answer.json"


class KeptAnswers:
    """The answers below one cache folder."""

    def __init__(self, cache_dir: Path) -> None:
        self.root = Path(cache_dir)

    def find(self, kind: str, content: str) -> Any:
        """What was kept under a content, or None."""
        place = self._place(kind, content)
        if not is_whole(place) or read_card(place).get("content") != content:
            return None
        return json.loads((place / FILE).read_text(encoding="utf-8"))

    def keep(self, kind: str, content: str, answer: Any) -> None:
        """Store an answer, as JSON."""
        with write_errors(self.root), putting(self._place(kind, content)) as draft:
            (draft / FILE).write_text(json.dumps(answer, ensure_ascii=False), encoding="utf-8")
            size = (draft / FILE).stat().st_size
            write_card(draft, {"kind": kind, "content": content, "files": {FILE: {"bytes": size}}})

    def _place(self, kind: str, content: str) -> Path:
        return self.root / "tables" / f"{kind}@{content[:12]}"


def content_of(conditions: Conditions, ask: Frozen, *more: object) -> str:
    """Digest of what decides an answer: the weights, how they run, and the question; not the model's name."""
    under = conditions.model_dump(mode="json", exclude={"model", "revision"})
    asked = ask.model_dump(mode="json", exclude={"model", "revision"})
    return sha256(canonical_json([under, type(ask).__name__, asked, *more]).encode()).hexdigest()
