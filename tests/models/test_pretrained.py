"""The package models in models_cache are the models they say they are."""

from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from backend.models.cache import ModelsCache
from backend.models.catalogue import CATALOGUE
from backend.models.digest import file_digest

pytestmark = pytest.mark.pretrained
CACHE = ModelsCache(Path(__file__).parents[2] / "models_cache")


def folder(name: str) -> Path:
    found = CACHE.folder(CATALOGUE[name].folder_name)
    assert found is not None, f"{name} is not in models_cache: run `make setup`, or `lmscope models fetch {name}`"
    return found


def loss(name: str, text: str) -> float:
    """Mean surprisal of a text in nats."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder(name)), causal(name)
    ids = tokenizer(text, return_tensors="pt").input_ids
    with torch.inference_mode():
        return float(model(ids, labels=ids).loss)


def causal(name: str) -> AutoModelForCausalLM:
    return AutoModelForCausalLM.from_pretrained(folder(name), dtype=torch.float32)


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_weights_have_the_digest_of_the_catalogue_and_fit_their_model_exactly(name: str) -> None:
    place, model = folder(name), CATALOGUE[name]
    assert file_digest(place / "model.safetensors") == model.digest
    kinds = {
        "LlamaForCausalLM": AutoModelForCausalLM, "BertModel": AutoModel, "BertForMaskedLM": AutoModelForMaskedLM,
        "BertForTokenClassification": AutoModelForTokenClassification,
    }  # fmt: skip
    without = {"add_pooling_layer": False} if name == "paraphrase-minilm-l3" else {}
    opened, report = kinds[model.architecture].from_pretrained(place, output_loading_info=True, **without)
    assert not any(report.values())
    assert sum(parameter.numel() for parameter in opened.parameters()) == model.parameters


def test_smollm2_knows_the_capital_of_france_and_writes_digits_one_by_one() -> None:
    tokenizer, model = AutoTokenizer.from_pretrained(folder("smollm2-135m-instruct")), causal("smollm2-135m-instruct")
    with torch.inference_mode():
        logits = model(**tokenizer("The capital of France is", return_tensors="pt")).logits
    assert tokenizer.decode(logits[0, -1].argmax()) == " Paris"
    assert tokenizer.tokenize("1984") == ["1", "9", "8", "4"]


def test_smollm2_has_its_chat_template() -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder("smollm2-135m-instruct"))
    said = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert said.startswith("<|im_start|>system\n")
    assert said.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize(
    ("name", "text", "shuffled"),
    [
        ("glassllm-en", "Alice was beginning to get very tired of sitting by her sister on the bank",
         "sister on bank to tired very the get sitting of was her by Alice beginning"),
        ("glassllm-pt", "Algum tempo hesitei se devia abrir estas memórias pelo princípio ou pelo fim",
         "fim ou se pelo memórias abrir hesitei tempo devia pelo estas Algum princípio"),
    ],
)  # fmt: skip
def test_glassllm_prefers_its_own_book_to_the_same_words_shuffled(name: str, text: str, shuffled: str) -> None:
    assert loss(name, text) < loss(name, shuffled) - 1


@pytest.mark.parametrize("name", ["all-minilm-l6-v2", "splade-bert-tiny", "rampart", "paraphrase-minilm-l3"])
def test_no_encoder_clips_a_long_text_by_itself(name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder(name))
    assert len(tokenizer.backend_tokenizer.encode("word " * 600).ids) == 602


def test_rampart_gives_the_labels_and_logits_of_its_own_onnx_file() -> None:
    """Recorded from onnxruntime 1.32.0 on the file of the package."""
    tokenizer = AutoTokenizer.from_pretrained(folder("rampart"))
    model = AutoModelForTokenClassification.from_pretrained(folder("rampart"))
    text = "Maria Gonzalez lives at 42 Baker Street, Chicago; write to maria@example.com."
    with torch.inference_mode():
        logits = model(**tokenizer(text, return_tensors="pt")).logits[0]
    names = [model.config.id2label[label] for label in logits.argmax(-1).tolist()]
    assert names[1:10] == [
        "B-GIVEN_NAME", "B-SURNAME", "O", "O", "B-BUILDING_NUMBER", "B-STREET_NAME", "I-STREET_NAME", "O", "B-CITY",
    ]  # fmt: skip
    recorded = [[3.2398, -1.37, -0.2537], [6.8016, 9.1993, 0.8223], [6.2767, 1.8566, 2.4379]]
    torch.testing.assert_close(logits[:3, :3], torch.tensor(recorded), rtol=0, atol=2e-4)


def test_paraphrase_minilm_gives_the_states_of_its_own_onnx_file() -> None:
    """Recorded from onnxruntime 1.32.0 on the file of the package."""
    tokenizer = AutoTokenizer.from_pretrained(folder("paraphrase-minilm-l3"))
    model = AutoModel.from_pretrained(folder("paraphrase-minilm-l3"), add_pooling_layer=False)
    with torch.inference_mode():
        states = model(**tokenizer("A man is playing a guitar on the stage.", return_tensors="pt")).last_hidden_state[0]
    recorded = [
        [-0.3625, 0.4287, -0.4352, 0.4803],
        [-0.3855, 0.073, 0.1103, 0.2543],
        [-0.9721, 0.0042, 0.1387, -0.0223],
    ]
    torch.testing.assert_close(states[:3, :4], torch.tensor(recorded), rtol=0, atol=2e-4)


def test_the_tokenizer_of_paraphrase_minilm_is_that_of_all_minilm() -> None:
    """Its own package brings none; both were made from the uncased vocabulary of BERT."""
    one, other = (AutoTokenizer.from_pretrained(folder(name)) for name in ("paraphrase-minilm-l3", "all-minilm-l6-v2"))
    assert one.get_vocab() == other.get_vocab()
    text = "Déjà vu: the quick brown fox, 1984 — don't! 東京"
    assert one(text).input_ids == other(text).input_ids
