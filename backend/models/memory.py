"""Memory: where a server's models live, in which dtype, how much room there is, and how it is given back."""

import ctypes
import gc
import sys
from contextlib import suppress

import psutil
import torch

from backend import errors

DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2}


def device_named(setting: str) -> torch.device:
    """`auto` is the GPU if there is one, else the CPU. Raises `BadQuestion` for a device that is not there."""
    if setting == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(setting)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        found = torch.cuda.device_count()
        raise errors.BadQuestion(
            f"The device {setting} is not there",
            f"this torch ({torch.__version__}) sees {found} CUDA devices",
            "Set LMSCOPE_DEVICE to cpu or auto, or install a CUDA build of torch and the card's driver",
            needed=(device.index or 0) + 1,
            available=found,
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise errors.BadQuestion(
            "The device mps is not there",
            "this machine or this torch has no Metal",
            "Set LMSCOPE_DEVICE to cpu or auto",
        )
    return device


def dtype_named(setting: str, device: torch.device) -> str:
    """`auto` is float32 on a CPU and bfloat16 on a GPU. Raises ValueError for any other word."""
    if setting == "auto":
        return "float32" if device.type == "cpu" else "bfloat16"
    if setting not in DTYPES:
        raise ValueError(f"dtype is {setting!r}; it may be auto, {', '.join(DTYPES)}")
    return setting


def free_bytes(device: torch.device) -> int:
    """Bytes free now on the device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def take_off_file(model: torch.nn.Module) -> None:
    """Copy weights that are still pages of their file, as float32 ones are on a CPU.

    Whoever rewrites the file would rewrite the model, or crash the server by cutting it short.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        if not tensor.untyped_storage().resizable():  # storage that torch did not allocate itself
            tensor.data = tensor.data.clone()


def give_back() -> None:
    """Return memory of dropped models to the system: break cycles, then hand freed pages back."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # a libc without malloc_trim keeps small blocks for itself
            ctypes.CDLL(None).malloc_trim(0)
