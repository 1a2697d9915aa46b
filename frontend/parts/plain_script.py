"""The pieces of the script that needs no LMScope: plain torch and transformers, to be read by a person."""

PROJECTION = """
HEADS = model.config.get_text_config().num_attention_heads
blocks = next(
    part for part in model.modules()
    if isinstance(part, torch.nn.ModuleList) and len(part) == model.config.get_text_config().num_hidden_layers
)


def projection(layer):
    # the map that merges the heads (W_O): o_proj in Llama, c_proj in GPT-2, output.dense in BERT
    names = ("o_proj", "c_proj", "out_proj", "dense", "wo", "out_lin")
    found = [
        part for name, part in blocks[layer].named_modules()
        if ("attn" in name or "attention" in name) and name.split(".")[-1] in names
    ]
    assert len(found) == 1, f"block {layer} has {len(found)} candidates: name the right one here"
    return found[0]
"""

EDIT = """
def edit(layer, head, scale, shift, at):
    # change one head's output, before the heads are merged, at some tokens
    def before(module, inputs):
        apart = inputs[0].unflatten(-1, (HEADS, -1)).clone()  # [1, T, heads, width]
        apart[:, at, head] = apart[:, at, head] * scale + shift
        return (apart.flatten(-2), *inputs[1:])

    projection(layer).register_forward_pre_hook(before)
""".strip("\n")

EDIT_WEIGHTED = (
    "gains = {}  # of each edited head [T]: what is left of its output at each query\n\n\n"
    + EDIT
    + "\n    gains.setdefault((layer, head), torch.ones(T))[at] *= scale"
)

WRITE = """
def write(layer):
    # the map that writes the feed-forward units into the stream: down_proj in Llama, c_proj in GPT-2
    names = ("down_proj", "c_proj", "fc2", "dense_4h_to_h", "fc_out", "w2", "wo", "lin2", "dense")
    found = [
        part for name, part in blocks[layer].named_modules()
        if "attn" not in name and "attention" not in name and name != "intermediate.dense"
        and name.split(".")[-1] in names
    ]
    assert len(found) == 1, f"block {layer} has {len(found)} candidates: name the right one here"
    return found[0]
""".strip("\n")

EDIT_UNIT = """
def edit_unit(layer, unit, scale, shift, at):
    # change the coefficient of one feed-forward unit at some tokens
    def before(module, inputs):
        changed = inputs[0].clone()  # [1, T, units]
        changed[..., at, unit] = changed[..., at, unit] * scale + shift
        return (changed, *inputs[1:])

    write(layer).register_forward_pre_hook(before)
""".strip("\n")

SET_WRITTEN = """
def set_written(layer, to, at):
    # replace what the feed-forward part of a block writes at some tokens
    def after(module, inputs, output):
        changed = output.clone()  # [1, T, model]
        changed[..., at, :] = to
        return changed

    write(layer).register_forward_hook(after)
""".strip("\n")

SET_STREAM = """
def set_stream(layer, to, at):
    # replace what a block leaves in the residual stream at some tokens
    def after(module, inputs, output):
        changed = (output[0] if isinstance(output, tuple) else output).clone()  # [1, T, model]
        changed[:, at] = to
        return (changed, *output[1:]) if isinstance(output, tuple) else changed

    blocks[layer].register_forward_hook(after)
""".strip("\n")

NO_SCRIPT = """
# {what} uses vectors that this server stores:
{which}
# Plain transformers does not have them, so there is no script. The lines for LMScope's client give these numbers.
"""

