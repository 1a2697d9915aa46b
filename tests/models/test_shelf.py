"""Several models at once, within a budget; nobody loses the model they are using, and unloading returns the memory."""

import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

from backend import errors
from backend.models import memory
from backend.models.loaded import Kept, Loaded
from backend.models.shelf import FAILURES_KEPT, Shelf
from backend.schema import ModelCard
from tests import tiny

MB = 1_000_000


@dataclass
class Openings:
    """Stands for `open_folder`: counts, can be held up, and opens anything in no time."""

    names: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    fail: Exception | None = None
    extra_bytes: int = 0
    at_once: int = 0
    most_at_once: int = 0

    def __call__(self, folder: Path, *, name: str, revision: str, source: Any, digest: str, **given: Any) -> Loaded:
        self.names.append(name)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            while not self.gate.is_set():
                given["progress"](f"opening {name}", 1, 2, "files")
                time.sleep(0.005)
            if self.fail:
                raise self.fail
        finally:
            self.at_once -= 1
        size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        card = ModelCard(
            name=name, revision=revision, state="loaded", source=source, digest=digest, dtype=given["dtype"],
            memory_bytes=size + self.extra_bytes,
        )  # fmt: skip
        return SimpleNamespace(name=name, card=card, kept=Kept(0), model=torch.nn.Linear(2, 2))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("models")
    changes = {"a": 48, "b": 49, "c": 50}
    return {name: tiny.folder("llama", place / name, intermediate_size=size) for name, size in changes.items()}


@pytest.fixture
def openings() -> Openings:
    found = Openings()
    found.gate.set()
    return found


@pytest.fixture
def size(folders: dict[str, Path]) -> int:
    return max((folder / "model.safetensors").stat().st_size for folder in folders.values())


@pytest.fixture
def make(folders: dict[str, Path], openings: Openings, tmp_path: Path, size: int) -> Callable[..., Shelf]:
    def shelf(room_for: float = 10, **given: Any) -> Shelf:
        models = [str(folder) for folder in folders.values()]
        given = {"opener": openings, "models": models, "device": "cpu", **given}
        return Shelf(cache_dir=tmp_path / "cache", budget_bytes=int(room_for * size), **given)

    return shelf


def states(shelf: Shelf) -> dict[str, str]:
    return {Path(card.name).name: card.state for card in shelf.cards().models if card.source.kind == "folder"}


def test_a_shelf_knows_the_package_models_and_those_it_was_started_with(make: Callable[..., Shelf]) -> None:
    found = make().cards()
    assert [card.name for card in found.models if card.source.kind == "package"] == [
        "smollm2-135m-instruct", "all-minilm-l6-v2", "splade-bert-tiny", "glassllm-en", "glassllm-pt", "rampart",
        "paraphrase-minilm-l3",
    ]  # fmt: skip
    assert {card.state for card in found.models if card.source.kind == "package"} == {"known"}
    assert states(make()) == {"a": "cached", "b": "cached", "c": "cached"}
    assert found.default.endswith("a")
    assert make(models=()).cards().default == "smollm2-135m-instruct"


def test_a_model_is_loaded_once_and_given_at_once_thereafter(
    make: Callable[..., Shelf], folders: dict[str, Path], openings: Openings
) -> None:
    shelf = make()
    first = shelf.load(str(folders["a"]))
    assert shelf.load(str(folders["a"])) is first
    assert openings.names == [str(folders["a"])]
    assert states(shelf)["a"] == "loaded"
    assert shelf.cards().used_bytes == first.card.memory_bytes


def test_many_who_ask_at_once_share_one_load_and_its_progress(
    make: Callable[..., Shelf], folders: dict[str, Path], openings: Openings
) -> None:
    shelf, seen = make(), []
    openings.gate.clear()
    with ThreadPoolExecutor(8) as pool:
        asked = [
            pool.submit(shelf.load, str(folders["a"]), None, lambda *report: seen.append(report[0])) for _ in range(8)
        ]
        while len([what for what in seen if what.startswith("opening")]) < 30:
            time.sleep(0.01)
        assert states(shelf)["a"] == "loading"
        openings.gate.set()
        assert len({id(each.result()) for each in asked}) == 1
    assert len(openings.names) == 1


def test_a_waiting_caller_may_leave_without_stopping_the_load(
    make: Callable[..., Shelf], folders: dict[str, Path], openings: Openings
) -> None:
    shelf = make()
    openings.gate.clear()

    def leave(*report: object) -> None:
        raise errors.Cancelled("gone", "the tab was closed", "")

    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(shelf.load, str(folders["a"]))
        while not openings.names:
            time.sleep(0.005)
        with pytest.raises(errors.Cancelled):
            shelf.load(str(folders["a"]), progress=leave)
        openings.gate.set()
        loading.result()
    assert states(shelf)["a"] == "loaded"


