"""A view travels in a link and comes back the same; a link that cannot be opened says why and costs little."""

import json
import tracemalloc
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from backend.schema import Focus, HeadName, HeadScale, LinkError, Sampling, Turn, View
from backend.schema.view import LINK_BYTES, LINK_BYTES_PACKED, canonical_json
from tests.schema.forms import edits, views

SMALL = View(model="m", text="The cat sat.")


def link_of(raw: bytes) -> str:
    """A link that holds any bytes."""
    return "#v=1" + urlsafe_b64encode(zlib.compress(raw, 9)).decode().rstrip("=")


def holding(**fields: object) -> str:
    """A link whose JSON is a small view with other fields."""
    return link_of(json.dumps({"model": "m", "text": "a", **fields}).encode())


@given(views)
def test_any_view_survives_its_link(view: View) -> None:
    assert View.from_link(view.link()) == view


@given(views, st.sampled_from(["", "http://127.0.0.1:8050", "https://host/lm/"]))
def test_a_link_opens_from_a_whole_address_and_from_its_fragment(view: View, base: str) -> None:
    link = view.link("heads", base)
    assert link.startswith(f"{base.rstrip('/')}/heads#v=1")
    assert View.from_link(link) == View.from_link(link.split("#v=")[1]) == view


@given(views)
def test_a_link_is_made_of_characters_that_no_mail_program_breaks(view: View) -> None:
    fragment = view.link().split("#v=")[1]
    assert fragment.isascii()
    assert not set(fragment) & set(' <>"%{}|\\^`+/=.,;:')


@given(views)
def test_canonical_json_is_stable_and_decides_the_digest(view: View) -> None:
    again = View.from_link(view.link())
    assert again.canonical() == view.canonical()
    assert again.digest() == view.digest()
    assert canonical_json(json.loads(view.canonical())) == view.canonical()


@given(views)
def test_canonical_json_has_sorted_keys_no_spaces_and_no_defaults(view: View) -> None:
    pairs = json.loads(view.canonical(), object_pairs_hook=lambda pairs: [key for key, _ in pairs])
    assert pairs == sorted(pairs)
    assert View(model="m", text="a b").canonical() == '{"model":"m","text":"a b"}'
    assert SMALL.model_copy(update={"edits": (HeadScale(layer=5, head=3, by=0.0),)}).canonical() == (
        '{"edits":[{"by":0,"head":3,"kind":"head.scale","layer":5}],"model":"m","text":"The cat sat."}'
    )


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (0.0, "0"), (-0.0, "0"), (1.0, "1"), (-2.5, "-2.5"), (1e-5, "0.00001"), (1e-6, "0.000001"), (1e-7, "1e-7"),
        (-1.5e-7, "-1.5e-7"), (1e20, "100000000000000000000"), (1e21, "1e+21"), (2.0**60, "1152921504606847000"),
        (5e-324, "5e-324"), (1.7976931348623157e308, "1.7976931348623157e+308"), (123.456, "123.456"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_a_browser_writes_them(number: float, written: str) -> None:
    assert canonical_json({"low": [number]}) == f'{{"low":[{written}]}}'


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_reads_back_the_same(number: float) -> None:
    assert float(json.loads(canonical_json(number))) == number


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_not_written(number: float) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        canonical_json({"low": number})


@given(st.lists(edits, max_size=4).map(tuple), views)
def test_focus_sampling_and_edits_that_are_off_do_not_change_the_question(edits: tuple, view: View) -> None:
    view = view.model_copy(update={"edits": edits})
    off = tuple(edit.model_copy(update={"on": False}) for edit in edits)
    other = view.model_copy(
        update={"edits": edits + off, "focus": Focus(token=3, tab="lines"), "sampling": Sampling(seed=7)}
    )
    assert other.question() == view.question()
    assert other.question().digest() == view.question().digest()


@pytest.mark.parametrize("prompt", [{}, {"text": "a", "pair": ("a", "b")}, {"text": "a", "turns": [], "pair": None}])
def test_a_view_has_exactly_one_prompt(prompt: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        View.model_validate({"model": "m", **prompt})


def test_the_chat_template_is_on_for_turns_and_off_for_text_unless_said() -> None:
    turns = View(model="m", turns=(Turn(role="user", content="hi"),))
    assert (SMALL.templated, turns.templated) == (False, True)
    assert SMALL.model_copy(update={"template": True}).templated
    assert not turns.model_copy(update={"template": False}).templated


@given(views, st.data())
def test_a_cut_link_is_refused_in_words(view: View, data: st.DataObject) -> None:
    fragment = view.link().split("#v=")[1]
    cut = fragment[: data.draw(st.integers(1, len(fragment) - 2))]
    with pytest.raises(LinkError, match=r"cut|damaged|version"):
        View.from_link(cut)


@given(views, st.data())
def test_a_link_with_a_wrong_character_is_refused_or_still_means_something(view: View, data: st.DataObject) -> None:
    fragment = view.link().split("#v=")[1]
    place = data.draw(st.integers(1, len(fragment) - 1))
    other = data.draw(st.sampled_from("AZaz09-_"))
    try:
        found = View.from_link(f"#v={fragment[:place]}{other}{fragment[place + 1 :]}")
    except (LinkError, ValidationError):
        return
    assert isinstance(found, View)


@given(st.text(max_size=300))
def test_arbitrary_text_is_no_link_and_never_another_error(text: str) -> None:
    with pytest.raises(LinkError):
        View.from_link("#v=1" + text)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_in_a_link_are_a_link_error_or_an_impossible_view(raw: bytes) -> None:
    with pytest.raises((LinkError, ValidationError)):
        View.from_link(link_of(raw))


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("#v=2" + SMALL.link().split("#v=1")[1], "not of version 1"),
        ("", "not a link of LMScope"),
        ("/attention", "not a link of LMScope"),
        (SMALL.link() + "AAAA", "joined with other text"),
        (SMALL.link().replace("v=1", "v=1 "), "characters that no link has"),
        (link_of(b"\xff\xfe"), "does not hold text"),
        (link_of(b"[1]"), "does not hold a view"),
        (link_of(b"{"), "does not hold a view"),
        (link_of(b"[" * 100_000), "does not hold a view"),
        (link_of(b'{"focus":{"low":' + b"9" * 5000 + b"}}"), "does not hold a view"),
        (link_of(b'{"model":"m","text":"a","focus":{"low":NaN}}'), "NaN is not a number"),
        (link_of(b'{"model":"m","text":"a","focus":{"low":-Infinity}}'), "-Infinity is not a number"),
    ],
)
def test_a_link_that_cannot_be_opened_says_why(link: str, words: str) -> None:
    with pytest.raises(LinkError, match=words):
        View.from_link(link)


