"""Labels that stand for the poles of texts: told by their names or by the question, or refused."""

import pytest

from backend import errors
from backend.schema import StitchingAsk
from backend.studies.poles import poles_of


@pytest.mark.parametrize(
    ("labels", "named", "poles"),
    [
        (("NEG", "POS"), {}, (1, 0)), (("bad", "good, positive"), {}, (1, 0)), (("other", "Negative"), {}, (0, 1)),
        (("LABEL_0", "LABEL_1"), {}, None), (("LABEL_0", "LABEL_1"), {"positive": 0}, (0, 1)),
        (("LABEL_0", "LABEL_1"), {"negative": 0}, (1, 0)), (("a", "b", "c"), {"positive": 2}, None),
        (("a", "b", "c"), {"positive": 2, "negative": 1}, (2, 1)), (("positive", "not positive"), {}, None),
        (("very negative", "negative", "positive"), {}, None), (("negative", "compost", "positive"), {}, (2, 0)),
        (("neutral", "positive"), {"positive": 0}, (0, 1)), (("score",), {}, None),
    ],
)  # fmt: skip
def test_labels_that_do_not_tell_which_pole_they_stand_for_are_refused(labels, named, poles):
    ask = StitchingAsk(model="one", other="two", **named)
    if poles is not None:
        assert poles_of(ask, "two", labels) == poles
        return
    with pytest.raises(errors.CannotShow, match="accuracy of two cannot be measured") as refused:
        poles_of(ask, "two", labels)
    assert labels[0] in refused.value.why
