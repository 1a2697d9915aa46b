"""Labelled texts as people send them: rows, two sets of texts, a CSV or a JSONL file; and what refuses one of them."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from backend import errors
from backend.models.sets import TEXT_MOST
from backend.schema import ExamplesAsk
from backend.schema.reasons import short

NEEDED = ("text", "label")
"""The columns of a CSV file, and the fields of a JSONL line."""
DELIMITERS = ",;\t"
SAID = re.compile(r"sep=([^\w\s\"]|\t)[ ]*(?:\r\n|\r|\n)", re.IGNORECASE)
"""A first line by which Excel says what separates the columns."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
"""A label as people and programs write it; Python's own float takes "0_1", too."""
csv.field_size_limit(2**31 - 1)
"""The whole process's; `TEXT_MOST` is what limits a text, and says so in words."""
SHOWN = 60
"""Characters of a text that a refusal quotes."""
INSTEAD = "Correct it and send the examples again; nothing was kept."


class Labelled(NamedTuple):
    """One text as it came: where it stood, for whoever has to correct it."""

    where: str
    text: Any
    label: Any


def given_rows(ask: ExamplesAsk, others: dict[str, None]) -> Iterable[Labelled]:
    """The rows of whichever way was chosen; once they are read, `others` has the columns or fields that were not.

    Raises `BadQuestion` where it is no way or several, and for a file that cannot be read; while it is read, too.
    """
    ways = {"`rows`": bool(ask.rows), "`plus` and `minus`": bool(ask.plus or ask.minus), "`file`": ask.file is not None}
    chosen = [name for name, given in ways.items() if given]
    if len(chosen) != 1:
        raise errors.BadQuestion(
            "The examples must come in one way", f"they came in {', '.join(chosen) or 'none'}",
            "Send labelled rows (`rows`), two sets of texts (`plus` and `minus`), or a file (`file` and `format`).",
        )  # fmt: skip
    if ask.file is None and ask.format is not None:
        raise errors.BadQuestion(
            "There is no file", f"`format` says that it is {ask.format}, and `file` is missing",
            "Send the file, or leave `format` out.",
        )  # fmt: skip
    if ask.rows:
        return (Labelled(f"Row {place}", row.text, row.label) for place, row in enumerate(ask.rows, 1))
    if ask.file is None:
        poles = (("+", 1.0, ask.plus), ("−", -1.0, ask.minus))
        return (
            Labelled(f"Text {place} of {pole}", text, label)
            for pole, label, texts in poles for place, text in enumerate(texts, 1)
        )  # fmt: skip
    if ask.format is None:
        raise errors.BadQuestion(
            "It is not said what the file is", "`format` is missing", "Send format='csv' or format='jsonl'."
        )
    text = _decoded(ask.file)
    return _csv(text, others) if ask.format == "csv" else _jsonl(text, others)


def _decoded(file: str) -> str:
    """The file's bytes as text. Raises `BadQuestion` for anything but UTF-8."""
    try:
        data = b64decode(file, validate=True)
    except (Error, ValueError):
        raise errors.BadQuestion(
            "The file cannot be read", "`file` is not base64", "Send the file's bytes in base64."
        ) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _no_text(f"its byte {error.start:,} is not UTF-8") from None
    if "\0" in text:
        raise _no_text(f"its character {text.index(chr(0)):,} is U+0000, which no text has")
    if not text.strip():
        raise errors.BadQuestion("The file is empty", "it holds no row", "Choose another file.")
    return text


def _no_text(why: str) -> errors.BadQuestion:
    return errors.BadQuestion(
        "The file is no text", why,
        "Save it as CSV or JSONL in UTF-8 (a spreadsheet calls it “CSV UTF-8”); a spreadsheet, an archive or a picture "
        "is not read.",
    )  # fmt: skip


def _csv(text: str, others: dict[str, None]) -> Iterable[Labelled]:
    """Rows below a header that names `text` and `label`, apart by comma, semicolon or tab, or as a line before says."""
    table, delimiters = text.lstrip("\r\n"), DELIMITERS
    if said := SAID.match(table):
        table, delimiters = table[said.end() :].lstrip("\r\n"), said[1]
    above = len(text[: len(text) - len(table)].splitlines())
    delimiter, header = _header(table, delimiters)
    others |= dict.fromkeys(name for name in header if name not in NEEDED)
    return _csv_rows(table, delimiter, header, above)


