"""The one base of every form: frozen, no unknown fields, no NaN or infinity."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value that cannot change after it was checked; an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
