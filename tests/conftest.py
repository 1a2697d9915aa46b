"""One profile of hypothesis for the whole suite: a loaded machine is slow, which is no fault of the code.

A server that a test starts remembers in memory, unless the test says where: none writes into the models cache.
Tiny models are fastest on one thread, and the workers of one run take no core from each other.
"""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("lmscope", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lmscope")
os.environ.setdefault("LMSCOPE_DATABASE_URL", "sqlite://")
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection(session: pytest.Session) -> None:
    """While tests are collected nothing is thrown away that is worth looking for."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Everything imported so far stays: without looking through it, a model is opened in half the time."""
    gc.collect()
    gc.freeze()
    gc.enable()
