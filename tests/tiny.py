"""Tiny random models with real tokenizers, made in a moment, for every test that needs a model.

`loaded("llama" | "gpt2" | "bert")` gives an open model; `folder(kind, path)` saves it as a Hugging Face folder.
"""

import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from backend.models import opening
from backend.models.loaded import Loaded
from backend.schema import Source

torch.set_num_threads(1)  # a tiny model only waits for a second thread, above all when tests run side by side
KINDS = ("llama", "gpt2", "bert")
CONTEXT = 128
CORPUS = (
    "The quick brown fox jumps over the lazy dog. The cat sat on the mat, and the dog barked at the cat.",
    "Off with her head! said the Queen. When Mary and John went to the store, John gave a drink to Mary.",
    "Attention is a weighted mean; its entropy says how widely a head looks. Zwölf Boxkämpfer, año, 東京, naïve.",
)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def byte_level(special: list[str]) -> Tokenizer:
    """A byte-level BPE: every text has tokens, and an emoji is several."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def plain(text: str) -> str:
    """As an uncased model reads it: small letters without accents."""
    return "".join(sign for sign in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(sign))


def word_pieces() -> Tokenizer:
    """An uncased WordPiece tokenizer with segments, as BERT has."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = sorted({word for line in CORPUS for word in re.findall(r"\w+|[^\w\s]", plain(line))})
    letters = sorted({letter for word in words for letter in word})
    pieces = [*special, *letters, *(f"##{letter}" for letter in letters), *(word for word in words if len(word) > 1)]
    vocabulary = {piece: place for place, piece in enumerate(pieces)}  # not trained: the trainer's order is not fixed
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )  # fmt: skip
    return tokenizer


def tokenizer_of(kind: str) -> PreTrainedTokenizerFast:
    """Llama: adds `<s>` and has a chat template. GPT-2: adds nothing. BERT: `[CLS] A [SEP] B [SEP]`."""
    if kind == "bert":
        return PreTrainedTokenizerFast(
            tokenizer_object=word_pieces(), unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
            mask_token="[MASK]", model_max_length=CONTEXT,
            model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        )  # fmt: skip
    if kind == "gpt2":
        end = "<|endoftext|>"
        return PreTrainedTokenizerFast(
            tokenizer_object=byte_level([end]), bos_token=end, eos_token=end, model_max_length=CONTEXT
        )
    special = ["<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>"]
    backend = byte_level(special)
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", backend.token_to_id("<s>"))]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", model_max_length=CONTEXT,
        extra_special_tokens=special[2:],
    )  # fmt: skip
    tokenizer.chat_template = "{{ bos_token }}" + CHAT_TEMPLATE
    return tokenizer


def model_of(kind: str, vocabulary: int, **changes: Any) -> PreTrainedModel:
    """A random model: 3 layers; Llama has 4 query heads that share 2 key/value heads."""
    torch.manual_seed(7)
    if kind == "llama":
        sizes = {
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": CONTEXT, "initializer_range": 0.2,
            "bos_token_id": 0, "eos_token_id": 1,
        }  # fmt: skip
        return LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, **(sizes | changes))).eval()
    if kind == "gpt2":
        sizes = {
            "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": CONTEXT, "initializer_range": 0.2,
            "bos_token_id": 0, "eos_token_id": 0,
        }  # fmt: skip
        return GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, **(sizes | changes))).eval()
    sizes = {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
        "max_position_embeddings": CONTEXT, "initializer_range": 0.2, "pad_token_id": 0,
    }  # fmt: skip
    return BertForMaskedLM(BertConfig(vocab_size=vocabulary, **(sizes | changes))).eval()


def loaded(kind: str = "llama", name: str | None = None, kept_bytes: int = 64 * 1024 * 1024, **changes: Any) -> Loaded:
    """An open tiny model; `changes` go into its config."""
    tokenizer = tokenizer_of(kind)
    return opening.prepare(
        model_of(kind, len(tokenizer), **changes), tokenizer, name=name or f"tiny-{kind}",
        source=Source(kind="folder", name=f"tiny-{kind}"), digest="0" * 64, kept_bytes=kept_bytes,
    )  # fmt: skip


class Once(dict[str, Loaded]):
    """Models of a test file by kind, each made when a test first asks for it: no worker makes what others will use."""

    def __init__(self, make: Callable[[str], Loaded] = loaded) -> None:
        self.make = make

    def __missing__(self, kind: str) -> Loaded:
        self[kind] = self.make(kind)
        return self[kind]


def without_read_out() -> Loaded:
    """An open trunk of Llama that ends with its states."""
    tokenizer = tokenizer_of("llama")
    trunk = LlamaModel(model_of("llama", len(tokenizer)).config).eval()
    return opening.prepare(trunk, tokenizer, name="trunk", source=Source(kind="folder", name="trunk"))


def folder(kind: str, path: Path, **changes: Any) -> Path:
    """Save a tiny model as a Hugging Face folder with safetensors and its tokenizer."""
    tokenizer = tokenizer_of(kind)
    model_of(kind, len(tokenizer), **changes).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