def test_when_the_loader_is_cancelled_a_waiting_caller_takes_over(
    make: Callable[..., Shelf], folders: dict[str, Path], openings: Openings
) -> None:
    shelf, stop, waiting = make(), threading.Event(), threading.Event()
    openings.gate.clear()

    def until_stopped(*report: object) -> None:
        if stop.is_set():
            raise errors.Cancelled("stopped", "by the test", "")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(shelf.load, str(folders["a"]), None, until_stopped)
        while not openings.names:
            time.sleep(0.005)
        second = pool.submit(shelf.load, str(folders["a"]), None, lambda *report: waiting.set())
        waiting.wait(60)
        stop.set()
        with pytest.raises(errors.Cancelled):
            first.result()
        openings.gate.set()
        assert second.result().name == str(folders["a"])
    assert len(openings.names) == 2


def test_a_cancelled_load_leaves_no_trace(make: Callable[..., Shelf], folders: dict[str, Path]) -> None:
    shelf = make()

    def stop(*report: object) -> None:
        raise errors.Cancelled("stopped", "by the test", "")

    with pytest.raises(errors.Cancelled):
        shelf.load(str(folders["a"]), progress=stop)
    assert states(shelf)["a"] == "cached"
    assert shelf.cards().used_bytes == 0


def test_a_failed_load_is_on_the_card_with_its_reason_and_may_be_tried_again(
    make: Callable[..., Shelf], folders: dict[str, Path], openings: Openings
) -> None:
    shelf = make()
    openings.fail = errors.NoAttention("no heads", "there is no attention", "another model")
    with pytest.raises(errors.NoAttention):
        shelf.load(str(folders["a"]))
    card = shelf.card(str(folders["a"]))
    assert card.state == "failed"
    assert card.problem is not None
    assert card.problem.type == "no-attention"
    assert shelf.cards().used_bytes == 0
    openings.fail = None
    shelf.load(str(folders["a"]))
    assert states(shelf)["a"] == "loaded"


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (MemoryError(), errors.OutOfMemory),
        (torch.OutOfMemoryError("CUDA out of memory"), errors.OutOfMemory),
        (KeyError("a bug"), errors.ModelRefused),
    ],
)
def test_what_a_library_raises_becomes_an_error_of_ours(
    make: Callable[..., Shelf], folders: dict[str, Path], openings: Openings, raised: Exception, told: type[Exception]
) -> None:
    openings.fail = raised
    with pytest.raises(told):
        make().load(str(folders["a"]))


def test_the_least_recently_used_model_makes_room(make: Callable[..., Shelf], folders: dict[str, Path]) -> None:
    shelf = make(room_for=2.5)
    shelf.load(str(folders["a"]))
    shelf.load(str(folders["b"]))
    with shelf.lease(str(folders["a"])):
        pass
    shelf.load(str(folders["c"]))
    assert states(shelf) == {"a": "loaded", "b": "cached", "c": "loaded"}
    assert shelf.cards().used_bytes <= shelf.budget


def test_a_model_in_use_is_never_put_away(make: Callable[..., Shelf], folders: dict[str, Path]) -> None:
    shelf = make(room_for=2.5)
    for name in "ab":
        shelf.load(str(folders[name]))
    with shelf.lease(str(folders["a"])) as held, shelf.lease(str(folders["b"])):
        assert shelf.card(str(folders["a"])).in_use == 1
        with pytest.raises(errors.Busy) as busy:
            shelf.load(str(folders["c"]))
        assert (busy.value.needed or 0) > (busy.value.available or 0)
        with pytest.raises(errors.Busy):
            shelf.unload(str(folders["a"]))
        assert held.name == str(folders["a"])
    shelf.load(str(folders["c"]))
    assert states(shelf)["c"] == "loaded"


def test_an_idle_model_goes_before_one_in_use_however_long_ago_that_was_taken(
    make: Callable[..., Shelf], folders: dict[str, Path]
) -> None:
    shelf = make(room_for=2.5)
    shelf.load(str(folders["a"]))
    with shelf.lease(str(folders["a"])):
        shelf.load(str(folders["b"]))
        shelf.load(str(folders["c"]))
        assert states(shelf) == {"a": "loaded", "b": "cached", "c": "loaded"}


def test_a_model_that_could_never_fit_is_refused_with_both_numbers_before_it_is_opened(
    make: Callable[..., Shelf], folders: dict[str, Path], openings: Openings
) -> None:
    shelf = make(room_for=0.5)
    with pytest.raises(errors.OverBudget) as refused:
        shelf.load(str(folders["a"]))
    assert refused.value.available == shelf.budget
    assert (refused.value.needed or 0) > shelf.budget
    assert openings.names == []
    assert make(room_for=0.7, dtype="bfloat16").load(str(folders["a"]))


