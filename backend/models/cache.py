"""The cache of models: `<cache>/models/<name>@<digest12>/`, each whole or absent.

A folder is written under another name beside it and renamed once, under a lock that dies with its process, so a kill
leaves only a temporary, which the next writer sweeps. `<cache>/digests/` remembers the digests of files already read.
"""

import errno
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock, Timeout

from backend import errors
from backend.models.digest import Digests
from backend.models.progress import Progress

CARD = "card.json"
TEMPORARY = ".tmp"
LOCK = ".lock"
DRAFTED = ("steers", "captures", "sets", "tables")
"""Folders of the cache in which `Draft` is at work."""
WAIT_S = 0.2
NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
UNWRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENOENT}


class ModelsCache:
    """The model folders below one cache folder."""

    def __init__(self, cache_dir: Path) -> None:
        self.root = Path(cache_dir)
        self.models = self.root / "models"
        self.hub = self.root / "hub"
        self.digests = Digests(self.root / "digests")

    def folder(self, folder_name: str) -> Path | None:
        """The folder of that name if it is whole."""
        folder = self.models / folder_name
        return folder if is_whole(folder) else None

    @contextmanager
    def writing(self, name: str, progress: Progress) -> Iterator[Path]:
        """An empty temporary folder to build the model `name` in; one process at a time, the others wait."""
        with write_errors(self.root):
            self.models.mkdir(parents=True, exist_ok=True)
        with self._locked(name, progress):
            self._sweep(name)
            with write_errors(self.root):
                draft = Path(tempfile.mkdtemp(prefix=f".{name}@", suffix=TEMPORARY, dir=self.models))
            try:
                yield draft
            finally:
                shutil.rmtree(draft, ignore_errors=True)

    def keep(self, built: Path, folder_name: str) -> Path:
        """Move a finished folder into place: one rename. Call it inside `writing`."""
        place = self.models / folder_name
        shutil.rmtree(place, ignore_errors=True)
        built.rename(place)
        return place

    def remove(self, name: str, progress: Progress) -> int:
        """Delete every folder of the model `name`; returns the bytes given back."""
        freed = 0
        if not self.models.is_dir():
            return freed
        with self._locked(name, progress):
            self._sweep(name)
            for folder in self.models.glob(f"{name}@*"):
                freed += sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
                with write_errors(self.root):
                    # renamed first: a removal cut short leaves a temporary, never half a model
                    doomed = folder.rename(self.models / f".{folder.name}{TEMPORARY}")
                    shutil.rmtree(doomed)
        return freed

    def _sweep(self, name: str) -> None:
        for stale in self.models.glob(f".{name}@*{TEMPORARY}"):
            shutil.rmtree(stale, ignore_errors=True)

    @contextmanager
    def _locked(self, name: str, progress: Progress) -> Iterator[None]:
        lock = FileLock(self.models / f".{name}.lock")
        while True:
            try:
                with write_errors(self.root):
                    lock.acquire(timeout=WAIT_S)
                break
            except Timeout:
                progress(f"waiting for another process that is fetching {name}", 0, None, "")
        try:
            yield
        finally:
            lock.release()


