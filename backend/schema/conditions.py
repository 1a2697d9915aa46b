"""Conditions: what an answer was made under, so that two answers can be compared honestly."""

from backend.schema.frozen import Frozen


class Conditions(Frozen):
    """Everything outside the View that may change a number."""

    model: str
    revision: str
    digest: str
    """SHA-256 over the weights' files (first 12 hex digits name the folder)."""
    quantisation: str
    """`none`, or what the weights went through, such as `Q4_1, dequantised`."""
    dtype: str
    """The dtype the model runs in, such as `float32`."""
    device: str
    kernel: str
    """Which attention function made the numbers, such as `eager`."""
    versions: dict[str, str]
    """lmscope, torch and transformers."""

    def differences(self, other: "Conditions") -> dict[str, tuple[str, str]]:
        """Names of what differs, with this value and the other's."""
        mine, theirs = self.model_dump(), other.model_dump()
        return {name: (str(mine[name]), str(theirs[name])) for name in mine if mine[name] != theirs[name]}
