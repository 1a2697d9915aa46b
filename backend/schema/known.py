"""Known: a long question about weights that this server has answered before."""

from typing import Self

from pydantic import model_validator

from backend.schema.frozen import Frozen
from backend.schema.job import Job
from backend.schema.two_models import AlignmentAsk, ChangesAsk, StitchingAsk
from backend.schema.weight_studies import ActiveAsk, KeepAsk, SimilarityAsk
from backend.schema.weight_tables import SummariesAsk, TablesAsk

LongAsk = SummariesAsk | TablesAsk | KeepAsk | ActiveAsk | SimilarityAsk | ChangesAsk | AlignmentAsk | StitchingAsk


class KnownAsk(Frozen):
    """POST /api/v1/weights/known: whether this was asked and answered before. Exactly one question is given.

    Nothing is loaded or begun: a model that is not loaded has no known answers.
    """

    heads: SummariesAsk | None = None
    tables: TablesAsk | None = None
    keep: KeepAsk | None = None
    active: ActiveAsk | None = None
    similarity: SimilarityAsk | None = None
    changes: ChangesAsk | None = None
    alignment: AlignmentAsk | None = None
    stitching: StitchingAsk | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one question is given; here it is {given or 'none'}")
        return self

    @property
    def ask(self) -> LongAsk:
        """The question."""
        found: LongAsk = next(given for name in type(self).model_fields if (given := getattr(self, name)) is not None)
        return found


class Known(Frozen):
    """What is known of it."""

    job: Job | None
    """The newest job that is done, was asked exactly this, and was answered under the conditions of now; or the one
    that this tab has running. None: there is none."""
