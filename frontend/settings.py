"""Settings of the frontend: one frozen class, read only here, in `app` and in `lmscope.cli`."""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """What the pages need to know; each field is an environment variable with the prefix `LMSCOPE_`."""

    model_config = SettingsConfigDict(env_prefix="LMSCOPE_", frozen=True, extra="ignore")

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8050, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    backend_url: str = Field("http://127.0.0.1:8051", description="where `lmscope serve frontend` finds the backend")
    key: SecretStr | None = Field(None, description="key that the backend asks for; sent with every question")
    path: str = Field("/", pattern=r"^/([^?#]*/)?$", description="path under which a reverse proxy shows the pages")
    example: str = Field(
        "When Mary and John went to the store, John gave a bottle of milk to Mary.",
        min_length=1,
        description="text that a visitor without a link sees first",
    )
