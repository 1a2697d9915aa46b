"""Words: what single tokens of the vocabulary read, outside any text, and which tokens a word is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from backend import errors
from backend.models.spelling import Spelling

BEFORE = ("", " ", "\n")
"""What a word may stand behind inside its token, as LM-Debugger searches: nothing, a space, a new line."""

LONGEST = 60
"""Letters of a word whose other forms are tried."""
LEFT_OUT = "Left out, for a search goes by single tokens: {}."


def words_of(tokenizer: Any, ids: Iterable[int], spelling: Spelling | None = None) -> dict[str, str]:
    """The text of each token, by its id as a string; bytes that are no whole character are written as `⟨e2 9c⟩`.

    `spelling`: the tokenizer's, where it is at hand already.
    """
    spelling = spelling or Spelling.of(tokenizer)
    ordered = sorted(ids)
    names = tokenizer.convert_ids_to_tokens(ordered)
    return {str(id): _read(spelling, id, name) for id, name in zip(ordered, names, strict=True)}


def _read(spelling: Spelling, id: int, name: str | None) -> str:
    if name is None:  # rows of the embedding beyond the tokenizer
        return f"⟨{id}⟩"
    given = spelling.bytes_of(id, name)
    try:
        return given.decode()
    except UnicodeDecodeError:
        return f"⟨{given.hex(' ')}⟩"


@dataclass(frozen=True)
class Spelled:
    """One way in which the tokenizer writes a word as a single token."""

    word: str
    id: int
    text: str


def spellings(tokenizer: Any, words: Sequence[str], vocabulary: int) -> tuple[Spelled, ...]:
    """Every single token that each word is: bare, behind a space, behind a new line, and, where the tokenizer has such
    tokens, as the rest of a word. A word that begins with white space is taken as it stands.

    `vocabulary`: rows of the embedding. Raises `CannotShow`, naming every word that is no single token, its pieces and
    its forms that are one.
    """
    return spellings_of(tokenizer, words, vocabulary)[0]


def spellings_of(
    tokenizer: Any, words: Sequence[str], vocabulary: int, *, leave_out: bool | None = None
) -> tuple[tuple[Spelled, ...], tuple[str, ...]]:
    """The same, and what is to be said of words that were left out: with `leave_out` it
    is refused only where no word has a token. None: this is not offered.
    """
    spelling, found, missing = Spelling.of(tokenizer), list[Spelled](), list[str]()
    for word in dict.fromkeys(words):
        ids = [id for id in _tokens_of(tokenizer, spelling, word) if id < vocabulary]
        found += [Spelled(word, id, _shown(tokenizer, spelling, id)) for id in ids]
        if not ids:
            missing.append(_pieces(tokenizer, spelling, word, vocabulary))
    offered = found and leave_out is not None
    if missing and not (found and leave_out):
        raise (errors.SeveralTokens if offered else errors.CannotShow)(
            "This word is no single token" if len(missing) == 1 else "These words are no single tokens",
            "a search goes by single tokens, and " + "; ".join(missing),
            "Search for one of the pieces, for another form of the word, or for a synonym"
            + (", or leave such words out." if offered else "."),
        )
    return tuple(found), ((LEFT_OUT.format("; ".join(missing)),) if missing else ())


def _tokens_of(tokenizer: Any, spelling: Spelling, word: str) -> list[int]:
    """Token ids, each once: by the names that the vocabulary may have for it, and by what the tokenizer makes of it."""
    texts = [before + word for before in (BEFORE if word == word.lstrip() else ("",))]
    named = [id for text in texts for id in spelling.tokens_of(tokenizer, text)]
    made = [ids[0] for text in texts if len(ids := _tokenised(tokenizer, text)) == 1]
    known = [id for id in made if id != spelling.unknown or spelling.added.get(id) == word]
    return list(dict.fromkeys(named + known))


def _tokenised(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _shown(tokenizer: Any, spelling: Spelling, id: int) -> str:
    """What a token reads; the mark that it goes on a word stays, because nothing else tells it from the whole word."""
    name = tokenizer.convert_ids_to_tokens(id)
    return name if spelling.continuing and name.startswith(spelling.continuing) else _read(spelling, id, name)


def _pieces(tokenizer: Any, spelling: Spelling, word: str, vocabulary: int) -> str:
    shown = word if len(word) <= 60 else word[:59] + "…"
    ids = _tokenised(tokenizer, word if word != word.lstrip() else f" {word}")
    if not ids or spelling.unknown in ids:
        return f"“{shown}” holds what this tokenizer does not know"
    pieces = " · ".join(_shown(tokenizer, spelling, id).strip() or "␣" for id in ids[:12])
    whole = [form for form in _forms(word) if any(id < vocabulary for id in _tokens_of(tokenizer, spelling, form))]
    one = f" (one token: {', '.join(f'“{form}”' for form in whole)})" if whole else ""
    return f"“{shown}” is {len(ids)} tokens: {pieces}{one}"


def _forms(word: str) -> list[str]:
    """Other forms of a word, that may be a token where it is none: without the white space before it, in other letters,
    in the other number.
    """
    bare = word.strip()
    if not bare or len(bare) > LONGEST:
        return []
    number = bare.removesuffix("s") if bare.endswith("s") else f"{bare}s"
    cased = (each for form in (bare, number) for each in (form, form.lower(), form.capitalize(), form.upper()))
    return [form for form in dict.fromkeys(cased) if form and form != word]
