"""Folders that transformers already opens: copied, without the clipping and padding some tokenizers carry inside."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.models.progress import Progress

SILENT = ("max_length", "stride", "truncation_strategy", "pad_to_multiple_of")
"""Settings of a saved tokenizer call; kept, they would shorten or pad a text without a word."""


def convert(files: Mapping[str, Path], target: Path, progress: Progress) -> None:
    """Copy every file; in tokenizer.json and tokenizer_config.json drop what clips or pads."""
    for done, (name, path) in enumerate(files.items()):
        progress("copying", done, len(files), "files")
        if name == "tokenizer.json":
            _write(target / name, _read(path) | {"truncation": None, "padding": None})
        elif name == "tokenizer_config.json":
            _write(target / name, {key: value for key, value in _read(path).items() if key not in SILENT})
        else:
            shutil.copyfile(path, target / name)


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
