"""References: what a model's name in a View means, and whether this server may open it.

A name is one of the catalogue (`glassllm-en`), a hub id (`org/name`, optionally `org/name@revision`) or a folder
(`/…`, `./…`, `../…`, `~…`, or any spelling that LMSCOPE_MODELS uses for a folder that exists).

What may be opened is the setting `allow`, by kind: `package` and `hub` by default. Folders are opened only when they
are named in LMSCOPE_MODELS, unless `allow` holds `folder` too: else any visitor could ask the server about its disk.
Models named in LMSCOPE_MODELS are always allowed.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, get_args

from backend import errors
from backend.models.catalogue import CATALOGUE

Kind = Literal["package", "hub", "folder"]
ALLOWED: tuple[Kind, ...] = ("package", "hub")
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
REVISION = re.compile(r"\w[\w.+-]{0,99}(/\w[\w.+-]{0,99}){0,3}", re.ASCII)
FOLDER_STARTS = ("/", "./", "../", "~")
HOW = "name one of " + ", ".join(CATALOGUE) + "; a hub id such as org/name; or a folder this server was started with"


@dataclass(frozen=True)
class Reference:
    """A model by its one canonical name: catalogue name, hub id, or the folder as configured (else its full path)."""

    kind: Kind
    name: str
    revision: str | None = None
    folder: Path | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Equal for two spellings of one model (before its revision is known)."""
        return self.kind, str(self.folder) if self.folder else self.name


class Names:
    """The names one server understands."""

    def __init__(self, models: Iterable[str] = (), allow: Iterable[str] = ALLOWED) -> None:
        self.allow = frozenset(allow)
        if unknown := self.allow - set(get_args(Kind)):
            raise ValueError(f"allow holds {', '.join(sorted(unknown))}; it may hold package, hub and folder")
        self.configured = tuple(self._configured(name) for name in models)

    def parse(self, name: str, revision: str | None = None) -> Reference:
        """The model that `name` means. Raises `UnknownModel` and `Forbidden`."""
        found = self._found(name, revision)
        if found.revision and not REVISION.fullmatch(found.revision):
            raise errors.UnknownModel(
                f"{found.name} has no such revision",
                "a revision is a branch, a tag, a commit or the version of a package",
                "leave the revision away for the newest one",
            )
        return found

    def _found(self, name: str, revision: str | None) -> Reference:
        for given in self.configured:
            if name == given.name or _folder_of(name) == given.folder is not None:
                return Reference(given.kind, given.name, revision or given.revision, given.folder)
        found = _parse(name, revision)
        if found.kind not in self.allow and found.key not in {given.key for given in self.configured}:
            raise _not_allowed(found)
        return found

    @staticmethod
    def _configured(name: str) -> Reference:
        folder = Path(name).expanduser()
        if name not in CATALOGUE and folder.is_dir():
            return Reference("folder", name, folder=folder.resolve())
        return _parse(name, None)


def _folder_of(name: str) -> Path | None:
    """The full path that a folder-like name means; None for other names."""
    if not name.startswith(FOLDER_STARTS) or "\0" in name:
        return None
    try:
        return Path(name).expanduser().resolve()
    except (RuntimeError, OSError):  # a home that nobody has, a loop of links, a name too long
        return None


def _parse(name: str, revision: str | None) -> Reference:
    if name in CATALOGUE:
        return Reference("package", name, revision)
    if folder := _folder_of(name):
        return Reference("folder", str(folder), revision, folder)
    hub_id, _, at = name.partition("@")
    if HUB_ID.fullmatch(hub_id) and ".." not in hub_id and "--" not in hub_id:
        return Reference("hub", hub_id, revision or at or None)
    raise unknown(name)


def unknown(name: str) -> errors.UnknownModel:
    """There is no such model; the nearest names are offered."""
    shown = re.sub(r"[^\x20-\x7e\xa0-\u02ff]", "?", name)[:80]
    near = get_close_matches(name[:80], CATALOGUE, n=2, cutoff=0.5)
    why = "it is no package model, no hub id (org/name) and no folder"
    return errors.UnknownModel(
        f"There is no model called “{shown}”", why, f"did you mean {' or '.join(near)}? {HOW}" if near else HOW
    )


def _not_allowed(found: Reference) -> errors.Forbidden:
    kinds = {"package": "package models", "hub": "models from the hub", "folder": "folders of its own disk"}
    return errors.Forbidden(
        f"This server does not open {kinds[found.kind]}",
        f"its setting LMSCOPE_ALLOW leaves out `{found.kind}`, and LMSCOPE_MODELS does not name this one",
        f"start the server with this model in LMSCOPE_MODELS, or add `{found.kind}` to LMSCOPE_ALLOW",
    )
