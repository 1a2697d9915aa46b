"""Labelled texts are checked before any training, in words, and the same texts are held out every time."""

import json
from base64 import b64encode
from hashlib import sha256

import pytest
from pydantic import ValidationError

from backend import errors
from backend.models.examples import HELD_LEAST, POLE_LEAST, Examples, checked, split
from backend.models.sets import Sets
from backend.schema import Example, ExamplesAsk, SetAsk
from backend.schema.pieces import WrongFields, in_pieces
from backend.schema.reasons import by_field
from backend.schema.steers import EXAMPLES_MOST

PLUS = tuple(f"A good day, number {place} 🙂" for place in range(POLE_LEAST))
MINUS = tuple(f"A bad day, number {place}" for place in range(POLE_LEAST))
ROWS = tuple((text, 1) for text in PLUS) + tuple((text, -1) for text in MINUS)


def asked(**given) -> ExamplesAsk:
    return ExamplesAsk(name="days", **given)


def of_file(content: str | bytes, form: str = "csv") -> ExamplesAsk:
    data = content.encode() if isinstance(content, str) else content
    return asked(file=b64encode(data).decode(), format=form)


def as_csv(rows=ROWS, delimiter: str = ",", header: str = "text,label", end: str = "\r\n") -> str:
    lines = [delimiter.join(f'"{cell}"' if isinstance(cell, str) else f"{cell}" for cell in row) for row in rows]
    return end.join([header.replace(",", delimiter), *lines])


def as_jsonl(rows=ROWS) -> str:
    return "\n".join(json.dumps({"text": text, "label": label, "more": 1}) for text, label in rows)


@pytest.mark.parametrize(
    "ask",
    [
        asked(plus=PLUS, minus=MINUS), asked(rows=tuple(Example(text=text, label=label) for text, label in ROWS)),
        of_file(as_csv()), of_file(as_csv(delimiter=";")), of_file(as_csv(delimiter="\t", end="\n")),
        of_file(as_csv(end="\r")), of_file("sep=;\r\n" + as_csv(delimiter=";")),
        of_file("SEP=|\n" + as_csv(delimiter="|")),
        of_file(b"\xef\xbb\xbf" + as_csv(header="Text, LABEL").encode()), of_file(as_jsonl() + "\n\n", "jsonl"),
    ],
)  # fmt: skip
def test_every_way_gives_the_same_rows_under_the_digest_that_any_program_computes(ask):
    rows, card = checked(ask)
    assert tuple((row.text, row.label) for row in rows) == ROWS
    plain = json.dumps(ROWS, ensure_ascii=False, separators=(",", ":")).encode()
    assert card.id == sha256(plain).hexdigest()
    assert (card.rows, card.plus, card.minus, card.neutral, card.duplicates) == (40, 20, 20, 0, 0)
    assert card.longest == max(map(len, PLUS))


def test_quoted_commas_line_breaks_and_other_columns_of_a_csv_are_read_and_said():
    lines = as_csv(ROWS).replace("\r\n", ',"x"\r\n').replace('label,"x"', "label,id") + ',"x"'
    rows, card = checked(of_file(lines + '\r\n"He said ""well, no""\nand left",0.25,7'))
    assert (rows[-1].text, rows[-1].label) == ('He said "well, no"\nand left', 0.25)
    assert card.notices == ("Columns that were not read: id.",)


def test_other_fields_of_jsonl_are_said_once_each():
    assert checked(of_file(as_jsonl(), "jsonl"))[1].notices == ("Fields that were not read: more.",)


def test_a_file_has_no_more_rows_than_the_form(monkeypatch):
    monkeypatch.setattr("backend.models.examples.EXAMPLES_MOST", len(ROWS))
    assert checked(of_file(as_csv()))[1].rows == 40
    with pytest.raises(errors.TooLarge, match="41, and one set of examples has at most 40") as refused:
        checked(of_file(as_csv((*ROWS, ROWS[0]))))
    assert (refused.value.needed, refused.value.available) == (41, 40)


@pytest.mark.parametrize("label", [True, "0_1"])
def test_a_row_is_labelled_with_a_number(label):
    with pytest.raises(ValueError, match="it should be a number"):
        Example(text="x", label=label)


def test_repeated_and_neutral_texts_are_counted_and_left_out():
    rows, card = checked(of_file(as_csv((*ROWS, ROWS[0], ROWS[0], ("So so.", 0)))))
    assert (len(rows), card.rows, card.duplicates, card.neutral) == (40, 40, 2, 1)


