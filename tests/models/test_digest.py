"""One digest says what the weights are, and is read again only when a file has changed."""

import os
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from backend import errors
from backend.models import digest
from backend.models.digest import Digests, file_digest, weights_digest


def test_one_file_has_its_own_digest_and_several_that_of_their_sha256sum_listing(tmp_path: Path) -> None:
    for name in "ba":
        (tmp_path / name).write_bytes(name.encode() * 1000)
    files = {name: file_digest(tmp_path / name) for name in "ba"}
    assert weights_digest({"a": files["a"]}) == sha256(b"a" * 1000).hexdigest()
    listing = subprocess.run(["sha256sum", "a", "b"], cwd=tmp_path, capture_output=True, check=True).stdout
    assert weights_digest(files) == sha256(listing).hexdigest()


def test_a_file_is_read_again_only_when_its_size_or_time_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, digests, read = tmp_path / "weights", Digests(tmp_path / "digests"), []
    monkeypatch.setattr(digest, "file_digest", lambda path, *given: read.append(path) or file_digest(path))
    path.write_bytes(b"one")
    first = digests.of(path)
    assert digests.of(path) == Digests(tmp_path / "digests").of(path) == first
    assert len(read) == 1
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    assert digests.of(path) == sha256(b"two").hexdigest()
    assert len(read) == 2


@pytest.mark.parametrize("note", ["", "[]", "{}", '{"sha256": 5}'])
def test_a_damaged_note_is_ignored(tmp_path: Path, note: str) -> None:
    path, digests = tmp_path / "weights", Digests(tmp_path / "digests")
    path.write_bytes(b"one")
    digests.of(path)
    next((tmp_path / "digests").iterdir()).write_text(note)
    assert digests.of(path) == sha256(b"one").hexdigest()


def test_reading_a_large_file_can_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"x")

    def stop(*report: object) -> None:
        raise errors.Cancelled("stopped", "by the test", "")

    with pytest.raises(errors.Cancelled):
        file_digest(tmp_path / "weights", stop)


def test_a_memo_that_cannot_be_kept_changes_no_digest(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(b"abc")
    (tmp_path / "file").write_text("in the way")
    assert Digests(tmp_path / "file" / "digests").of(weights) == file_digest(weights)
