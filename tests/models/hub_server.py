"""A model hub of one's own: the few routes that huggingface_hub asks, over plain HTTP on the loopback."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha1, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Repository:
    """Files of one revision; `refuse` is an error code of the hub such as `GatedRepo`."""

    files: dict[str, bytes]
    refuse: str = ""
    licence: str = "apache-2.0"
    stated: dict[str, str] = field(default_factory=dict)
    """sha256 that the hub states, where it differs from the truth."""

    @property
    def commit(self) -> str:
        return sha1(b"".join(name.encode() + content for name, content in sorted(self.files.items()))).hexdigest()

    def info(self, name: str) -> dict[str, Any]:
        siblings = [self._sibling(file, content) for file, content in self.files.items()]
        card = {"license": self.licence}
        return {"id": name, "modelId": name, "sha": self.commit, "siblings": siblings, "cardData": card, "tags": []}

    def _sibling(self, file: str, content: bytes) -> dict[str, Any]:
        found: dict[str, Any] = {"rfilename": file, "size": len(content), "blobId": sha1(content).hexdigest()}
        if file.endswith((".safetensors", ".bin")):
            stated = self.stated.get(file, sha256(content).hexdigest())
            found["lfs"] = {"sha256": stated, "size": len(content), "pointerSize": 130}
        return found


@dataclass
class HubServer:
    """Repositories by name, and a record of what was asked."""

    address: str
    repositories: dict[str, Repository] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    sends_at_most: int | None = None
    """Bytes of a file after which it waits until `open` is set."""
    open: threading.Event = field(default_factory=threading.Event)

    def offer(self, name: str, folder: Path, **changes: Any) -> Repository:
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        self.repositories[name] = Repository(files, **changes)
        return self.repositories[name]


@contextmanager
def hub_server() -> Iterator[HubServer]:
    """Runs until the block ends."""
    state = HubServer("")

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, body: bool) -> None:
            path = self.path.split("?")[0]
            state.asked.append(f"{self.command} {path}")
            state.tokens.add(self.headers.get("Authorization"))
            parts = path.strip("/").split("/")
            api = parts[:2] == ["api", "models"]
            name = "/".join(parts[2:4] if api else parts[:2])
            repository = state.repositories.get(name)
            if repository is None:
                return self._error(404, "RepoNotFound")
            if repository.refuse:
                return self._error(403, repository.refuse)
            if api and len(parts) > 5 and parts[5] not in ("main", repository.commit):
                return self._error(404, "RevisionNotFound")
            if api:
                return self._send(
                    json.dumps(repository.info(name)).encode(), {"Content-Type": "application/json"}, body
                )
            content = repository.files.get("/".join(parts[4:]))
            if content is None:
                return self._error(404, "EntryNotFound")
            headers = {"ETag": f'"{sha256(content).hexdigest()}"', "X-Repo-Commit": repository.commit}
            return self._send(content, headers, body)

        def _send(self, content: bytes, headers: dict[str, str], body: bool) -> None:
            self.send_response(200)
            for key, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(key, value)
            self.end_headers()
            for start in range(0, len(content) if body else 0, 65536):
                if state.sends_at_most is not None and start >= state.sends_at_most:
                    state.open.wait(60)
                self.wfile.write(content[start : start + 65536])

        def _error(self, status: int, code: str) -> None:
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", "no")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *given: object) -> None:
            """Silence."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *given: object) -> None:
            """Clients may leave in the middle."""

    server = Server(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield state
    finally:
        state.open.set()
        server.shutdown()
        server.server_close()
