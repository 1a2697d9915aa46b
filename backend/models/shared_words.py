"""The words of a vocabulary as bytes, and the output embeddings of those that two models share.

Axes: N shared words, D width of what the output embedding takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from backend.models.loaded import Loaded
from backend.models.spelling import Spelling

ROWS = 4_096


def spelled(loaded: Loaded) -> dict[bytes, int]:
    """Id of every token by the bytes of text that it stands for; special tokens and those spelled like another are
    left out, for a string does not say which is meant."""
    spelling = Spelling.of(loaded.tokenizer)
    known = {
        id: spelling.bytes_of(id, name)
        for name, id in loaded.tokenizer.get_vocab().items()
        if id not in spelling.special and id != spelling.unknown and id < loaded.anatomy.shape.vocabulary
    }
    often = Counter(known.values())
    return {word: id for id, word in known.items() if word and often[word] == 1}


def strings(loaded: Loaded) -> tuple[tuple[object, ...], dict[str, int]]:
    """How the tokenizer spells its tokens, and the id of every token by its name.

    Two tokenizers that spell alike mean the same by the same name, special tokens and pieces of words included.
    """
    spelling = Spelling.of(loaded.tokenizer)
    rules = (spelling.byte_level, spelling.space, spelling.continuing, spelling.ending, spelling.byte_letters)
    size = loaded.anatomy.shape.vocabulary
    return rules, {name: id for name, id in loaded.tokenizer.get_vocab().items() if id < size}


def embeddings_of(loaded: Loaded, ids: Sequence[int]) -> Tensor:
    """float32 [N, D] on the CPU: the output embeddings of some tokens."""
    assert loaded.anatomy.unembedding is not None, "a steer is moved between models that predict"
    weight_VD = loaded.anatomy.unembedding.get_parameter("weight")
    blocks = torch.tensor(ids).split(ROWS)
    return torch.cat([weight_VD[block.to(weight_VD.device)].detach().float().cpu() for block in blocks])
