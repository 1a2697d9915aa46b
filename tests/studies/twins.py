"""Twins of tiny models: the same function of every text, in another basis of the stream, or with layers exchanged."""

import torch
from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedModel

from backend.models import opening
from backend.models.loaded import Loaded
from backend.schema import Source
from tests import tiny

LAYERS = 4


def opened(model: PreTrainedModel, kind: str, name: str) -> Loaded:
    return opening.prepare(
        model, tiny.tokenizer_of(kind), name=name, source=Source(kind="folder", name=name), digest="0" * 64
    )


def plain(kind: str, seed: int = 0, **changes: int) -> PreTrainedModel:
    """Thrown weights; norms with gains that are not 1, but for the encoder, whose stream its norms make."""
    vocabulary, torch_state = len(tiny.tokenizer_of(kind)), torch.random.get_rng_state()
    if kind == "encoder":
        vocabulary = len(tiny.tokenizer_of("bert"))
        torch.manual_seed(seed)
        sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": LAYERS, "num_attention_heads": 4}
        model: PreTrainedModel = BertModel(BertConfig(vocab_size=vocabulary, initializer_range=0.2, **sizes | changes))
        return model.eval()
    named = "n_layer" if kind == "gpt2" else "num_hidden_layers"
    model = tiny.model_of(kind, vocabulary, **({named: LAYERS} | changes))
    dice = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight_name, weight in model.named_parameters():
            thrown = torch.randn(weight.shape, generator=dice)
            gain = weight_name.endswith(("norm.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight"))
            weight.copy_(0.5 + thrown.abs() if gain else 0.2 * thrown)
    torch.random.set_rng_state(torch_state)
    return model


def rotation(width: int, seed: int = 5) -> Tensor:
    """Orthogonal [D, D]; it keeps the vector of ones, so that a norm that takes the mean away is one in both bases."""
    dice = torch.Generator().manual_seed(seed)
    ones = torch.ones(width, 1, dtype=torch.float64)
    basis = torch.linalg.qr(torch.cat([ones, torch.randn(width, width - 1, generator=dice, dtype=torch.float64)], 1)).Q
    turn = torch.linalg.qr(torch.randn(width - 1, width - 1, generator=dice, dtype=torch.float64)).Q
    inside = torch.block_diag(torch.ones(1, 1, dtype=torch.float64), turn)
    return (basis @ inside @ basis.T).float()


def rotated(model: PreTrainedModel, kind: str) -> PreTrainedModel:
    """The same function in another basis, the gains of its norms folded into the matrices that follow."""
    made = type(model)(model.config.__class__(**model.config.to_dict() | {"tie_word_embeddings": False})).eval()
    made.load_state_dict(model.state_dict())
    basis = rotation(model.config.hidden_size)
    with torch.no_grad():
        {"llama": _llama, "gpt2": _gpt2, "encoder": _encoder}[kind](made, basis)
    return made


def _llama(model: PreTrainedModel, basis: Tensor) -> None:
    for block in model.model.layers:
        attention, feed = block.self_attn, block.mlp
        for read, norm in (
            (attention.q_proj, block.input_layernorm), (attention.k_proj, block.input_layernorm),
            (attention.v_proj, block.input_layernorm), (feed.gate_proj, block.post_attention_layernorm),
            (feed.up_proj, block.post_attention_layernorm),
        ):  # fmt: skip
            read.weight.copy_(read.weight * norm.weight @ basis)
        for write in (attention.o_proj, feed.down_proj):
            write.weight.copy_(basis.T @ write.weight)
        for norm in (block.input_layernorm, block.post_attention_layernorm):
            norm.weight.fill_(1)
    model.lm_head.weight.copy_(model.lm_head.weight * model.model.norm.weight @ basis)
    model.model.norm.weight.fill_(1)
    model.model.embed_tokens.weight.copy_(model.model.embed_tokens.weight @ basis)


def _gpt2(model: PreTrainedModel, basis: Tensor) -> None:
    trunk, final = model.transformer, model.transformer.ln_f
    model.lm_head.weight.copy_(trunk.wte.weight * final.weight @ basis)
    final.bias.copy_(final.bias / final.weight @ basis)
    final.weight.fill_(1)
    for block in trunk.h:
        for read, norm in ((block.attn.c_attn, block.ln_1), (block.mlp.c_fc, block.ln_2)):
            read.bias.add_(norm.bias @ read.weight)
            read.weight.copy_(basis.T @ (norm.weight[:, None] * read.weight))
            norm.weight.fill_(1), norm.bias.zero_()
        for write in (block.attn.c_proj, block.mlp.c_proj):
            write.weight.copy_(write.weight @ basis)
            write.bias.copy_(write.bias @ basis)
    for table in (trunk.wte, trunk.wpe):
        table.weight.copy_(table.weight @ basis)


def _encoder(model: PreTrainedModel, basis: Tensor) -> None:
    tables = model.embeddings
    for table in (tables.word_embeddings, tables.position_embeddings, tables.token_type_embeddings):
        table.weight.copy_(table.weight @ basis)
    for block in model.encoder.layer:
        inside = block.attention.self
        for read in (inside.query, inside.key, inside.value, block.intermediate.dense):
            read.weight.copy_(read.weight @ basis)
        for write in (block.attention.output.dense, block.output.dense):
            write.weight.copy_(basis.T @ write.weight)
            write.bias.copy_(write.bias @ basis)


def reordered(model: PreTrainedModel, order: list[int]) -> PreTrainedModel:
    """With its blocks in another order: block i is what block order[i] was."""
    made = type(model)(model.config).eval()
    made.load_state_dict(model.state_dict())
    blocks = next(part for part in made.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == LAYERS)
    kept = [{name: weight.clone() for name, weight in block.state_dict().items()} for block in blocks]
    for block, place in zip(blocks, order, strict=True):
        block.load_state_dict(kept[place])
    return made