def _header(table: str, delimiters: str) -> tuple[str, list[str]]:
    """The delimiter under which the first line has the columns that are needed, and all columns."""
    line = io.StringIO(table, newline="").readline().rstrip("\r\n")
    ways = {delimiter: _names(line, delimiter) for delimiter in delimiters}
    for delimiter, names in ways.items():
        if all(names.count(needed) == 1 for needed in NEEDED):
            return delimiter, names
    found = max(ways.values(), key=len)
    raise errors.BadQuestion(
        "The file has other columns than a steer needs",
        f"its first line names {', '.join(repr(short(name, 40)) for name in found[:10]) or 'none'}, and `text` and "
        "`label` are needed, each once",
        "Put a first line `text,label` above the rows.",
    )


def _names(line: str, delimiter: str) -> list[str]:
    try:
        (names,) = csv.reader([line], delimiter=delimiter)
    except (csv.Error, ValueError):
        return []
    return [name.strip().lower() for name in names]


def _csv_rows(table: str, delimiter: str, header: list[str], above: int) -> Iterator[Labelled]:
    """Rows of a table that begins behind so many lines."""
    reader = csv.reader(io.StringIO(table, newline=""), delimiter=delimiter, strict=True)
    text_at, label_at = header.index("text"), header.index("label")
    try:
        next(reader)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise errors.BadQuestion(
                    f"Line {above + reader.line_num} does not have the columns of the first line",
                    f"it has {len(cells)}, and the first line names {len(header)}; a text that holds the separator "
                    f"{delimiter!r} or a line break must stand in quotation marks",
                    INSTEAD, needed=len(header), available=len(cells),
                )  # fmt: skip
            yield Labelled(f"Line {above + reader.line_num}", cells[text_at], cells[label_at])
    except csv.Error as error:
        raise errors.BadQuestion(
            f"Line {above + reader.line_num} cannot be read as CSV", short(error),
            "Quote every text, and write a quotation mark inside it twice.",
        ) from None  # fmt: skip


def _jsonl(text: str, others: dict[str, None]) -> Iterator[Labelled]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            told = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise errors.BadQuestion(
                f"Line {number} is not JSON", short(error), 'Write one object a line: {"text": "…", "label": 1}.'
            ) from None
        if not isinstance(told, dict) or any(name not in told for name in NEEDED):
            found = ", ".join(repr(short(name, 40)) for name in told) if isinstance(told, dict) else type(told).__name__
            raise errors.BadQuestion(
                f"Line {number} has other fields than a steer needs",
                f"it has {found or 'none'}, and `text` and `label` are needed",
                'Write one object a line: {"text": "…", "label": 1}.',
            )
        others |= dict.fromkeys(name for name in told if name not in NEEDED)
        yield Labelled(f"Line {number}", told["text"], told["label"])


def text_of(each: Labelled) -> str:
    """The text. Raises `BadQuestion` for what is none, `TooLarge` for one that is too long."""
    if not isinstance(each.text, str):
        raise errors.BadQuestion(f"{each.where} has no text", f"its `text` is {short(each.text, SHOWN)}", INSTEAD)
    if not each.text.strip():
        raise errors.BadQuestion(f"{each.where} is empty", "an empty text teaches nothing", "Leave it out.")
    if len(each.text) > TEXT_MOST:
        raise errors.TooLarge(
            f"{each.where} is too long",
            f"it has {len(each.text):,} characters, and a text of examples has at most {TEXT_MOST:,}",
            "Cut it into several texts.", needed=len(each.text), available=TEXT_MOST,
        )  # fmt: skip
    if "\0" in each.text:
        raise errors.BadQuestion(
            f"{each.where} is no text", f"its character {each.text.index(chr(0)):,} is U+0000, which no text has",
            INSTEAD,
        )  # fmt: skip
    try:
        each.text.encode()
    except UnicodeEncodeError:
        raise errors.BadQuestion(
            f"{each.where} is no text", "it holds half of a character (a lone surrogate)", INSTEAD
        ) from None
    return each.text


def label_of(each: Labelled) -> float:
    """The label, from −1 to 1. Raises `BadQuestion`."""
    label = each.label
    try:
        if isinstance(label, bool) or not isinstance(label, (str, int, float)):
            raise ValueError
        if isinstance(label, str) and not NUMBER.fullmatch(label.strip()):
            raise ValueError
        value = float(label)
    except (ValueError, OverflowError):
        comma = isinstance(label, str) and NUMBER.fullmatch(label.strip().replace(",", ".", 1))
        raise _bad_label(each, "is not a number" + (": write a point, not a comma" if comma else "")) from None
    if not math.isfinite(value) or not -1 <= value <= 1:
        raise _bad_label(each, "is not between −1 and 1")
    return value


def _bad_label(each: Labelled, why: str) -> errors.BadQuestion:
    return errors.BadQuestion(
        f"{each.where} has a label that no steer can learn from", f"{short(repr(each.label), SHOWN)} {why}",
        "Label each text with a number from −1 (the − pole) to 1 (the + pole); divide ratings by their largest.",
    )  # fmt: skip
