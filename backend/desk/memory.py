"""Memory: how much there is, how much running questions have spoken for, and what to do when it runs out."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Condition

import psutil
import torch

from backend import errors
from backend.desk.question import Cancel

CGROUP = Path("/sys/fs/cgroup")
LOOK_S = 0.05
"""How often a question that waits for memory looks whether it is still wanted."""


def available(device: str) -> int:
    """Bytes that can still be allocated on a device, the allocator's own reserve included."""
    if device.startswith("cuda"):
        free, _ = torch.cuda.mem_get_info(device)
        return int(free) + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return min(int(psutil.virtual_memory().available), _container_bytes())


def _container_bytes() -> int:
    """Bytes that a container's limit leaves (cgroup v2), or as good as infinity."""
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text())
        kept = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return 2**62 if limit == "max" else int(limit) - used + int(kept.get("inactive_file", 0))
    except (OSError, ValueError):
        return 2**62


def ran_out(error: BaseException) -> bool:
    """Whether an exception means that memory ran out, on any device."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def too_little(needed: int, free: int) -> errors.OutOfMemory:
    """The refusal, with both numbers."""
    return errors.OutOfMemory(
        "There is not enough memory for this question",
        f"answering it needs about {_mib(needed)}, and {_mib(free)} are available",
        "Use a shorter text, unload a model that nobody uses, or try again in a moment",
        needed=needed,
        available=free,
    )


def _mib(size: int) -> str:
    return f"{max(size, 0) / 2**20:,.0f} MiB"


class Memory:
    """What running questions have spoken for, a device. Used from the models' threads."""

    def __init__(self, measure: Callable[[str], int] = available) -> None:
        self._measure = measure
        self._spoken: dict[str, int] = {}
        self._changed = Condition()

    def reserve(self, device: str, needed: int, wait_s: float, cancel: Cancel) -> None:
        """Speak for bytes, waiting while other questions hold what is missing.

        Raises `OutOfMemory` when they would not fit even if nothing else ran, or not within `wait_s`, and whatever
        `cancel` raises.
        """
        deadline = time.monotonic() + wait_s
        with self._changed:
            while True:
                cancel()
                spoken = self._spoken.get(device, 0)
                free = self._measure(device) - spoken
                if needed <= free:
                    self._spoken[device] = spoken + needed
                    return
                if spoken == 0 or time.monotonic() >= deadline:
                    raise too_little(needed, free)
                self._changed.wait(LOOK_S)

    def free(self, device: str) -> int:
        """Bytes that a question could have now."""
        with self._changed:
            return self._measure(device) - self._spoken.get(device, 0)

    def give_back(self, device: str, needed: int) -> None:
        """The question has ended."""
        with self._changed:
            self._spoken[device] = self._spoken.get(device, 0) - needed
            self._changed.notify_all()
