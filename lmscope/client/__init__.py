"""The typed client: one method per route, the same over HTTP and in process; each instrument's in a file of its own."""

from lmscope.client.attention import AttentionClient
from lmscope.client.capture import CaptureClient
from lmscope.client.jobs import Progress
from lmscope.client.models import ModelsClient
from lmscope.client.notes import NotesClient
from lmscope.client.paths import PATHS, Study
from lmscope.client.reading import events_in
from lmscope.client.sets import SetsClient
from lmscope.client.steer import SteerClient
from lmscope.client.steers import SteersClient
from lmscope.client.studies import StudiesClient
from lmscope.client.tabs import TabsClient
from lmscope.client.trace import TraceClient
from lmscope.client.two_models import TwoModelsClient
from lmscope.client.values import ValuesClient
from lmscope.client.weight_studies import WeightStudiesClient
from lmscope.client.weights import WeightsClient
from lmscope.client.write import WriteClient
from lmscope.naming import Heads, OneHead, head_name, head_names
from lmscope.refused import Refused

__all__ = [
    "PATHS", "AsyncClient", "Heads", "OneHead", "Progress", "Refused", "Study", "events_in", "head_name",
    "head_names",
]  # fmt: skip


class AsyncClient(
    AttentionClient, CaptureClient, TraceClient, StudiesClient, ValuesClient, NotesClient, WriteClient, SteerClient,
    SteersClient, WeightsClient, WeightStudiesClient, TwoModelsClient, SetsClient, ModelsClient, TabsClient,
):  # fmt: skip
    """Ask a server, or an ASGI application in this process (`app=`).

    `tab` names the asker: a newer question of one tab replaces its older one, and `events` and `stop` are about it.
    Every method raises `Refused`, also for arguments that make no question. Cancelling the task that awaits an answer
    stops the question at the server.
    """