def test_a_package_model_over_the_budget_is_refused_before_it_is_downloaded(
    make: Callable[..., Shelf], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.models.sources.fetch", lambda *given: pytest.fail("it went on to download"))
    with pytest.raises(errors.OverBudget) as refused:
        make().load("smollm2-135m-instruct")
    assert refused.value.needed == 134_515_008 * 4


def test_a_model_that_measures_more_than_estimated_pushes_idle_ones_out(
    make: Callable[..., Shelf], folders: dict[str, Path], openings: Openings, size: int
) -> None:
    shelf = make(room_for=3.5)
    shelf.load(str(folders["a"]))
    openings.extra_bytes = 2 * size
    shelf.load(str(folders["b"]))
    assert states(shelf) == {"a": "cached", "b": "loaded", "c": "cached"}


def test_two_models_are_opened_one_after_the_other(
    make: Callable[..., Shelf], folders: dict[str, Path], openings: Openings
) -> None:
    shelf = make()
    openings.gate.clear()
    with ThreadPoolExecutor(3) as pool:
        loads = [pool.submit(shelf.load, str(folders[name])) for name in "abc"]
        time.sleep(0.3)
        openings.gate.set()
        for load in loads:
            load.result()
    assert openings.most_at_once == 1
    assert set(states(shelf).values()) == {"loaded"}


def test_asking_for_a_model_that_is_not_loaded_says_loading_and_for_an_unknown_one_unknown(
    make: Callable[..., Shelf], folders: dict[str, Path]
) -> None:
    shelf = make()
    with pytest.raises(errors.Loading), shelf.lease(str(folders["a"])):
        pass
    with pytest.raises(errors.UnknownModel), shelf.lease("no such model"):
        pass
    with pytest.raises(errors.UnknownModel):
        shelf.unload(str(folders["a"]))


def test_a_folder_at_its_own_digest_is_the_same_model_and_at_another_is_refused(
    make: Callable[..., Shelf], folders: dict[str, Path], openings: Openings
) -> None:
    shelf = make()
    loaded = shelf.load(str(folders["a"]))
    assert shelf.load(str(folders["a"]), loaded.card.digest[:12]) is loaded
    with shelf.lease(str(folders["a"]), loaded.card.digest[:12]) as leased:
        assert leased is loaded
    with pytest.raises(errors.UnknownModel, match="no longer holds"):
        shelf.load(str(folders["a"]), "0123456789ab")
    assert len(openings.names) == 1


def test_dtype_auto_is_float32_on_a_cpu_and_a_wrong_word_is_refused(make: Callable[..., Shelf]) -> None:
    assert make().dtype == "float32"
    with pytest.raises(ValueError, match="float99"):
        make(dtype="float99")


def test_without_a_setting_the_budget_is_half_of_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: there)
    assert Shelf(cache_dir=tmp_path, device="cpu").budget == there.available // 2


def test_threads_that_load_lease_and_unload_at_random_break_nothing(
    make: Callable[..., Shelf], folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "give_back", lambda: None)  # a full collection each time would take most of the test
    shelf, names = make(room_for=2.5), [str(folder) for folder in folders.values()]

    def work(seed: int) -> int:
        done = 0
        for step in range(60):
            name = names[(seed * 7 + step * 5) % 3]
            try:
                if (seed + step) % 5 == 0:
                    shelf.unload(name)
                shelf.load(name)
                with shelf.lease(name) as loaded:
                    assert loaded.name == name
                    assert shelf.cards().used_bytes <= shelf.budget
                    done += 1
            except (errors.NotNow, errors.UnknownModel):
                continue
        return done

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(work, range(6))) > 60
    found = shelf.cards()
    assert all(card.in_use == 0 for card in found.models)
    for card in found.models:
        if card.state == "loaded":
            shelf.unload(card.name)
    assert shelf.cards().used_bytes == 0


# with the real opening


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of 128 MB on disk, nearly all of it positions, which cost no time."""
    return tiny.folder("bert", tmp_path_factory.mktemp("large"), max_position_embeddings=1_000_000)


def test_a_model_opens_for_real_and_its_card_measures_what_was_estimated(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    name = str(folders["a"])
    shelf = Shelf(cache_dir=tmp_path, models=[name], device="cpu", budget_bytes=1000 * MB)
    loaded = shelf.load(name)
    card = shelf.card(name)
    assert card.state == "loaded"
    assert card.dtype == "float32"
    assert card.memory_bytes == pytest.approx(card.estimated_bytes, rel=0.01)
    assert card.digest == loaded.conditions.digest
    assert card.source.files.keys() == {"model.safetensors"}


UNLOADING = """
import sys, weakref
from pathlib import Path
import psutil
from backend.models.shelf import Shelf

