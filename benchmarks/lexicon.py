"""AFINN: a scorer of continuations that shares no data with the sentiment steer.

AFINN-111 (F. Å. Nielsen 2011, arXiv 1103.2903; Open Database License 1.0) holds 2,477 English words and phrases, each
rated from −5 to 5 by Nielsen himself, without any text around it, years before the steer's snippets were rated.
VADER's lexicon would be circular: it comes from the same study as those snippets (Hutto & Gilbert 2014), rated by the
same kind of people on the same scale, and is published there because it agrees with them.

The list is read out of the source archive of the package `afinn` 0.1, which is fetched for a run, verified and thrown
away: nothing of it is installed, imported or kept with LMScope.
"""

import io
import re
import tarfile
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Self

PACKAGE, VERSION = "afinn", "0.1"
ARCHIVE_SHA256 = "cf2f728ccc6f2974f2f27e2110e4c05a0133a2f14a40387c463a8c9fdd4ab61b"
LIST = "afinn-0.1/afinn/data/AFINN-111.txt"
LIST_SHA256 = "4703e14ed5ce7cb73591037cf21a202c0bdf8bdac06392808a1d5606ecf77a06"
ENTRIES = 2_477
"""As Nielsen says of AFINN-111."""
MOST = 5


@dataclass(frozen=True)
class Archive:
    """What is fetched."""

    name: str = "the word list AFINN-111"
    package: str = PACKAGE
    version: str = VERSION
    wheel_bytes: int = 52_591
    disk_bytes: int = 1_000_000


@dataclass(frozen=True)
class Lexicon:
    """Words and phrases with their valence."""

    valence: dict[str, int]

    @classmethod
    def read(cls, text: str) -> Self:
        """From lines of a word, a tab and its valence."""
        pairs = (line.rsplit("\t", 1) for line in text.splitlines() if line.strip())
        return cls({word: int(score) for word, score in pairs})

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self.valence, key=len, reverse=True)
        return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b")

    def score(self, text: str) -> int:
        """The sum over all words and phrases of the list that the text has, the longest first; Nielsen's own score.

        Small letters, runs of white space as one space, whole words.
        """
        return sum(self.valence[found] for found in self._pattern.findall(re.sub(r"\s+", " ", text).lower()))


def afinn() -> Lexicon:
    """The list, fetched. Raises `FetchFailed`, and `ValueError` when it is not what its page says."""
    from backend.models.cache import ModelsCache
    from backend.models.fetch import download_source
    from backend.models.progress import silent
    from backend.settings import Settings

    with ModelsCache(Settings().cache_dir).writing(PACKAGE, silent) as draft:
        return unpacked(download_source(Archive(), ARCHIVE_SHA256, draft, silent))


def unpacked(archive: Path) -> Lexicon:
    """The list out of its archive. Raises `ValueError` when it is not what its page says."""
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as files:
        file = files.extractfile(LIST)
        data = b"" if file is None else file.read()
    lexicon = Lexicon.read(data.decode("utf-8"))
    valences = lexicon.valence.values()
    if sha256(data).hexdigest() != LIST_SHA256 or len(valences) != ENTRIES or max(map(abs, valences)) != MOST:
        raise ValueError(f"{LIST} is not AFINN-111: {len(valences)} entries")
    return lexicon
