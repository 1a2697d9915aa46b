"""The numbers beyond which a question is refused. Each is a setting; a refusal names both numbers."""

from pydantic import Field

from backend.schema.frozen import Frozen

MIB = 1024 * 1024


class Limits(Frozen):
    """Defaults of the contract; `LMSCOPE_*` settings replace them one by one."""

    tokens: int = Field(default=4096, ge=1, description="tokens a question may have, or the model's context")
    body_bytes: int = Field(default=2 * MIB, ge=1024, description="bytes a request body may have")
    upload_bytes: int = Field(
        default=20 * MIB, ge=1024, description="bytes a stored vector, a prompt set or notes may be sent with"
    )
    new_tokens: int = Field(default=512, ge=1, le=512, description="tokens a continuation may have")
    rows: int = Field(default=32, ge=1, description="continuations that one model writes at once")
    edits: int = Field(default=64, ge=0, le=64, description="edits a view may carry")
    queue: int = Field(default=64, ge=1, description="questions that may wait for one model")
    wait_s: float = Field(default=60.0, gt=0, description="seconds a question may wait before it is turned away")
    kept_bytes: int = Field(default=512 * MIB, ge=0, description="bytes of attention inputs kept for the next click")
    answer_bytes: int = Field(default=256 * MIB, ge=0, description="bytes of answers kept for equal questions")
    capture_bytes: int = Field(default=1024 * MIB, ge=0, description="bytes of tensors one capture may send")


THUMBNAIL_CELLS = 64
"""Cells a side of one thumbnail, up to `THUMBNAIL_HEADS` heads."""
THUMBNAIL_HEADS = 300
THUMBNAIL_CELLS_MANY = 32
"""Cells a side of one thumbnail when the model has more heads than `THUMBNAIL_HEADS`."""
MAP_CELLS = 1024
"""Cells a side at most of one head's map; a longer region is pooled to this."""
EDITS_MOST = 64
"""Edits at most in any view, whatever the setting says."""
