"""Memory of this process: the peak it reaches, and the most it may take."""

import resource
from pathlib import Path

import psutil

MIB = 1024 * 1024
SHARE = 0.5
"""Share of the free memory that a process with a rival may take; a size beyond it counts as not survived."""
STEADY = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""Where memory is measured, what is freed goes back at once: else the peak depends on where glibc finds a gap."""


def limit() -> None:
    """Give this process a share of the free memory and no more: a rival could take the machine down with it."""
    most = int(psutil.virtual_memory().available * SHARE)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def peak_from_now() -> int:
    """Forget the peak so far, where the system can, and give the bytes in use."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return peak()
    return _status("VmRSS")


def peak() -> int:
    """Most bytes of memory this process has had (since `peak_from_now`, where the system can)."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _status(field: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), 0)
