"""What validation found, in sentences about fields: without the words of the library, and each field once."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

FIELDS_SAID = 3
"""Wrong fields that are named; the others are counted."""
WORDS = 240
"""Characters at most of one reason or one name."""
OBJECT = "it should be an object with named fields"
AT = "it may be 'all', 'prompt', 'generated', or a list of 1 to 4,096 positions, counted from 0"
NUMBER = "it should be a number"
WHOLE = "it should be a whole number"
LOOKS = {
    "^[0-9a-f]{64}$": "it should be an id of 64 hex digits, as the server gives it",
    "^[^\\x00]*$": "it may not hold the character U+0000",
    "^[a-z0-9][a-z0-9._-]{0,63}$": "it may have 64 small letters, digits, `.`, `_` and `-`, a letter or digit first",
}
"""What each pattern of the forms asks for, in words."""
FORM = re.compile(r"[\[(]|^(constrained-)?(int|float|str)$")
"""Part of a place that is one of the forms of a union, not a field."""

Reason = Callable[[dict[str, Any]], str]
REASONS: dict[str, Reason] = {
    "missing": lambda about: "it is missing",
    "extra_forbidden": lambda about: "there is no such field",
    "union_tag_invalid": lambda about: f"its kind may be {about['expected_tags']}",
    "union_tag_not_found": lambda about: f"it says no {str(about['discriminator']).strip(chr(39))}",
    "model_attributes_type": lambda about: OBJECT,
    "model_type": lambda about: OBJECT,
    "tuple_type": lambda about: "it should be a list",
    "too_short": lambda about: f"it needs {about['min_length']} or more, and has {about['actual_length']}",
    "too_long": lambda about: f"it may have {about['max_length']} at most",
    "float_parsing": lambda about: NUMBER,
    "float_type": lambda about: NUMBER,
    "int_parsing": lambda about: WHOLE,
    "int_type": lambda about: WHOLE,
    "int_from_float": lambda about: WHOLE,
    "string_type": lambda about: "it should be a text",
    "string_pattern_mismatch": lambda about: LOOKS.get(about["pattern"], f"it should look like {about['pattern']}"),
    "string_too_short": lambda about: "it is empty",
    "string_too_long": lambda about: f"it may have {about['max_length']:,} characters at most",
}
"""Reasons by pydantic's word for them, from what it tells about them; others are said as pydantic says them."""


def said(found: Sequence[Any]) -> str:
    """The first few wrong fields with their reasons, as one sentence, and how many more there are."""
    return listed(by_field(found))


def listed(fields: Mapping[str, str]) -> str:
    """Wrong fields as `by_field` gives them, as one sentence."""
    parts = [f"{path}: {reason}" if path else reason for path, reason in islice(fields.items(), FIELDS_SAID)]
    if len(fields) > FIELDS_SAID:
        parts.append(f"and {len(fields) - FIELDS_SAID:,} more")
    return "; ".join(parts)


def by_field(found: Sequence[Any]) -> dict[str, str]:
    """Each wrong field, as `edits.0.layer`, with what is wrong about it; the empty field is the whole."""
    return {path: " or ".join(reasons) for path, reasons in _by_path(found).items()}


def short(value: object, most: int = WORDS) -> str:
    """Text that is safe to print anywhere: short, and without what UTF-8 cannot hold."""
    text = str(value).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= most else text[: most - 1] + "…"


def _by_path(found: Sequence[Any]) -> dict[str, list[str]]:
    """Reasons by field: the forms that one field may have are said together, and no list is short for a wrong item."""
    reasons: dict[str, list[str]] = {}
    holds_wrong = {tuple(item["loc"][:end]) for item in found for end in range(len(item["loc"]))}
    for item in found:
        place = tuple(item["loc"])
        if item["type"] == "too_short" and place in holds_wrong:
            continue
        place, reason = _of_at(place) or (place, _reason(item))
        of_path = reasons.setdefault(_path(place), [])
        if reason not in of_path:
            of_path.append(reason)
    return reasons


def _of_at(place: tuple[int | str, ...]) -> tuple[tuple[int | str, ...], str] | None:
    """Where an edit acts may be said in several forms; whatever is wrong, all of them are named."""
    ends = [index for index, part in enumerate(place[:-1], 1) if part == "at" and FORM.search(str(place[index]))]
    return (place[: ends[0]], AT) if ends else None


def _path(loc: Sequence[int | str]) -> str:
    parts = loc[1:] if len(loc) > 1 and loc[0] in ("body", "path", "query", "header") else loc
    fields = [part for index, part in enumerate(parts) if not (FORM.search(str(part)) or _is_kind(parts, index))]
    return short(".".join(short(part, 40) for part in fields))


def _is_kind(parts: Sequence[int | str], index: int) -> bool:
    """Whether a part is the kind of an edit, by which its form was chosen: no field has this name."""
    return index >= 2 and parts[index - 2] == "edits" and isinstance(parts[index - 1], int)


def _reason(item: Any) -> str:
    if item["type"] in REASONS:
        return short(REASONS[item["type"]](item.get("ctx", {})))
    message = re.sub(r"^(Input|String|Tuple|Value) should", "it should", item["msg"].removeprefix("Value error, "))
    return short(message if message[1:2].isupper() else message[:1].lower() + message[1:])
