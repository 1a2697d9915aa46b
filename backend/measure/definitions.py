"""The words of every statistic, as they stand on the panel: one table for names, units and definitions."""

from dataclasses import dataclass

from backend.schema.view import Reading


@dataclass(frozen=True, slots=True)
class Words:
    """What a statistic is called and means."""

    label: str
    unit: str
    definition: str
    clark: str = "Clark et al. do not define it."


STATISTICS = {
    "entropy": Words(
        "Entropy", "nats",
        "Mean over rows of H_i = −Σ p ln p; uniform attention over the n_i keys a row may see has ln n_i.",
        "Mean over all T rows of −Σ a′ ln a′ with a′ = 0.9999·a + 0.0001/T; uniform attention over the "
        "n_i keys a row may see is smoothed alike.",
    ),
    "normalised": Words(
        "Normalised entropy", "ratio",
        "Mean of H_i / ln n_i over rows that may see at least two keys; 1 is uniform, 0 is one key.",
    ),
    "effective": Words(
        "Effective tokens", "tokens",
        "Mean of exp H_i: how many equally weighted keys would have this entropy; uniform attention has n_i.",
    ),
    "previous": Words(
        "Previous token", "share",
        "Mean weight on the token just before, over rows that may see it.",
        "Σ a(i, i−1) over all rows, divided by T.",
    ),
    "next": Words(
        "Next token", "share",
        "Mean weight on the token just after, over rows that may see it; n/a in a causal model.",
        "Σ a(i, i+1) over all rows, divided by T; n/a in a causal model.",
    ),
    "self": Words(
        "Own token", "share",
        "Mean weight of each row on its own token.",
        "Σ a(i, i) over all rows, divided by T.",
    ),
    "first": Words(
        "First token", "share",
        "Mean weight on token 0, over rows that may see it; n/a without the first token.",
        "Σ a(i, 0) over all rows, divided by T; token 0 is [CLS] where a model has one.",
    ),
    "separators": Words(
        "Separators", "share",
        "Mean total weight on separator tokens (such as [SEP] or an end-of-turn mark), over rows that may see one.",
        "Total weight on separator tokens over all rows, divided by T.",
    ),
    "punctuation": Words(
        "Punctuation", "share",
        "Mean total weight on tokens that are only punctuation, over rows that may see one.",
        "Total weight on full stops and commas over all rows, divided by T.",
    ),
    "distance": Words(
        "Mean distance", "tokens",
        "Mean over rows of Σ p·|i − j|: how many tokens away a head looks on average.",
    ),
    "induction": Words(
        "Induction", "share",
        "Mean weight on the token after the first occurrence of the own token, in the second copy of repeated random "
        "tokens; measured once on the unedited model, n/a for models that read both ways.",
    ),
    "sink": Words(
        "Learned sink", "share",
        "Mean share of each row that goes to the model's learned sink instead of a token.",
        "Share of all rows that goes to the model's learned sink, divided by T.",
    ),
}  # fmt: skip
"""In the order of every answer."""


def definition(name: str, reading: Reading) -> str:
    """The sentence for the panel, with the choices that changed the numbers."""
    words = STATISTICS[name]
    if name == "induction":
        return words.definition
    if reading.definitions == "clark":
        return words.clark
    without = " Key 0 is left out and each row divided by what remains (n_i − 1 keys)." if reading.without_first else ""
    return words.definition + without