REFUSED = {
    "one class only": (asked(plus=PLUS), "one class only", "20 different texts above 0 and 0 below"),
    "five examples": (asked(plus=PLUS[:5], minus=MINUS[:5]), "too few", f"needs {POLE_LEAST} of each"),
    "the same text many times": (asked(plus=PLUS[:1] * 99, minus=MINUS), "too few", "1 different texts above 0"),
    "a label out of range": (of_file(as_csv((*ROWS, ("x", 4)))), "Line 42", "'4' is not between −1 and 1"),
    "a label that is no number": (of_file(as_csv((*ROWS, ("x", "good")))), "Line 42", "'good' is not a number"),
    "a label that is infinite": (of_file('{"text": "x", "label": 1e999}', "jsonl"), "Line 1", "not between"),
    "a label that is not there": (of_file(as_csv((*ROWS, ("x", "")))), "Line 42", "is not a number"),
    "a label that is true": (of_file('{"text": "x", "label": true}', "jsonl"), "Line 1", "True is not a number"),
    "a label with a line": (of_file(as_csv((*ROWS, ("x", "0_1")))), "Line 42", "'0_1' is not a number"),
    "a label with a comma": (of_file(as_csv((*ROWS, ("x", "0,5")))), "Line 42", "'0,5' is not a number: write a point"),
    "a format alone": (asked(plus=PLUS, minus=MINUS, format="csv"), "There is no file", "`file` is missing"),
    "U+0000 in a row": (asked(rows=(Example(text="a\0b", label=1),)), "Row 1 is no text", "character 1 is U\\+0000"),
    "U+0000 in a pole": (asked(plus=(*PLUS, "\0"), minus=MINUS), "Text 21 of \\+ is no text", "U\\+0000"),
    "a long CSV text": (of_file(as_csv((*ROWS, ("a" * 140_000, 1)))), "Line 42 is too long", "140,000 characters"),
    "a line behind empty ones": (of_file("\n\nsep=|\ntext|label\nx"), "Line 5", "has 1, and the first line names 2"),
    "two labels": (asked(plus=PLUS, minus=(*MINUS, PLUS[3])), "two labels", "text 4 of +"),
    "other columns": (of_file("sentence,score\nx,1"), "other columns", "'sentence', 'score', and `text` and `label`"),
    "no header": (of_file('"x",1'), "other columns", "'x', '1'"),
    "a line short of a column": (of_file("text,label\nx"), "Line 2", "has 1, and the first line names 2"),
    "an unquoted comma": (of_file("text,label\nx, and y,1"), "Line 2", "has 3, and the first line names 2"),
    "an open quotation mark": (of_file('text,label\n"x,1'), "cannot be read as CSV", "unexpected end"),
    "other fields": (of_file('{"sentence": "x"}', "jsonl"), "Line 1", "'sentence', and `text` and `label`"),
    "a list a line": (of_file("[1]", "jsonl"), "Line 1", "it has list"),
    "no JSON": (of_file("text,label", "jsonl"), "Line 1 is not JSON", "Expecting value"),
    "half a character": (of_file('{"text": "\\ud800", "label": 1}', "jsonl"), "Line 1 is no text", "surrogate"),
    "no text": (of_file('{"text": 3, "label": 1}', "jsonl"), "Line 1 has no text", "3"),
    "binary garbage": (of_file(b"PK\x03\x04\xff\xfe"), "no text", "byte 4 is not UTF-8"),
    "UTF-16": (of_file("text,label\nx,1".encode("utf-16-le")), "no text", "U\\+0000"),
    "an empty file": (of_file(""), "empty", "holds no row"),
    "no base64": (asked(file="%%%", format="csv"), "cannot be read", "not base64"),
    "no format": (asked(file="eA=="), "not said what the file is", "`format`"),
    "an empty text": (asked(plus=(*PLUS, " \n"), minus=MINUS), "Text 21 of \\+ is empty", "teaches nothing"),
    "a text that is too long": (asked(plus=("a" * 20_001,), minus=MINUS), "too long", "20,001 characters"),
    "nothing": (asked(), "in one way", "none"),
    "two ways": (asked(plus=PLUS, file="eA==", format="csv"), "in one way", "`plus` and `minus`, `file`"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_steer_can_be_made_from_is_refused_with_help(tmp_path, case):
    ask, what, why = REFUSED[case]
    with pytest.raises(errors.BadQuestion, match=what) as refused:
        Examples(tmp_path).keep(ask)
    assert refused.match(why)
    assert refused.value.instead
    assert Examples(tmp_path).cards().sets == ()


def test_too_few_examples_say_both_numbers():
    with pytest.raises(errors.BadQuestion) as refused:
        checked(asked(plus=PLUS, minus=MINUS[:5]))
    assert (refused.value.needed, refused.value.available) == (POLE_LEAST, 5)


def test_examples_come_back_after_a_restart_and_are_no_prompt_set(tmp_path):
    card = Examples(tmp_path).keep(asked(plus=PLUS, minus=MINUS, licence="CC0-1.0"))
    texts = Sets(tmp_path).keep(SetAsk(name="days", texts=PLUS))
    after = Examples(tmp_path)
    assert after.get(card.id).card == card
    assert tuple((row.text, row.label) for row in after.get(card.id).rows) == ROWS
    assert after.cards().sets == (card,)
    assert Sets(tmp_path).cards().sets[1:] == (texts,), "the lister of prompt sets does not trip over them"
    again = after.keep(ExamplesAsk(name="again", plus=PLUS, minus=MINUS))
    assert (again.id, again.name, again.licence) == (card.id, "days", "CC0-1.0")
    assert again.notices == ("These rows are kept here already as days, licence: CC0-1.0. Both stand.",)
    assert after.get(card.id).card == card
    for id in ("0" * 64, texts.id, "*", "["):
        with pytest.raises(errors.UnknownSet):
            after.get(id)
    with pytest.raises(errors.UnknownSet):
        Sets(tmp_path).get(card.id)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_what_is_held_out_follows_from_the_texts_alone(share):
    rows = tuple(Example(text=text, label=label) for text, label in ROWS)
    parts = split(rows, share)
    other = split(rows[::-1], share)
    for part, again in zip((parts.train, parts.stop, parts.judge), (other.train, other.stop, other.judge), strict=True):
        assert {row.text for row in part} == {row.text for row in again}
    assert sorted((*parts.train, *parts.stop, *parts.judge), key=str) == sorted(rows, key=str)
    held = max(HELD_LEAST, share * POLE_LEAST)
    for label in (1, -1):
        assert sum(row.label == label for row in parts.stop) == sum(row.label == label for row in parts.judge)
        kept = {row.text for row in (*parts.stop, *parts.judge) if row.label == label}
        texts = PLUS if label == 1 else MINUS
        assert kept == set(sorted(texts, key=lambda text: sha256(text.encode()).hexdigest())[: int(held)])


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_pairs_stay_together_and_in_their_order(share):
    """Whether two texts belong together is read from the texts, not from where they stand."""
    rows = [
        Example(text=f"film {n} is {word}", label=label)
        for label, word in ((1, "good"), (-1, "bad"))
        for n in range(40)
    ]
    parts = split(rows, share, paired=True)
    for part in (parts.train, parts.stop, parts.judge):
        plus, minus = ([row.text for row in part if row.label == label] for label in (1, -1))
        assert [text.replace("good", "bad") for text in plus] == minus
        assert plus == sorted(plus, key=lambda text: int(text.split()[1]))
    assert len(parts.judge) + len(parts.stop) == 2 * max(HELD_LEAST, round(40 * share))
    with pytest.raises(errors.BadQuestion, match="no pairs"):
        split(rows[:-1], share, paired=True)


@pytest.mark.parametrize("left_out", ["doubles", "neutral"])
def test_examples_that_lost_a_text_are_no_pairs_and_are_not_taken_for_those_that_lost_none(tmp_path, left_out):
    """Equal counts are left, and the partners between the two gaps are shifted: only what was sent can tell."""
    rows = [[text, label] for texts, label in ((PLUS, 1), (MINUS, -1)) for text in (*texts, f"one more of {label}")]
    if left_out == "doubles":
        rows[5][0], rows[30][0] = rows[4][0], rows[29][0]
    else:
        rows[5][1] = rows[30][1] = 0
    examples = Examples(tmp_path)
    gappy = examples.keep(ExamplesAsk(name="gappy", rows=tuple(Example(text=t, label=label) for t, label in rows)))
    assert gappy.plus == gappy.minus == 20
    whole = examples.keep(ExamplesAsk(name="whole", rows=examples.get(gappy.id).rows))
    assert whole.id != gappy.id
    examples.get(whole.id).check_pairs()
    with pytest.raises(errors.BadQuestion, match="no pairs any more") as refusal:
        examples.get(gappy.id).check_pairs()
    assert "2 texts were left out" in refusal.value.why


def test_every_wrong_row_counts_and_the_first_are_named():
    wrong = [("fine", 1), ("wide", 7), (" ", 1), ("fine", -1), *((f"text {n}", "good") for n in range(1_000))]
    with pytest.raises(errors.BadQuestion, match="Line 3 has a label that no steer can learn from") as refused:
        checked(of_file(as_csv(wrong)))
    assert refused.value.why == (
        "'7' is not between −1 and 1; 1,003 rows in all cannot be taken, also line 4, line 5, line 6 and 999 more"
    )
    with pytest.raises(errors.BadQuestion, match="Line 2 has a label") as refused:
        checked(of_file("text,label\nwide,7\nx, and y,1\nz,1"))
    assert refused.value.why == (
        "'7' is not between −1 and 1; what follows was not read, for line 3 does not have the columns of the first line"
    )


def test_a_form_in_pieces_is_the_form_and_its_faults_are_the_form_s():
    good = {"name": "moods", "rows": [{"text": f"text {n}", "label": n % 3 - 1} for n in range(1_700)]}
    assert in_pieces(ExamplesAsk, good) == ExamplesAsk.model_validate(good)
    rows = [dict(row) for row in good["rows"]]
    for place in (0, 499, 500, 1_234, 1_699):
        rows[place]["label"] = 7
    del rows[501]["text"]
    bad = good | {"rows": rows, "nothing": 3, "plus": [3, "x"]}
    with pytest.raises(ValidationError) as whole:
        ExamplesAsk.model_validate(bad)
    with pytest.raises(WrongFields) as pieces:
        in_pieces(ExamplesAsk, bad)
    assert pieces.value.fields == by_field(whole.value.errors())
    assert str(pieces.value).endswith("; and 5 more")
    for told in ([], good | {"plus": ["x"] * (EXAMPLES_MOST + 1)}):
        with pytest.raises(WrongFields):
            in_pieces(ExamplesAsk, told)
