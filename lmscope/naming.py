"""Names of heads and of feed-forward units, as people write them."""

import re
from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

from backend.schema import HeadName, UnitName
from backend.schema.reasons import short
from lmscope.asking import asked, impossible, several

OneHead = HeadName | str | tuple[int, int]
Heads = HeadName | str | tuple[int, int] | Sequence[HeadName | str | tuple[int, int]]
Unit = UnitName | str | tuple[int, int]
"""`L12U34`, as LM-Debugger wrote it `L12D34`, or layer and unit."""
WRITTEN = re.compile(r"\s*L(\d{1,4})\s*[UD](\d{1,7})\s*", re.IGNORECASE | re.ASCII)


def unit_name(unit: Unit) -> UnitName:
    """One unit. Raises `Impossible` when it names none."""
    if isinstance(unit, UnitName):
        return unit
    parts: tuple[Any, ...] = unit if isinstance(unit, tuple) else ()
    if isinstance(unit, str) and (match := WRITTEN.fullmatch(unit)):
        parts = match.groups()
    numbers = [whole(part) for part in parts]
    if len(numbers) != 2 or None in numbers:
        raise impossible(
            f"{short(repr(unit), 60)} names no unit; write layer and unit, such as 'L12U34', 'L12D34' or (12, 34)"
        )
    return asked(UnitName, layer=numbers[0], unit=numbers[1])


def whole(part: Any) -> int | None:
    """A whole number from 0, of any kind or as digits; None: it is none, and nothing is rounded to one."""
    if isinstance(part, str):
        return int(part) if part.isascii() and part.isdecimal() else None
    try:
        number = index(part)
    except TypeError:
        return None
    return number if number >= 0 and not isinstance(part, bool) else None


def head_names(heads: Heads) -> tuple[HeadName, ...]:
    """Names of heads from what a person may write: `"5.3"`, `(5, 3)`, or a list of these."""
    if isinstance(heads, HeadName | str):
        return (head_name(heads),)
    if isinstance(heads, tuple) and len(heads) == 2 and all(isinstance(part, (int, float)) for part in heads):
        return (head_name(heads),)
    return tuple(head_name(head) for head in several("heads", heads))


def head_name(head: Any) -> HeadName:
    """One head. Raises `Impossible` when it names none."""
    if isinstance(head, HeadName):
        return head
    parts = head.strip().split(".") if isinstance(head, str) else head
    numbers = [whole(part) for part in parts] if isinstance(parts, Iterable) else []
    if len(numbers) != 2 or None in numbers:
        raise impossible(f"{short(repr(head), 60)} names no head; write layer and head, such as '5.3' or (5, 3)")
    return asked(HeadName, layer=numbers[0], head=numbers[1])
