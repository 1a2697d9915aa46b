"""Digests: what the weights are, whatever they are called. SHA-256 throughout, in hex."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from backend.models.progress import Progress, silent

BLOCK = 4 * 1024 * 1024


def file_digest(path: Path, progress: Progress = silent, what: str = "") -> str:
    """SHA-256 of one file, read in blocks so that it can be stopped."""
    total, done, found = path.stat().st_size, 0, sha256()
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            found.update(block)
            done += len(block)
            progress(what or f"checking {path.name}", done, total, "bytes")
    return found.hexdigest()


def weights_digest(files: Mapping[str, str]) -> str:
    """One digest for the weights: of a single file its own; of several, that of their `sha256sum` listing by name."""
    if len(files) == 1:
        return next(iter(files.values()))
    listing = "".join(f"{digest}  {name}\n" for name, digest in sorted(files.items()))
    return sha256(listing.encode()).hexdigest()


class Digests:
    """Digests of files already read, remembered on disk until a file's size or time changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, path: Path, progress: Progress = silent, what: str = "") -> str:
        """SHA-256 of `path`; reads the file only when it is new or has changed."""
        path = path.resolve()
        seen = path.stat()
        stamp = {"path": str(path), "size": seen.st_size, "mtime_ns": seen.st_mtime_ns}
        note = self.folder / f"{sha256(str(path).encode()).hexdigest()[:32]}.json"
        known = _read(note)
        if {key: known.get(key) for key in stamp} == stamp and isinstance(known.get("sha256"), str):
            return str(known["sha256"])
        digest = file_digest(path, progress, what)
        self._remember(note, {**stamp, "sha256": digest})
        return digest

    def _remember(self, note: Path, known: dict[str, object]) -> None:
        with suppress(OSError):  # a cache that cannot be written is read anew each time, and works
            self.folder.mkdir(parents=True, exist_ok=True)
            draft = note.with_suffix(f".{os.getpid()}.tmp")
            draft.write_text(json.dumps(known), encoding="utf-8")
            draft.replace(note)


def _read(note: Path) -> dict[str, object]:
    try:
        known = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