@pytest.mark.parametrize(
    "link",
    [
        link_of(b'{"model":"m","text":"a","focus":{"low":1e999}}'),
        link_of(b'{"model":"m","text":"\\ud800"}'),
        holding(colour="red"),
        holding(edits=[{"kind": "head.scale", "layer": -1, "head": 0, "by": 0}]),
        holding(edits=[{"kind": "head.scale", "layer": 0, "head": 10**9, "by": 0}]),
        holding(edits=[{"kind": "head.scale", "layer": 0, "head": 0, "by": 1e7}]),
        holding(edits=[{"kind": "head.scale", "layer": 0, "head": 0, "by": 0, "at": []}]),
        holding(edits=[{"kind": "weights.delete"}]),
        holding(edits=[{"kind": "head.scale", "layer": 0, "head": 0, "by": 0}] * 65),
        holding(focus={"region": {"q0": 3, "q1": 3, "k0": 0, "k1": 1}}),
        holding(model=""),
        holding(pair=["a", "b"]),
    ],
)
def test_a_well_formed_link_that_says_something_impossible_is_a_validation_error(link: str) -> None:
    with pytest.raises(ValidationError):
        View.from_link(link)


def bomb() -> str:
    """64 MiB of spaces in a link of 85 kB: too long as it stands."""
    return link_of(b" " * (64 << 20))


def small_bomb() -> str:
    """16 MiB of spaces in a link that is short enough to be tried."""
    return link_of(b" " * (16 << 20))


def long_link() -> str:
    """A link of 8 MB."""
    return "#v=1" + "A" * 8_000_000


@pytest.mark.parametrize("make", [bomb, small_bomb, long_link])
def test_a_bombing_link_is_refused_without_unpacking_it(make: Callable[[], str]) -> None:
    link = make()
    tracemalloc.start()
    try:
        with pytest.raises(LinkError, match=r"at most|more than"):
            View.from_link(link)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_a_view_that_no_link_can_hold_says_how_many_bytes_it_has() -> None:
    with pytest.raises(LinkError, match=f"at most {LINK_BYTES}"):
        View(model="m", text="a" * LINK_BYTES).link()
    noise = "".join(chr(0x4E00 + (i * i * 7919 + i * 31) % 20_000) for i in range(30_000))
    with pytest.raises(LinkError, match=f"compressed; a link holds at most {LINK_BYTES_PACKED}"):
        View(model="m", text=noise).link()


def test_a_view_of_the_largest_size_still_opens() -> None:
    text = "a" * (LINK_BYTES - len(View(model="m", text="").canonical().encode()))
    view = View(model="m", text=text)
    assert len(view.canonical().encode()) == LINK_BYTES
    assert View.from_link(view.link()) == view


def test_heads_print_as_layer_dot_head() -> None:
    assert str(HeadName(layer=5, head=3)) == "5.3"