name, cache = sys.argv[1:]
# in another dtype than the file's, so that the weights are not pages of the file
shelf = Shelf(cache_dir=Path(cache), models=[name], device="cpu", dtype="bfloat16", budget_bytes=10**9)
for _ in range(2):
    shelf.load(name)
    with shelf.lease(name) as loaded:
        tensors = [*loaded.model.parameters(), *loaded.model.buffers()]
        size = sum(tensor.nbytes for tensor in tensors if tensor.any())  # zeros may never have been written
        watched = [weakref.ref(each) for each in (loaded.model, *tensors)]
    del loaded, tensors
    before = psutil.Process().memory_info().rss
    shelf.unload(name)
    print(sum(each() is not None for each in watched), (before - psutil.Process().memory_info().rss) / size)
"""


def test_unloading_leaves_no_cycle_that_holds_a_tensor_and_returns_the_memory(large: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", UNLOADING, str(large), str(tmp_path)]  # alone: other threads take memory meanwhile
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    assert said[::2] == ["0", "0"], "tensors that something still holds"
    assert all(float(share) > 0.9 for share in said[1::2]), said


def test_a_file_that_is_rewritten_does_not_change_the_model_that_came_from_it(tmp_path: Path) -> None:
    folder = tiny.folder("bert", tmp_path / "bert")
    shelf = Shelf(cache_dir=tmp_path / "cache", models=[str(folder)], device="cpu", budget_bytes=1000 * MB)
    model = shelf.load(str(folder)).model
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    weights = folder / "model.safetensors"
    size = weights.stat().st_size
    with weights.open("r+b") as stream:
        stream.write(bytes(size))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_after_an_error_inside_a_lease_the_model_can_still_be_unloaded(large: Path, tmp_path: Path) -> None:
    shelf = Shelf(cache_dir=tmp_path, models=[str(large)], device="cpu", budget_bytes=1000 * MB)
    shelf.load(str(large))
    watched: list[weakref.ref[torch.nn.Module]] = []

    def fail() -> None:
        with shelf.lease(str(large)) as loaded:
            watched.append(weakref.ref(loaded.model))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        fail()
    del raised
    shelf.unload(str(large))
    assert watched[0]() is None


def test_a_refused_folder_is_never_handed_to_the_opening(tmp_path: Path, openings: Openings) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "config.json").write_text("{}")
    (tmp_path / "bad" / "pytorch_model.bin").write_bytes(b"\x80\x04")
    shelf = Shelf(cache_dir=tmp_path / "cache", models=[str(tmp_path / "bad")], device="cpu", opener=openings)
    assert shelf.cards().models[0].state == "failed"
    with pytest.raises(errors.ModelRefused):
        shelf.load(str(tmp_path / "bad"))
    assert openings.names == []


def test_a_device_that_is_not_there_is_said(make: Callable[..., Shelf]) -> None:
    with pytest.raises(errors.BadQuestion, match="cuda:63 is not there"):
        make(device="cuda:63")


def test_what_one_person_mistyped_is_on_nobodys_shelf(make: Callable[..., Shelf]) -> None:
    shelf = make()
    known = len(shelf.cards().models)
    for number in range(20):
        with pytest.raises(errors.UnknownModel):
            shelf.load("glassllm-en", f"no-{number}")
    assert len(shelf.cards().models) == known


def test_a_model_that_works_stands_before_its_failed_revision(
    make: Callable[..., Shelf], openings: Openings, folders: dict[str, Path]
) -> None:
    shelf, name = make(), str(folders["a"])
    digest = shelf.load(name).card.digest
    shelf.unload(name)
    openings.fail = ValueError("broken")
    with pytest.raises(errors.ModelRefused):
        shelf.load(name, digest[:12])
    openings.fail = None
    shelf.load(name)
    assert [card.state for card in shelf.cards().models if card.name == name] == ["loaded", "failed"]


def test_only_the_newest_failures_are_remembered(
    make: Callable[..., Shelf], openings: Openings, folders: dict[str, Path]
) -> None:
    shelf, name = make(), str(folders["a"])
    digest = shelf.load(name).card.digest
    shelf.unload(name)
    openings.fail = ValueError("broken")
    for digits in range(12, 12 + FAILURES_KEPT + 4):
        with pytest.raises(errors.ModelRefused):
            shelf.load(name, digest[:digits])
    assert [card.state for card in shelf.cards().models if card.name == name] == ["failed"] * FAILURES_KEPT


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(errors.CacheUnwritable, match="cannot be changed"):
        Shelf(cache_dir=tmp_path / "file", device="cpu", budget_bytes=10**9).load("glassllm-en")
