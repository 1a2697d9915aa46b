"""From a slider's move to the changed bars on the screen, and frames while it is dragged: SmolLM2-135M, a real browser.

A server of its own process, pages and model together, and headless Chromium on the same machine. Every move is a value
that was not asked before; the text's states are kept, as they are after the first answer. `screen_ms`: from the input
event to the frame after the one in which the bars of this very value were drawn, one move at a time, the median.
`fps`: frames drawn a second while a new value comes with every frame; `answers_s`: answers drawn a second meanwhile.
"""

import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.opened import NAME

TEXT = "I watched the film with my family last night, and I thought it was"
MOVES, QUICK_MOVES = 40, 15
DRAG_S, QUICK_DRAG_S = 5, 2
READY_S = 240
RANK = 32
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
SCREEN = """async ({moves, seconds}) => {
    const slider = document.querySelector("[data-slider] input[type=range]");
    const [low, high] = [Number(slider.min), Number(slider.max)];
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    const move = (value) => {
        slider.value = value;
        slider.dispatchEvent(new Event("input", {bubbles: true}));
        return Number(slider.value);
    };
    const shown = () => (lmscope.steer.shift.edits()[0] || {by: null}).by;
    const times = [];
    for (let i = 0; i < moves; i++) {
        const start = performance.now();
        const value = move(low + ((high - low) * ((i * 17) % moves)) / moves);
        while (shown() !== value) await frame();
        await frame();
        times.push(performance.now() - start);
    }
    let frames = 0;
    const began = lmscope.steer.shift.serial();
    const start = performance.now();
    while (performance.now() - start < 1000 * seconds) {
        move((low + high) / 2 + ((high - low) / 2) * Math.sin(frames / 9));
        await frame();
        frames++;
    }
    const took = (performance.now() - start) / 1000;
    return {times, fps: frames / took, answers: (lmscope.steer.shift.serial() - began) / took};
}"""


def run(quick: bool, peer: bool) -> dict[str, float]:
    """`screen_ms` and its slowest tenth, `fps`, `answers_s`. Without Chromium they are NaN."""
    del peer  # no rival has a slider
    chromium = os.environ.get("LMSCOPE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        return dict.fromkeys(("screen_ms", "screen_ms_p90", "fps", "answers_s"), float("nan"))
    with _server() as url, _slider(url) as link:
        seen = _seen(chromium, link, QUICK_MOVES if quick else MOVES, QUICK_DRAG_S if quick else DRAG_S)
    times = sorted(seen["times"])
    return {
        "screen_ms": round(statistics.median(times), 1),
        "screen_ms_p90": round(times[int(0.9 * (len(times) - 1))], 1),
        "fps": round(seen["fps"], 1),
        "answers_s": round(seen["answers"], 1),
    }


@contextmanager
def _server() -> Iterator[str]:
    """LMScope as `lmscope serve` runs it, on a free port, ready."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "lmscope.cli", "serve", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(url, process)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _wait(url: str, process: "subprocess.Popen[bytes]") -> None:
    import httpx

    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"lmscope serve ended with {process.returncode}")
        try:
            if httpx.get(f"{url}/api/v1/ready").is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.3)
    raise RuntimeError(f"lmscope serve was not ready within {READY_S} s")


@contextmanager
def _slider(url: str) -> Iterator[str]:
    """The link of a view with one steer: one of the shelf, or a random one that is taken away again."""
    import numpy as np

    from backend.schema import Steer, View
    from lmscope import Client

    with Client(url) as client:
        fits = [each.card for each in client.steers(NAME).steers if each.fits and each.card.kind == "steer"]
        made = None
        if not fits:
            noise = np.random.default_rng(0)
            left, right = (noise.normal(0, 0.02, shape).astype("f4") for shape in ((576, RANK), (RANK, 576)))
            made = client.keep_steer("bench-random", left, right, recipe="random numbers, for a benchmark").id
        try:
            steer = made or fits[0].id
            yield View(model=NAME, text=TEXT, edits=(Steer(steer=steer, by=0.5),)).link("steer", url)
        finally:
            if made is not None:
                client.delete_steer(made)


def _seen(chromium: str, link: str, moves: int, seconds: int) -> dict[str, Any]:
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(link)
        expect(page.locator("#steer-kl-text")).to_contain_text("nats", timeout=60_000)
        page.wait_for_timeout(1000)
        seen: dict[str, Any] = page.evaluate(SCREEN, {"moves": moves, "seconds": seconds})
        browser.close()
        return seen
