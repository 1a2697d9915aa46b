"""The model hub: one revision of one repository, pinned to a commit, only the files a model is opened from.

Everything lies in the hub's own cache format under `<cache>/hub`, so other tools can share it. A repository is judged
by its listing and its config.json before the first byte of its weights.
"""

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from httpx2 import HTTPError
from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import ModelInfo
from tqdm.auto import tqdm

from backend import errors
from backend.models import cache
from backend.models.checkpoint import INDEX, VOCABULARIES, WEIGHTS, check_code, check_weights_named, read_config
from backend.models.digest import Digests
from backend.models.progress import Progress

POLL_S = 0.1
TIMEOUT_S = 15.0
MAIN = "main"
INCOMPLETE = ".incomplete"
COMMIT = re.compile(r"[0-9a-f]{40}")
SHARD = re.compile(r"[^/]+-\d+-of-\d+\.safetensors")
BESIDE = {
    "config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "chat_template.jinja", "chat_template.json", "merges.txt", *VOCABULARIES,
}  # fmt: skip
Admit = Callable[[dict[str, int]], None]
"""Called with the numbers to be stored by dtype, or `{"U8": bytes}` when only sizes are known; raises to refuse."""


@dataclass(frozen=True)
class Snapshot:
    """One repository at one commit, on disk."""

    folder: Path
    commit: str
    licence: str


@dataclass(frozen=True)
class _Wanted:
    name: str
    size: int
    sha256: str | None


class Hub:
    """Fetches repositories into one cache folder. `endpoint` None: the hub the environment names."""

    def __init__(self, folder: Path, digests: Digests, token: str | None = None, endpoint: str | None = None) -> None:
        self.folder, self.digests, self.token, self.endpoint = folder, digests, token, endpoint

    def fetch(self, repository: str, revision: str | None, progress: Progress, admit: Admit) -> Snapshot:
        """The repository's files. Raises `UnknownModel`, `Forbidden`, `FetchFailed`, `DiskFull` or a `ModelRefused`."""
        if revision and COMMIT.fullmatch(revision) and (kept := self.cached(repository, revision)):
            return kept
        progress(f"asking the hub about {repository}", 0, None, "")
        try:
            with _hub_errors(repository, revision):
                info = HfApi(endpoint=self.endpoint, token=self.token).model_info(
                    repository, revision=revision, files_metadata=True, timeout=TIMEOUT_S
                )
        except errors.FetchFailed:
            if kept := self.cached(repository, revision):
                return kept
            raise
        return self._fetched(repository, revision or MAIN, info, progress, admit)

    def _fetched(self, repository: str, revision: str, info: ModelInfo, progress: Progress, admit: Admit) -> Snapshot:
        commit = str(info.sha)
        files = {file.rfilename: file for file in info.siblings or ()}
        check_weights_named({name for name in files if "/" not in name}, repository)
        wanted = [_Wanted(name, file.size or 0, file.lfs.sha256 if file.lfs else None)
                  for name, file in files.items() if _is_wanted(name, set(files))]  # fmt: skip
        weights = [file for file in wanted if file.name.endswith(".safetensors")]
        counted = dict(info.safetensors.parameters) if info.safetensors else {"U8": sum(f.size for f in weights)}
        if "config.json" in files:
            config = next(file for file in wanted if file.name == "config.json")
            check_code(read_config(self._file(repository, commit, config, progress).parent, repository), repository)
        admit(counted)
        missing = sum(file.size for file in wanted if not self._path(repository, commit, file.name).exists())
        cache.check_space(self.folder, missing, repository)
        with cache.disk_errors(self.folder, missing, repository):
            self._sweep(repository)
            for file in wanted:
                self._file(repository, commit, file, progress)
        self._remember(repository, revision, info)
        return Snapshot(self._path(repository, commit), commit, _licence(info))

    def _file(self, repository: str, commit: str, file: _Wanted, progress: Progress) -> Path:
        what, path = f"downloading {file.name} of {repository}", self._path(repository, commit, file.name)
        if not path.exists():
            with _hub_errors(repository, commit), cache.write_errors(self.folder):
                self._watched(what, repository, commit, file, progress)
        if file.sha256 and (found := self.digests.of(path, progress)) != file.sha256:
            path.resolve().unlink()
            path.unlink(missing_ok=True)
            raise errors.WrongChecksum(
                f"{file.name} of {repository} arrived damaged",
                f"the hub states sha256 {file.sha256}, the file has {found}",
                "it was thrown away: load the model again",
            )
        return path

    def _watched(self, what: str, repository: str, commit: str, file: _Wanted, progress: Progress) -> None:
        """Download on a second thread, so that a stalled transfer can still be cancelled at once."""
        stop = threading.Event()
        blobs = self._repository(repository) / "blobs"

        def work() -> str:
            return hf_hub_download(
                repository, file.name, revision=commit, cache_dir=self.folder, token=self.token, endpoint=self.endpoint,
                etag_timeout=TIMEOUT_S, tqdm_class=_stopping(stop),
            )  # fmt: skip

        download = _Thread(work)
        download.start()
        try:
            while download.is_alive():
                download.join(POLL_S)
                progress(what, min(_growing(blobs), file.size), file.size, "bytes")
        except BaseException:
            stop.set()
            raise
        download.result()

    def _sweep(self, repository: str) -> None:
        """Delete what killed downloads have left: the hub's library begins another file and never returns to it."""
        place = self._repository(repository)
        for part in place.glob(f"blobs/*{INCOMPLETE}"):
            lock = FileLock(self.folder / ".locks" / place.name / f"{part.name.partition('.')[0]}.lock", mode=0o664)
            with suppress(Timeout, OSError), lock.acquire(timeout=0):  # held, or not ours: somebody is writing it
                part.unlink(missing_ok=True)

    def cached(self, repository: str, revision: str | None) -> Snapshot | None:
        """The snapshot on disk for a revision, if its files are there; asks nobody."""
        place = self._repository(repository)
        commit = revision or MAIN
        if not COMMIT.fullmatch(commit):
            try:
                commit = (place / "refs" / commit).read_text().strip()
            except OSError:
                return None
        folder = place / "snapshots" / commit
        names = {path.name for path in folder.iterdir() if path.exists()} if folder.is_dir() else set()
        whole = "config.json" in names and (WEIGHTS in names or INDEX in names)
        return Snapshot(folder, commit, _noted_licence(place, commit)) if whole else None

    def listing(self) -> list[str]:
        """Repositories with a snapshot of `main` or of any commit."""
        if not self.folder.is_dir():
            return []
        names = (path.name.removeprefix("models--").replace("--", "/") for path in self.folder.glob("models--*--*"))
        return sorted(name for name in names if self.commits(name))

    def commits(self, repository: str) -> list[str]:
        """Commits on disk, newest first."""
        snapshots = (self._repository(repository) / "snapshots").glob("*")
        found = [path for path in snapshots if self.cached(repository, path.name)]
        return [path.name for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)]

    def remove(self, repository: str) -> int:
        """Delete every snapshot of a repository; returns the bytes given back."""
        place = self._repository(repository)
        if not place.is_dir():
            return 0
        freed = sum(path.stat().st_size for path in (place / "blobs").glob("*") if path.is_file())
        with cache.write_errors(self.folder):
            shutil.rmtree(place)
        return freed

    def _repository(self, repository: str) -> Path:
        return self.folder / f"models--{repository.replace('/', '--')}"

    def _path(self, repository: str, commit: str, name: str = "") -> Path:
        return self._repository(repository) / "snapshots" / commit / name

    def _remember(self, repository: str, revision: str, info: ModelInfo) -> None:
        """Note for the day the hub is out of reach: which commit the revision was, and the licence."""
        place, commit = self._repository(repository), str(info.sha)
        with suppress(OSError):  # a whole snapshot is used from a cache that cannot be written, too
            (place / f"licence-{commit}.txt").write_text(_licence(info), encoding="utf-8")
            if not COMMIT.fullmatch(revision):
                note = place / "refs" / revision
                note.parent.mkdir(parents=True, exist_ok=True)
                note.write_text(commit, encoding="utf-8")


