"""A page's callbacks without a browser, with the stand-in for a backend."""

from collections.abc import Iterator

import pytest
from dash import page_registry

from frontend.app import create_app
from frontend.parts import asking
from frontend.settings import Settings
from tests.browser.fake import FakeClient


@pytest.fixture
def client() -> Iterator[FakeClient]:
    """The client that callbacks ask."""
    fake = FakeClient()
    token = asking._client.set(fake)
    yield fake
    asking._client.reset(token)


@pytest.fixture(scope="module")
def layout(request: pytest.FixtureRequest) -> str:
    """The page at the module's PAGE as the application serves it, in words."""
    create_app(Settings(), FakeClient())
    return repr(next(page for page in page_registry.values() if page["path"] == request.module.PAGE)["layout"]())