VALUES = """
def output_matrix(layer):
    # W_O as [heads, width, model]; GPT-2 stores it as (in, out), the others as (out, in)
    weight = projection(layer).weight.float().cpu()
    weight = weight if type(projection(layer)).__name__ == "Conv1D" else weight.T
    return weight.unflatten(0, (HEADS, -1))


values = {}  # of each block [tokens, key/value heads, width], as its value map makes them


def keep(layer):
    def after(module, inputs, output):
        made = output[0].float().cpu()
        if module in fused:  # GPT-2 makes queries, keys and values at once
            made = made.chunk(3, -1)[2]
        values[layer] = made.unflatten(-1, (-1, output_matrix(layer).shape[1]))

    return after


fused = {part for name, part in model.named_modules() if name.endswith(".c_attn")}
for layer, block in enumerate(blocks):
    found = [part for name, part in block.named_modules() if name.split(".")[-1] in ("v_proj", "value", "c_attn")]
    assert len(found) == 1, f"block {layer} has {len(found)} value maps: name the right one here"
    found[0].register_forward_hook(keep(layer))


def norms(layer):
    # of each head and key the length of v W_O: how much a weight really moves  [heads, 1, keys]
    v = values[layer].repeat_interleave(HEADS // values[layer].shape[1], 1)  # [keys, heads, width]
    return torch.einsum("khd,hdm->hkm", v, output_matrix(layer)).norm(dim=-1)[:, None]
"""

WITHOUT_FIRST = """
def read(p):
    # hide key 0, and let what is left of each row sum to one again
    p = p.clone()
    p[:, :, 0] = 0
    mass = p.sum(-1, keepdim=True)
    return p / mass.where(mass > 0, 1.0)
"""

ENTROPY = """
def entropy(p):
    mass = p.sum(-1, keepdim=True)  # below 1 where a model has a learned sink
    p = p / mass.where(mass > 0, 1.0)
    return -(p * p.clamp_min(1e-30).log()).sum(-1)  # nats; a weight of 0 adds nothing
""".strip("\n")

CLARK_ENTROPY = """
def entropy(p):
    smooth = 0.9999 * p + 0.0001 / T  # Clark et al. 2019
    return -(smooth * smooth.log()).sum(-1)  # nats
""".strip("\n")

MEAN = """
    seen = counts.expand(values.shape) & (n > 0) & (p.sum(-1) > 0)
    return torch.where(seen, values.double(), 0.0).sum(-1) / seen.sum(-1)  # nan where no row counts
""".strip("\n")

CLARK_MEAN = """
    return values.double().mean(-1) if counts.any() else torch.full((len(p),), torch.nan)
""".strip("\n")
CLARK_KNOWS = ("entropy", "previous", "next", "self", "first", "separators", "punctuation", "sink")


def _diagonal(queries: str, keys: str) -> str:
    return (
        f"    queries, keys = {queries}, {keys}\n"
        "    values, counts = torch.zeros(p.shape[:2]), torch.zeros(T, dtype=torch.bool)\n"
        "    values[:, queries] = p[:, queries, keys]\n"
        "    counts[queries] = visible[queries, keys] & rows[queries]"
    )


STATISTICS = {
    "entropy": "    values, counts = entropy(p), rows",
    "normalised": "    values, counts = entropy(p) / n.log(), rows & (n >= 2)",
    "effective": "    values, counts = entropy(p).double().exp(), rows",
    "previous": _diagonal("torch.arange(1, T)", "torch.arange(T - 1)"),
    "self": _diagonal("torch.arange(T)", "torch.arange(T)"),
    "next": _diagonal("torch.arange(T - 1)", "torch.arange(1, T)"),
    "first": "    values, counts = p[:, :, 0], rows & visible[:, 0]",
    "separators": "    values, counts = p[:, :, keys].sum(-1), rows & visible[:, keys].any(-1)",
    "punctuation": "    values, counts = p[:, :, keys].sum(-1), rows & visible[:, keys].any(-1)",
    "distance": (
        "    places = torch.arange(T)\n    values, counts = (p * (places[:, None] - places).abs()).sum(-1), rows\n"
        "    values = values / p.sum(-1)  # below 1 where a model has a learned sink"
    ),
    "sink": "    values, counts = 1 - p.sum(-1), rows",
}

ALL_HEADS = """
for layer, (p, seen) in enumerate(zip(maps, visible)):
    print(f"STATISTIC of layer {layer}:", *(f"{value:.7f}" for value in statistic(p, seen)))
"""
