"""Ids of the weights page; a question's own ids all begin with its name."""

from frontend.parts.answering import Answering

PAGE = "weights-page"
STARTED = "weights-started"
CODE_ASK, CODE, CODE_NOTICE = "weights-code-ask", "weights-code", "weights-code-notice"
HEAD, PAIRS, LINE = Answering("weights-head"), Answering("weights-pairs"), Answering("weights-line")
TWIN, OTHER = Answering("weights-twin"), Answering("weights-other")
"""The random twin's table, and that of the other reading."""
VECTORS, OVERLAPS, UNIT = Answering("weights-vectors"), Answering("weights-overlaps"), Answering("weights-unit")
LOOKUP = Answering("weights-lookup")