def _noted_licence(place: Path, commit: str) -> str:
    with suppress(OSError):
        return (place / f"licence-{commit}.txt").read_text(encoding="utf-8")
    return "not stated"


def _licence(info: ModelInfo) -> str:
    data: Any = info.card_data
    stated = (data.get("license_name") or data.get("license")) if data else None
    return str(stated) if stated else "not stated"


def _is_wanted(name: str, names: set[str]) -> bool:
    if name in BESIDE:
        return True
    if WEIGHTS in names:
        return name == WEIGHTS
    return name == INDEX or SHARD.fullmatch(name) is not None


def _growing(blobs: Path) -> int:
    """Bytes of the largest unfinished file."""
    sizes = [0]
    for path in blobs.glob(f"*{INCOMPLETE}") if blobs.is_dir() else ():
        with suppress(FileNotFoundError):
            sizes.append(path.stat().st_size)
    return max(sizes)


class _Thread(threading.Thread):
    """A thread that hands back what its work returned or raised."""

    def __init__(self, work: Callable[[], str]) -> None:
        super().__init__(daemon=True, name="hub-download")
        self._work = work
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # handed to the thread that waits
            self._error = error

    def result(self) -> None:
        """Raises what the work raised."""
        if self._error is not None:
            raise self._error


class _Stopped(Exception):
    """Ends a download whose job is gone."""


def _stopping(stop: threading.Event) -> Any:
    """A progress bar that prints nothing and ends the download once `stop` is set."""

    class Bar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})

        def update(self, n: float | None = 1) -> None:
            if stop.is_set():
                raise _Stopped

    return Bar


@contextmanager
def _hub_errors(repository: str, revision: str | None) -> Iterator[None]:
    at = f"{repository}{f' at {revision}' if revision else ''}"
    try:
        yield
    except GatedRepoError as error:
        raise errors.Forbidden(
            f"The hub does not give out {at}", "its owner asks people to accept terms first, with an account",
            "accept them on its page, then start the server with your token in LMSCOPE_HUB_TOKEN",
        ) from error  # fmt: skip
    except RevisionNotFoundError as error:
        raise errors.UnknownModel(
            f"The hub has no revision {revision} of {repository}", "no branch, tag or commit has that name",
            "leave the revision away for the newest one, or check the name",
        ) from error  # fmt: skip
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise errors.UnknownModel(
            f"The hub has no model {repository}", "there is none of that name, or it is private",
            "check the spelling; for a private model set LMSCOPE_HUB_TOKEN; a local folder is written ./folder",
        ) from error  # fmt: skip
    except (EntryNotFoundError, HTTPError, OSError) as error:
        if isinstance(error, OSError) and error.errno in cache.NO_SPACE:
            raise
        answered = isinstance(error, HfHubHTTPError)
        why = (
            "the hub answered with an error" if answered else "the hub did not answer, or the download was interrupted"
        )
        raise errors.FetchFailed(
            f"{at} could not be downloaded", f"{why}: {_first_line(error)}",
            "try again (whole files are kept), use a package model such as glassllm-en, or a local folder",
        ) from error  # fmt: skip


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
