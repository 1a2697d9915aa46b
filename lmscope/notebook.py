"""The notebook's face: ask from a notebook or a script, and get numpy arrays and figures."""

from typing import Any

from backend.schema import Explain, View
from lmscope.answers import AttentionInNumpy, HeadInNumpy, HeadsInNumpy, TokensInNumpy, numbers
from lmscope.blocking import Desk
from lmscope.client import AsyncClient, Refused
from lmscope.client.trace import EXPLAIN
from lmscope.compared import AlignmentInNumpy, ChangesInNumpy, StitchingInNumpy
from lmscope.explained import CellInNumpy, ContributionsInNumpy
from lmscope.steered import EvidenceInNumpy, InsideInNumpy, SteerInNumpy
from lmscope.studied import EffectsInNumpy, PatchInNumpy, PatchMapInNumpy
from lmscope.surveyed import (
    ActiveInNumpy,
    HeadSummariesInNumpy,
    HeadTablesInNumpy,
    KeepInNumpy,
    SimilarityInNumpy,
)
from lmscope.swept import SweepInNumpy
from lmscope.traced import TraceInNumpy
from lmscope.valued import FiresInNumpy, LookupInNumpy, SearchInNumpy, ValueInNumpy
from lmscope.waiting import patient
from lmscope.weighed import (
    ConceptInNumpy,
    HeadWeightsInNumpy,
    LineInNumpy,
    OverlapsInNumpy,
    PairsInNumpy,
    SubheadsInNumpy,
)

__all__ = [
    "ActiveInNumpy",
    "AlignmentInNumpy",
    "AttentionInNumpy",
    "CellInNumpy",
    "ChangesInNumpy",
    "Client",
    "ConceptInNumpy",
    "ContributionsInNumpy",
    "EffectsInNumpy",
    "EvidenceInNumpy",
    "FiresInNumpy",
    "HeadInNumpy",
    "HeadSummariesInNumpy",
    "HeadTablesInNumpy",
    "HeadWeightsInNumpy",
    "HeadsInNumpy",
    "InsideInNumpy",
    "KeepInNumpy",
    "LineInNumpy",
    "LookupInNumpy",
    "OverlapsInNumpy",
    "PairsInNumpy",
    "PatchInNumpy",
    "PatchMapInNumpy",
    "Refused",
    "SearchInNumpy",
    "SimilarityInNumpy",
    "SteerInNumpy",
    "StitchingInNumpy",
    "SubheadsInNumpy",
    "SweepInNumpy",
    "TokensInNumpy",
    "TraceInNumpy",
    "ValueInNumpy",
    "View",
    "numbers",
]  # fmt: skip


class Client(Desk):
    """Ask a server from a notebook or a script; answers come as numpy arrays."""

    tokens = patient(AsyncClient.tokens, TokensInNumpy)
    attention = patient(AsyncClient.attention, AttentionInNumpy)
    head = patient(AsyncClient.head, HeadInNumpy)
    heads = patient(AsyncClient.heads, HeadsInNumpy)

    trace = patient(AsyncClient.trace, TraceInNumpy)
    cell = patient(AsyncClient.cell, CellInNumpy)
    contributions = patient(AsyncClient.contributions, ContributionsInNumpy)
    patch = patient(AsyncClient.patch, PatchInNumpy)
    patch_map = patient(AsyncClient.patch_map, PatchMapInNumpy)

    value = patient(AsyncClient.value, ValueInNumpy)
    fires = patient(AsyncClient.fires, FiresInNumpy)
    search = patient(AsyncClient.search, SearchInNumpy)
    lookup = patient(AsyncClient.lookup, LookupInNumpy)

    steer = patient(AsyncClient.steer, SteerInNumpy)
    steer_evidence = patient(AsyncClient.steer_evidence, EvidenceInNumpy)
    steer_inside = patient(AsyncClient.steer_inside, InsideInNumpy)
    sweep = patient(AsyncClient.sweep, SweepInNumpy)

    pairs = patient(AsyncClient.pairs, PairsInNumpy)
    line = patient(AsyncClient.line, LineInNumpy)
    subheads = patient(AsyncClient.subheads, SubheadsInNumpy)
    head_weights = patient(AsyncClient.head_weights, HeadWeightsInNumpy)
    overlaps = patient(AsyncClient.overlaps, OverlapsInNumpy)
    concept = patient(AsyncClient.concept, ConceptInNumpy)

    head_tables = patient(AsyncClient.head_tables, HeadTablesInNumpy)
    head_summaries = patient(AsyncClient.head_summaries, HeadSummariesInNumpy)
    kept_words = patient(AsyncClient.kept_words, KeepInNumpy)
    active_words = patient(AsyncClient.active_words, ActiveInNumpy)
    similarity = patient(AsyncClient.similarity, SimilarityInNumpy)

    changes = patient(AsyncClient.changes, ChangesInNumpy)
    alignment = patient(AsyncClient.alignment, AlignmentInNumpy)
    stitching = patient(AsyncClient.stitching, StitchingInNumpy)

    def effects(self, view: View, explain: Explain = EXPLAIN, **options: Any) -> EffectsInNumpy:
        """What the prediction does when parts are removed, one at a time; waits for the job.

        Options: `parts` ("heads", "attention", "feed_forward" or "units"), `heads`, `units`, `removal` ("zero" or
        "mean"), `set` (the id of a prompt set) and `progress`, which sees the job.
        """
        return EffectsInNumpy(
            self._ask(lambda: view, lambda: self._client.effects(view, explain, **options)),
            options.get("parts", "heads"),
        )
