/* What is being asked now: how long an answer is awaited decides whether the page shows a spinner or a sentence. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const SPINNER_AFTER_MS = 300;
  const SENTENCE_AFTER_MS = 2000;
  const LOST_AFTER_MS = 300;
  const outstanding = new Map(); // output -> how many requests are out
  const waiting = new Map(); // element -> timers
  const listeners = new Set();
  const ends = new Set(); // told of the output of every callback that has ended

  /** Dash's hook: a callback's request leaves. */
  function asked(payload) {
    outstanding.set(payload.output, (outstanding.get(payload.output) || 0) + 1);
    for (const place of placesOf(payload.output)) begin(place);
    changed();
  }

  /** Dash's hook: a callback has ended, with an answer, with nothing to do or with an error. */
  function answered(callback, result) {
    const output = outstanding.has(callback.output) ? callback.output : ofPattern(callback.output);
    if (output === undefined) return;
    const left = outstanding.get(output) - 1;
    if (left > 0) outstanding.set(output, left);
    else outstanding.delete(output);
    if (left <= 0) for (const place of placesOf(output)) end(place);
    if (result && result.error) failed();
    for (const end of ends) end(output);
    changed();
  }

  /** A callback with a pattern in its output leaves under the id that it met. */
  const ofPattern = (output) => (output.includes("{") ? [...outstanding.keys()].find((key) => key.includes("{")) : undefined);

  /** Our own errors come as notices; what arrives here is a server that is gone or broke down. */
  async function failed() {
    if (!(await lmscope.tab.isAlive())) return lmscope.tab.lost();
    if (document.querySelector("#update-notice > *")) return undefined; // it says why
    return lmscope.notice.show("tab-notice", {
      type: "broken", what: "The server could not answer", why: "Something broke on its side.",
      instead: "Press Run to try again; if it stays, the server's log has the details.",
    });
  }

  const changed = () => listeners.forEach((listener) => listener());

  /** Elements with data-busy="<word>" wait for callbacks whose output names the word. */
  const placesOf = (output) => [...document.querySelectorAll("[data-busy]")].filter((place) => output.includes(place.dataset.busy + "."));

  function begin(place) {
    if (waiting.has(place)) return;
    place.setAttribute("aria-busy", "true");
    waiting.set(place, [
      setTimeout(() => place.classList.add("is-waiting"), SPINNER_AFTER_MS),
      setTimeout(() => place.classList.add("is-waiting-long"), SENTENCE_AFTER_MS),
    ]);
  }

  function end(place) {
    for (const timer of waiting.get(place) || []) clearTimeout(timer);
    waiting.delete(place);
    place.removeAttribute("aria-busy");
    place.classList.remove("is-waiting", "is-waiting-long");
  }

  /** Whether any callback whose output contains one of these words is out. */
  const isOut = (...words) => [...outstanding.keys()].some((output) => words.length === 0 || words.some((word) => output.includes(word)));

  /**
   * A sender that keeps one question in flight: `send(value)` runs `act` at once when nothing is out,
   * else the newest value is sent when the answer is there, at most every `pause` ms.
   */
  function latest(act, pause = 120) {
    let next = null, timer = null, last = 0;
    const turn = () => {
      timer = null;
      if (next === null) return;
      const wait = last + pause - performance.now();
      if (wait > 0 || isOut()) return void (timer = setTimeout(turn, Math.max(wait, 30)));
      const value = next.value;
      next = null;
      last = performance.now();
      act(value);
    };
    return {
      send(value) { next = { value }; if (timer === null) turn(); },
      drop() { clearTimeout(timer); timer = next = null; },
    };
  }

  /**
   * A sender that follows a hand: `send(value)` runs `act` at once when nothing is out, else the newest value is sent as
   * soon as `taken()` says that the answer has arrived. (Dash drops an answer that is not applied yet when the same
   * callback is asked again.) A callback with `word` in its output that ends without an answer is waited for no longer.
   */
  function newest(word, act) {
    let next = null, out = false, count = 0;
    const turn = () => {
      if (next === null || out) return;
      const { value } = next;
      next = null;
      out = true;
      count += 1;
      act(value);
    };
    const free = () => {
      out = false;
      turn();
    };
    ends.add((output) => {
      const mine = count;
      if (output.includes(word)) setTimeout(() => mine === count && free(), LOST_AFTER_MS);
    });
    return { send(value) { next = { value }; turn(); }, taken: free, drop() { next = null; } };
  }

  lmscope.busy = { asked, answered, isOut, latest, newest, onChange: (listener) => listeners.add(listener), onEnd: (listener) => ends.add(listener) };
})();
