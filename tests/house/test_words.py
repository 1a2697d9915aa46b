"""The repository speaks of the product only, and ships nothing that loads from elsewhere."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {".py", ".md", ".js", ".css", ".toml", ".yml", ".yaml", ".json", ".txt", ""}
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:root|home/\w+|Users/\w+)/")
PACKAGE_INDEX = re.compile(r"index-url|find-links\s*=|files\.pythonhosted|pypi\.org/simple")
ELSEWHERE = re.compile(
    r"""(?:src|href)\s*=\s*["']https?://|@import\s+url|cdn\.|unpkg\.com|jsdelivr|fonts\.googleapis"""
)


def tracked() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listing.split("\0") if name and Path(name).suffix in TEXTS]


def offenders(pattern: re.Pattern[str], files: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for path in files
        if path != Path(__file__).resolve() and path.is_file()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_names_a_path_of_some_machine() -> None:
    assert offenders(MACHINE_PATH, tracked()) == []


def test_no_file_names_a_package_index() -> None:
    assert offenders(PACKAGE_INDEX, [path for path in tracked() if "tests" not in path.parts]) == []


def test_no_page_asset_loads_from_elsewhere() -> None:
    assert offenders(ELSEWHERE, [path for path in tracked() if "assets" in path.parts]) == []


def test_nothing_large_is_in_git() -> None:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listing.split("\0") if name]
    assert [path.name for path in paths if path.is_file() and path.stat().st_size > 1_500_000] == []