class Draft:
    """A temporary folder beside `place`, with a lock beside it that dies with the process: what no lock holds is left.

    The lock is held before the folder is there, so that no sweep of another server finds the one without the other.
    """

    def __init__(self, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        self.folder = place.with_name(f".{place.name}-{uuid4().hex}{TEMPORARY}")
        # not bound to a thread: a study may begin on one and end on another
        self._lock = FileLock(f"{self.folder}{LOCK}", thread_local=False)
        self._lock.acquire(timeout=0)
        try:
            self.folder.mkdir()
        except OSError:
            self.drop()
            raise

    def drop(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.folder, ignore_errors=True)
        _forget(self._lock)


def _forget(lock: FileLock) -> None:
    """Take a lock's file away while it is held, then let go."""
    with suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()


def sweep(folder: Path) -> None:
    """Delete the drafts that a kill has left in a folder, never one whose process lives."""
    for draft in folder.glob(f".*{TEMPORARY}"):
        lock = FileLock(f"{draft}{LOCK}")
        try:
            lock.acquire(timeout=0)
        except (Timeout, OSError):  # it is being written, or it is not ours to delete
            continue
        shutil.rmtree(draft, ignore_errors=True)
        _forget(lock)


def sweep_all(cache_dir: Path) -> None:
    """The same in every folder of a cache that drafts are written in."""
    for name in DRAFTED:
        sweep(Path(cache_dir) / name)


@contextmanager
def putting(place: Path) -> Iterator[Path]:
    """A draft folder that one rename makes `place` when all went well; a whole twin that came first stays."""
    draft = Draft(place)
    try:
        yield draft.folder
        _move(draft.folder, place)
    finally:
        draft.drop()


def _move(draft: Path, place: Path) -> None:
    """One rename; a folder that another process put there meanwhile holds the same and stays."""
    try:
        draft.rename(place)
    except OSError:
        if not is_whole(place):
            shutil.rmtree(place, ignore_errors=True)
            draft.rename(place)


@contextmanager
def write_errors(place: Path) -> Iterator[None]:
    """Turn "not yours to write" into `CacheUnwritable`."""
    try:
        yield
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        raise errors.CacheUnwritable(
            "The models cache cannot be written",
            f"{place} cannot be changed: {error.strerror or error}",
            "set LMSCOPE_CACHE_DIR to a folder that you may write, or give yourself the right to this one",
        ) from error


def is_whole(folder: Path) -> bool:
    """Whether the folder has its card and every file that the card names, at its size."""
    card = read_card(folder)
    files = card.get("files")
    if not isinstance(files, dict) or not files:
        return False
    return all(_size(folder / name) == entry.get("bytes") for name, entry in files.items())


def whole_folders(place: Path, pattern: str, file: str = CARD) -> Iterator[Path]:
    """The whole folders of a place that have `file`, by name; no drafts, which are whole before they are moved."""
    found = (path for path in place.glob(pattern) if not path.name.startswith("."))
    yield from sorted(path for path in found if (path / file).is_file() and is_whole(path))


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:  # not there, or deleted a moment ago
        return None


def read_card(folder: Path) -> dict[str, Any]:
    """card.json of a folder; empty when there is none or it cannot be read."""
    try:
        card = json.loads((folder / CARD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return card if isinstance(card, dict) else {}


def write_card(folder: Path, card: dict[str, Any]) -> None:
    """Write card.json, the last file of a folder."""
    (folder / CARD).write_text(json.dumps(card, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def free_bytes(place: Path) -> int:
    """Bytes free on the disk where `place` lies or will lie."""
    there = next(folder for folder in (place, *place.absolute().parents) if folder.exists())
    return shutil.disk_usage(there).free


def check_space(place: Path, needed: int, what: str) -> None:
    """Raises `DiskFull` when fewer than `needed` bytes are free where `place` lies."""
    free = free_bytes(place)
    if free < needed:
        raise disk_full(what, needed, free)


@contextmanager
def disk_errors(place: Path, needed: int, what: str) -> Iterator[None]:
    """Turn "no space left on device" into `DiskFull` with both numbers."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise disk_full(what, needed, free_bytes(place)) from error


def disk_full(what: str, needed: float, free: float) -> errors.DiskFull:
    """The one sentence for a full disk."""
    return errors.DiskFull(
        f"{what} does not fit on the disk",
        f"it needs {needed / 1e6:.0f} MB while it is fetched, {free / 1e6:.0f} MB are free in the models cache",
        "free some space, remove a model with `lmscope models remove NAME`, or set LMSCOPE_CACHE_DIR to another disk",
        needed=needed,
        available=free,
    )
