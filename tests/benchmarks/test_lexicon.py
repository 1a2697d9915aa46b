"""The scorer of continuations: Nielsen's rules, on a list that is short enough to score by hand."""

import pytest

from benchmarks.lexicon import Lexicon

LIST = Lexicon.read("good\t3\nnot good\t-2\nbad\t-3\ncan't stand\t-3\nfun\t4\nfunny\t4\n")


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("A Good day.", 3),
        ("It was not\n good, but fun.", 2),
        ("badly goods", 0),
        ("I can't stand bad, bad food", -9),
        ("funny", 4),
        ("", 0),
    ],
)
def test_a_text_scores_what_its_words_sum_to(text, score):
    assert LIST.score(text) == score
