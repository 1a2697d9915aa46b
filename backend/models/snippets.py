"""The texts that the steers of the product were made from: read out of a source archive, never kept with the product.

vaderSentiment 3.3.2 (MIT) carries the data of Hutto & Gilbert 2014: snippets of movie reviews with the mean of twenty
human ratings from −4 to 4, of newspaper editorials, and tweets. The texts are other people's, so they stay in there.
"""

from __future__ import annotations

import html
import io
import re
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from backend import errors
from backend.models import cache
from backend.models.cache import ModelsCache
from backend.models.fetch import download_source
from backend.models.progress import Progress
from backend.schema import ExamplesAsk, MakeAsk

PACKAGE, VERSION = "vaderSentiment", "3.3.2"
ARCHIVE_SHA256 = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"
ARCHIVE_BYTES = 2_466_783
INSIDE = f"{PACKAGE}-{VERSION}/additional_resources/hutto_ICWSM_2014.tar.gz"
LICENCE = "package MIT; the texts are third-party and are not kept with LMScope"
MOVIES, EDITORIALS, TWEETS = "movieReviewSnippets", "nytEditorialSnippets", "tweets"
MODEL = "smollm2-135m-instruct"
SHORTEST = 20
"""Characters of a snippet."""


@dataclass(frozen=True)
class Archive:
    """What is fetched."""

    name: str = "the snippets of vaderSentiment"
    package: str = PACKAGE
    version: str = VERSION
    wheel_bytes: int = ARCHIVE_BYTES
    disk_bytes: int = 4 * ARCHIVE_BYTES + 16 * 1024 * 1024


@dataclass(frozen=True)
class Rated:
    """One snippet, cleaned."""

    rating: float
    """−4 to 4, the mean of what people said."""
    text: str


@dataclass(frozen=True)
class Recipe:
    """How a steer of the product is made."""

    name: str
    about: str
    plus: str
    minus: str
    poles: tuple[tuple[str, Callable[[Rated], bool]], tuple[str, Callable[[Rated], bool]]]
    """Of + and of −: which file, and which of its snippets."""
    each: int
    """Snippets of each pole: those whose SHA-256 comes first."""
    steps: int

    def examples(self, archive: Path) -> ExamplesAsk:
        """Its texts. Raises `WrongChecksum` for another archive."""
        plus, minus = ({each.text for each in read(archive, file) if chosen(each)} for file, chosen in self.poles)
        both = plus & minus
        return ExamplesAsk(
            name=f"{PACKAGE.lower()}-{self.name}", licence=LICENCE, plus=self._first(plus - both),
            minus=self._first(minus - both),
        )  # fmt: skip

    def _first(self, texts: set[str]) -> tuple[str, ...]:
        return tuple(sorted(texts, key=lambda text: sha256(text.encode()).hexdigest())[: self.each])

    def make(self, examples: str) -> MakeAsk:
        """How it is trained, from the id of its examples."""
        return MakeAsk(
            model=MODEL, name=self.name, plus=self.plus, minus=self.minus, examples=examples, rank=32, steps=self.steps,
            every=10, patience=4, batch=32, rate=1e-2, decay=1e-6, tokens=128, seed=0, owner="LMScope",
        )  # fmt: skip


def fetch(models_cache: ModelsCache, recipe: Recipe, progress: Progress) -> ExamplesAsk:
    """The texts of a recipe, out of an archive that is fetched, verified, read and thrown away.

    Raises `FetchFailed`, `WrongChecksum`, `DiskFull`, and `Cancelled` through `progress`.
    """
    wanted = Archive()
    with models_cache.writing(PACKAGE.lower(), progress) as draft:
        cache.check_space(draft, wanted.disk_bytes, wanted.name)
        with cache.disk_errors(draft, wanted.disk_bytes, wanted.name):
            return recipe.examples(download_source(wanted, ARCHIVE_SHA256, draft, progress))


def any_of(snippet: Rated) -> bool:
    """Whatever its rating."""
    return True


RECIPES = {
    each.name: each
    for each in (
        Recipe(
            "sentiment", "movie reviews that people rated +1 or more, against those rated −1 or less",
            "positive review", "negative review",
            ((MOVIES, lambda each: each.rating >= 1), (MOVIES, lambda each: each.rating <= -1)), 1500, 300,
        ),
        Recipe(
            "register", "sentences of newspaper editorials, against tweets", "newspaper", "tweet",
            ((EDITORIALS, any_of), (TWEETS, any_of)), 600, 100,
        ),
    )
}  # fmt: skip


def read(archive: Path, file: str) -> list[Rated]:
    """The snippets of one file of the archive, cleaned, without those that are short.

    Raises `WrongChecksum` for another archive.
    """
    data = archive.read_bytes()
    if (found := sha256(data).hexdigest()) != ARCHIVE_SHA256:
        raise errors.WrongChecksum(
            f"{archive.name} is not the archive that LMScope knows", f"its sha256 is {found}, not {ARCHIVE_SHA256}",
            f"fetch {PACKAGE} {VERSION} again, as a source archive",
        )  # fmt: skip
    with tarfile.open(fileobj=io.BytesIO(data)) as outer:
        inner = _member(outer, INSIDE)
    with tarfile.open(fileobj=io.BytesIO(inner)) as folder:
        lines = _member(folder, f"hutto_ICWSM_2014/{file}_GroundTruth.txt").decode("utf-8").splitlines()
    rows = (line.split("\t") for line in lines if line.strip())
    cleaned = (Rated(float(rating), clean(text)) for _, rating, text in rows)
    return [each for each in cleaned if len(each.text) >= SHORTEST]


def clean(text: str) -> str:
    """What the data's makers put in is taken out: entities, doubled apostrophes for quotation marks, stand-ins."""
    text = html.unescape(text).replace("''", '"')
    text = re.sub(r"@anonymous|http://url_removed", " ", text)
    return re.sub(r"\s+", " ", text).strip()


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None, "the archive's digest was checked, so its files are known"
    return file.read()
