"""An ONNX export becomes a folder with the numbers that its own operators work with, written out by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

from backend.models.convert import conversion, onnx
from backend.models.progress import silent

WIDTH, UNITS, WORDS, PLACES = 64, 96, 11, 9
BLOCK = 32


def tensor(graph, name, array):
    made = graph.initializer.add(name=name, data_type=1 if array.dtype == np.float32 else 2, dims=array.shape)
    if array.shape:
        made.raw_data = array.tobytes()
    else:  # exporters write single numbers apart
        (made.float_data if array.dtype == np.float32 else made.int32_data).append(array.item())


def export(path: Path, quantised: bool) -> dict[str, np.ndarray]:
    """A file of one BERT layer, and what each parameter is, number by number."""
    model, dice, expected = onnx._message("Model")(), np.random.default_rng(3), {}
    graph, layer = model.graph, "encoder.layer.0"
    sizes = {"attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH)}
    sizes |= {"attention.self.value": (WIDTH, WIDTH), "attention.output.dense": (WIDTH, WIDTH)}
    sizes |= {"intermediate.dense": (UNITS, WIDTH), "output.dense": (WIDTH, UNITS)}
    for place, (part, (out, into)) in enumerate(sizes.items()):
        node = graph.node.add(name=f"/model/model.0/auto_model/encoder/layer.0/{part.replace('.', '/')}/MatMul")
        if quantised:
            packed = dice.integers(0, 256, (out, into // BLOCK, BLOCK // 2), dtype=np.uint8)
            scales = dice.normal(size=(out, into // BLOCK)).astype(np.float32)
            weight = np.zeros((out, into), np.float32)
            for row in range(out):
                for column in range(into):
                    byte = int(packed[row, column // BLOCK, column % BLOCK // 2])
                    number = byte >> 4 if column % 2 else byte & 15
                    weight[row, column] = np.float32(number - 8) * scales[row, column // BLOCK]
            node.name, node.op_type = node.name + "_Q4", "MatMulNBits"
            named = {f"onnx::MatMul_{place}_Q4": packed, f"onnx::MatMul_{place}_scales": scales}
        else:
            weight = dice.normal(size=(out, into)).astype(np.float32)
            node.op_type, named = "MatMul", {f"onnx::MatMul_{place}": np.ascontiguousarray(weight.T)}
        node.input.extend(["what/comes/in", *named])
        for name, array in named.items():
            tensor(graph, name, array)
        expected[f"{layer}.{part}.weight"] = weight
        expected[f"{layer}.{part}.bias"] = dice.normal(size=out).astype(np.float32)
    graph.node.add(name="/model/model.0/auto_model/encoder/layer.0/attention/self/MatMul", op_type="MatMul")
    for norm in ("embeddings.LayerNorm", f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"):
        expected |= {f"{norm}.{part}": dice.normal(size=WIDTH).astype(np.float32) for part in ("weight", "bias")}
    named = {name: array for name, array in expected.items() if array.ndim == 1}
    for kind, count in (("word", WORDS), ("position", PLACES), ("token_type", 2)):
        name = f"embeddings.{kind}_embeddings.weight"
        if quantised:
            numbers = dice.integers(0, 256, (count, WIDTH), dtype=np.uint8)
            named |= {f"{name}_quantized": numbers, f"{name}_zero_point": np.array(87, np.uint8)}
            named[f"{name}_scale"] = np.array(0.25, np.float32)
            expected[name] = (numbers.astype(np.float32) - 87) * np.float32(0.25)
        else:
            expected[name] = named[name] = dice.normal(size=(count, WIDTH)).astype(np.float32)
    for name, array in named.items():
        tensor(graph, f"model.0.auto_model.{name}", array)
    path.write_bytes(model.SerializeToString())
    return expected


@pytest.mark.parametrize("quantised", [False, True])
def test_every_parameter_is_what_the_operators_of_the_file_make_of_it(tmp_path: Path, quantised: bool) -> None:
    expected = export(tmp_path / "a.onnx", quantised)
    (tmp_path / "model").mkdir()
    conversion("onnx_bert")({"a.onnx": tmp_path / "a.onnx"}, tmp_path / "model", silent)
    model, report = AutoModel.from_pretrained(tmp_path / "model", output_loading_info=True, add_pooling_layer=False)
    assert not any(report.values())
    state = model.state_dict()
    assert set(expected) == {name for name in state if "ids" not in name}
    for name, array in expected.items():
        assert torch.equal(state[name], torch.from_numpy(array)), name
    assert model.config.num_attention_heads == WIDTH // 32


def test_an_array_of_a_type_that_was_never_seen_is_no_guess(tmp_path: Path) -> None:
    model = onnx._message("Model")()
    model.graph.initializer.add(name="half", data_type=10, dims=[2], raw_data=b"\0\0\0\0")
    (tmp_path / "a.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(KeyError):
        onnx.Onnx(tmp_path / "a.onnx")
