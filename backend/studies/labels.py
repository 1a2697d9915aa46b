"""The labels of a classifier as words: each label's vector, and what tells it from the others.

Axes: C labels, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from backend.desk.question import Cancel
from backend.models import vector_groups
from backend.models.changes import read_all
from backend.models.loaded import Loaded
from backend.models.words import words_of
from backend.schema import ClassifierVector, Ends

MOVED = "Labels stand in another order: their vectors are compared by name, sizes of the classifier by place."
BY_PLACE = "The two classifiers have no name of a label in common: their labels' vectors are compared place by place."
ALONE = "Only one of the two classifiers has these labels, so their vectors are not compared: {}."
APART = "the two classifiers have no label in common, and not as many"
NOT_READ = "The classifier of {} is not read: {}."


@dataclass(frozen=True)
class Label:
    """One label read."""

    name: str
    norm: float
    ends: Ends
    contrast: Ends


def read_labels(
    loaded: Loaded, cancel: Cancel, *, top: int
) -> tuple[dict[str, str], str, list[Label]] | None:  # fmt: skip
    """Words, a notice and the labels; None for a model that classifies nothing.

    A label's vector stands where the output embedding's rows stand, behind the final norm: so it is read by the bare
    product with the embedding, under any reading.
    """
    classifier = loaded.classifier
    if classifier is None:
        return None
    if classifier.vectors_CD is None:
        return {}, NOT_READ.format(loaded.name, classifier.why), []
    vectors_CD = classifier.vectors_CD
    reader = vector_groups.embedding_reader(loaded, "writes")
    read = read_all(reader, torch.cat([vectors_CD, vectors_CD - vectors_CD.mean(0)]), top, cancel)
    count = len(vectors_CD)
    labels = [
        Label(name, float(vectors_CD[place].norm()), read.ends[place], read.ends[count + place])
        for place, name in enumerate(classifier.labels)
    ]
    ids = {id for end in read.ends for id in (*end.highest, *end.lowest)}
    return words_of(loaded.tokenizer, ids), classifier.notice, labels


@dataclass(frozen=True)
class Labels:
    """The labels of a classifier and their vectors, for another model."""

    names: tuple[str, ...]
    vectors_CD: Tensor | None
    why: str


def taken_labels(loaded: Loaded, cancel: Cancel) -> Labels | None:
    """None for a model that classifies nothing."""
    classifier = loaded.classifier
    if classifier is None:
        return None
    vectors_CD = classifier.vectors_CD
    return Labels(classifier.labels, None if vectors_CD is None else vectors_CD.detach().clone(), classifier.why)


def matched(before: Sequence[str], after: Sequence[str]) -> tuple[list[tuple[int, int]], str]:
    """Places of the labels that are one label in both, and what is said of it: those of one name, or where no name is
    in both and they are as many, those of one place."""
    by_name = [(place, after.index(name)) for place, name in enumerate(before) if name in after]
    if by_name:
        alone = [*(name for name in before if name not in after), *(name for name in after if name not in before)]
        notice = MOVED if any(place != there for place, there in by_name) else ""
        return by_name, " ".join(filter(None, [notice, ALONE.format(", ".join(alone)) if alone else ""]))
    if len(before) == len(after):
        return [(place, place) for place in range(len(before))], BY_PLACE
    return [], ""


def labels_of(side: Literal["model", "other"], read: list[Label]) -> list[ClassifierVector]:
    """For the wire."""
    return [
        ClassifierVector(side=side, label=each.name, norm=each.norm, ends=each.ends, contrast=each.contrast)
        for each in read
    ]
