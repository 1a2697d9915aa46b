"""Every setting of the server: one frozen class, read from `LMSCOPE_*` in the environment."""

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from backend.schema import Limits

PREFIX = "LMSCOPE_"
KEY_CHARACTERS = 16
"""A key shorter than this is refused."""
Names = Annotated[tuple[str, ...], NoDecode]


class Settings(Limits, BaseSettings):
    """What a person may set; the limits of the contract are settings one by one."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )

    host: str = Field(default="127.0.0.1", description="address to listen on; anything but loopback needs a key")
    port: int = Field(default=8050, ge=1, le=65535, description="port to listen on")
    models: Names = Field(
        default=("smollm2-135m-instruct",),
        min_length=1,
        description="models loaded at the start, separated by commas; the first is the default",
    )
    device: str = Field(
        default="auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$", description="`auto`, `cpu`, `cuda`, `cuda:1`"
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto",
        description="`auto` (float32 on a CPU, bfloat16 on a GPU), `float32`, `bfloat16` or `float16`",
    )
    cache_dir: Path = Field(default=Path("models_cache"), description="folder for weights")
    memory_bytes: int | None = Field(
        default=None, ge=1, description="bytes that loaded models may use; none: half of what is free at the start"
    )
    allow: Annotated[tuple[Literal["package", "hub", "folder"], ...], NoDecode] = Field(
        default=("package", "hub"),
        description="kinds of models that may be opened beside `LMSCOPE_MODELS`: `package`, `hub`, `folder`",
    )
    hub_token: SecretStr | None = Field(default=None, description="token for gated models of the hub")
    key: SecretStr | None = Field(
        default=None, description=f"the key that whoever connects must give ({KEY_CHARACTERS} characters or more)"
    )
    database_url: SecretStr | None = Field(
        default=None,
        description="address of the database, a SQLite or PostgreSQL; none: the file `lmscope.db` in the cache folder",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least level that is logged: `debug`, `info`, `warning`, `error`"
    )
    log_form: Literal["console", "json"] = Field(
        default="console", description="`console` for people, `json` for machines"
    )

    @field_validator("models", "allow", mode="before")
    @classmethod
    def _separated(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("key", "hub_token", "database_url", mode="after")
    @classmethod
    def _empty_is_none(cls, value: SecretStr | None) -> SecretStr | None:
        return value if value is not None and value.get_secret_value() else None

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if self.key is None and not self.loopback:
            raise ValueError(
                f"{PREFIX}HOST={self.host} lets other machines connect, and there is no key. "
                f"Set {PREFIX}KEY to a secret of {KEY_CHARACTERS} characters or more, or listen on 127.0.0.1"
            )
        if self.key is not None and len(self.key.get_secret_value()) < KEY_CHARACTERS:
            raise ValueError(f"{PREFIX}KEY is too short to be safe: give it {KEY_CHARACTERS} characters or more")
        return self

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def limits(self) -> Limits:
        """The numbers beyond which a question is refused."""
        return Limits(**{name: getattr(self, name) for name in Limits.model_fields})


def settings_table() -> str:
    """The settings as the README prints them: a markdown table."""
    rows = [f"| `{PREFIX}{name.upper()}` | {_printed(field.default)} | {field.description} |" for name, field in _all()]
    return "\n".join(["| setting | default | what it sets |", "| --- | --- | --- |", *rows]) + "\n"


def _all() -> list[tuple[str, Any]]:
    own = [item for item in Settings.model_fields.items() if item[0] not in Limits.model_fields]
    return own + [item for item in Settings.model_fields.items() if item[0] in Limits.model_fields]


def _printed(default: Any) -> str:
    if default is None:
        return "none"
    if isinstance(default, tuple):
        return f"`{','.join(default)}`"
    return f"{default:,}" if isinstance(default, int) and default >= 10_000 else f"`{default}`"
