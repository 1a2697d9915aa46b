/* The state of the page: one View, its link, and back and forward. Nothing else writes the stores `view` and `question`. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const NESTED = ["focus", "reading", "sampling"];
  const READ = ["model", "text", "pair", "turns", "continuation", "template"]; // what the tokens come from
  const REPLACE_AFTER_MS = 250;

  let view = null;
  let asked = null; // canonical JSON of the question last published
  let shownHash = null; // the hash that `view` came from or was written to
  let replaceTimer = null;
  let held = null; // the model that an opened link needs and nobody has allowed to fetch
  const allowed = new Set();
  let writing = Promise.resolve();
  let moving = false; // a slider is in the hand: the view changes, and nothing but the listeners knows
  const listeners = new Set();

  const config = () => lmscope.dom.config();
  const isPlain = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  const clone = (value) => JSON.parse(JSON.stringify(value));

  // ---------------------------------------------------------------- links

  class LinkError extends Error {
    constructor(why) {
      super(why);
      this.problem = {
        type: "bad-link", status: 400, what: "This link cannot be opened", why,
        instead: "Ask for the link again; the example is shown in the meantime.",
      };
    }
  }

  /** Canonical JSON: keys sorted, no spaces, whatever is at its default left out. */
  function canonical(value) {
    if (Array.isArray(value)) return "[" + value.map(canonical).join(",") + "]";
    if (!isPlain(value)) return JSON.stringify(value);
    return "{" + Object.keys(value).sort().map((key) => JSON.stringify(key) + ":" + canonical(value[key])).join(",") + "}";
  }

  const same = (a, b) => canonical(a === undefined ? null : a) === canonical(b === undefined ? null : b);

  function withoutDefaults(value, defaults) {
    const kept = {};
    for (const [key, item] of Object.entries(value)) {
      if (key in defaults && same(item, defaults[key])) continue;
      kept[key] = isPlain(item) && isPlain(defaults[key]) ? withoutDefaults(item, defaults[key]) : item;
    }
    return kept;
  }

  function compact(full) {
    const short = withoutDefaults(full, config().view);
    if (short.edits) short.edits = short.edits.map((edit) => withoutDefaults(edit, config().edit));
    return short;
  }

  function whole(short) {
    const full = { ...clone(config().view), ...short };
    for (const key of NESTED) full[key] = { ...clone(config().view[key]), ...(short[key] || {}) };
    full.edits = (short.edits || []).map((edit) => ({ ...config().edit, ...edit }));
    return full;
  }

  async function through(stream, bytes, most) {
    const writer = stream.writable.getWriter();
    const written = writer.write(bytes).then(() => writer.close());
    written.catch(() => {}); // the reader reports it
    const reader = stream.readable.getReader();
    const parts = [];
    let length = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      length += value.length;
      if (length > most) {
        await reader.cancel();
        throw new LinkError("It unpacks to more than " + most + " bytes.");
      }
      parts.push(value);
    }
    const all = new Uint8Array(length);
    parts.reduce((offset, part) => (all.set(part, offset), offset + part.length), 0);
    return all;
  }

  function base64(bytes) {
    let text = "";
    for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
    return btoa(text).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  }

  function unbase64(text) {
    if (!/^[A-Za-z0-9_-]*$/.test(text)) throw new LinkError("It holds characters that no link has; it may have been cut or wrapped.");
    let raw;
    try {
      raw = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
    } catch {
      throw new LinkError("It is damaged; it may have been cut when it was copied.");
    }
    return Uint8Array.from(raw, (character) => character.charCodeAt(0));
  }

  /** The fragment of a view's link, `#v=1…`. Rejects with a LinkError when the view is too long for a link. */
  async function pack(full) {
    const raw = new TextEncoder().encode(canonical(compact(full)));
    if (raw.length > config().bytes) throw new LinkError("This view has " + raw.length + " bytes; a link holds at most " + config().bytes + ".");
    const packed = await through(new CompressionStream("deflate"), raw, Infinity);
    if (packed.length > config().packed) throw new LinkError("This view has " + packed.length + " bytes compressed; a link holds at most " + config().packed + ".");
    return "#v=" + config().version + base64(packed);
  }

  /** What a fragment holds, unchecked. Rejects with a LinkError. */
  async function unpack(hash) {
    const body = hash.slice(hash.lastIndexOf("#v=") + 3).trim();
    if (!body.startsWith(String(config().version))) throw new LinkError("It is not of version " + config().version + ".");
    if (body.length > (config().packed * 4) / 3 + 5) throw new LinkError("It has " + body.length + " characters; at most " + config().packed + " compressed bytes are opened.");
    const packed = unbase64(body.slice(String(config().version).length));
    let raw;
    try {
      raw = await through(new DecompressionStream("deflate"), packed, config().bytes);
    } catch (error) {
      if (error instanceof LinkError) throw error;
      throw new LinkError("It is damaged or cut short; it may have been cut when it was copied.");
    }
    try {
      return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(raw));
    } catch {
      throw new LinkError("It does not hold a view.");
    }
  }

  /** Open a fragment: unpacked here, checked by the server's schema. */
  async function open(hash) {
    const short = await unpack(hash);
    const response = await fetch(config().path + "view", { method: "POST", body: JSON.stringify(short) });
    const answer = await response.json();
    if (response.ok) return answer;
    const error = new LinkError(answer.why || "The server could not read it.");
    if (answer.what) error.problem = answer;
    throw error;
  }

  // ---------------------------------------------------------------- address

  function instrument() {
    const name = location.pathname.slice(config().path.length).replace(/\/$/, "");
    return config().instruments.includes(name) ? name : config().instruments[0];
  }

  /** Whether the page of this id is the one of the address, and in the document: another page may still be on its way. */
  const isAt = (id) => id === instrument() + "-page" && document.getElementById(id) !== null;

  const address = (name, hash) => config().path + name + hash;

  function write(push, name) {
    clearTimeout(replaceTimer);
    replaceTimer = null;
    const written = view;
    writing = writing.then(async () => {
      let hash;
      try {
        hash = await pack(written);
      } catch (error) {
        hash = ""; // a view too long for a link still works; Share says why
      }
      if (push) history.pushState(null, "", address(name, hash));
      else history.replaceState(null, "", address(name, hash));
      shownHash = location.hash;
      if (push) window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
      point(hash);
    });
    return writing;
  }

  /** The rail's links lead to the same view. */
  function point(hash) {
    for (const link of document.querySelectorAll("a[data-instrument]")) link.href = address(link.dataset.instrument, hash);
  }

  function writeSoon() {
    clearTimeout(replaceTimer);
    replaceTimer = setTimeout(() => write(false, instrument()), REPLACE_AFTER_MS);
  }

  // ---------------------------------------------------------------- state

  function questionOf(full) {
    return { ...full, focus: clone(config().view.focus), sampling: clone(config().view.sampling), edits: full.edits.filter((edit) => edit.on) };
  }

  /** A listener that fails takes the view from nobody else; the browser's console has what failed. */
  function tell() {
    for (const listener of listeners) {
      try {
        listener(view);
      } catch (error) {
        reportError(error);
      }
    }
  }

  function publish(again) {
    if (held !== null && held !== keyOf(view)) release();
    tell();
    window.dash_clientside.set_props("view", { data: view });
    if (held !== null) return again ? askFirst() : undefined;
    const question = questionOf(view);
    const text = canonical(question);
    if (text === asked && !again) return;
    asked = text;
    window.dash_clientside.set_props("question", { data: question });
  }

  /** A view with a change. A region is one of a text's tokens: another text is shown whole, unless it brings its own. */
  function merged(base, patch) {
    const next = { ...base };
    for (const [key, value] of Object.entries(patch)) next[key] = NESTED.includes(key) ? { ...base[key], ...value } : value;
    const brings = "region" in (patch.focus || {});
    if (!brings && READ.some((key) => !same(next[key], base[key]))) next.focus = { ...next.focus, region: null };
    return next;
  }

  /** The whole View, or null before the first one is known. Treat it as read-only. */
  const get = () => view;

  /**
   * Change the view. `push`: a new entry for Back (a new model, text, released edit); else it replaces. `live`: while a
   * slider is in the hand; the listeners hear it, but neither question nor address follow before it is let go.
   */
  function update(patch, { push = false, live = false } = {}) {
    if (!view) return;
    const next = merged(view, patch);
    if (same(next, view) && (live || !moving)) return;
    if (live) return move(next);
    moving = false;
    if (push && replaceTimer) write(false, instrument()); // the entry that is left keeps its last focus
    view = next;
    publish(false);
    if (push) write(true, instrument());
    else writeSoon();
  }

  function move(next) {
    if (replaceTimer) write(false, instrument()); // the address keeps what was there before the hand
    moving = true;
    view = next;
    tell();
  }

  /** Ask the same question again: after an error, or when the server is back. */
  function ask() {
    if (view) publish(true);
  }

  /** Go to another instrument with the same view. */
  function go(name, patch) {
    if (!view) return;
    moving = false;
    if (replaceTimer) write(false, instrument());
    if (patch) view = merged(view, patch);
    write(true, name).then(() => publish(false));
  }

  function subscribe(listener) {
    listeners.add(listener);
    if (view) listener(view);
    return () => listeners.delete(listener);
  }

  function show(full) {
    moving = false;
    view = full;
    publish(false);
  }

  function showProblem(problem) {
    lmscope.notice.show("link-notice", problem);
  }

  /** The view of a visitor without a link. */
  function example(model) {
    return whole({ model, text: config().example });
  }

  // ---------------------------------------------------------------- models that would have to be fetched

  const keyOf = ({ model, revision }) => model + "@" + (revision || "");

  function release() {
    held = null;
    lmscope.notice.clear("link-notice");
  }

  /** A link must not start a download by itself. */
  function askFirst() {
    const { model, revision } = view;
    lmscope.notice.show("link-notice", { type: "fetch", what: model + " is not on this server yet", why: "This link needs it, and it would be downloaded first." },
      { label: "Fetch " + model, act: () => allow(model, revision) });
  }

  /** The user wants this model, whatever it takes. */
  function allow(model, revision) {
    const key = keyOf({ model, revision });
    allowed.add(key);
    if (held !== key) return;
    release();
    publish(true);
  }

  let opening = 0;

  async function openAddress() {
    const hash = location.hash;
    if (view && hash === shownHash) return publish(false);
    clearTimeout(replaceTimer);
    replaceTimer = null;
    const turn = ++opening;
    try {
      if (!hash.startsWith("#v=")) throw null;
      const opened = await open(hash);
      if (turn !== opening) return;
      const fetches = !allowed.has(keyOf(opened)) && (await lmscope.shelf.wouldFetch(opened));
      if (turn !== opening) return;
      shownHash = hash;
      lmscope.notice.clear("link-notice");
      held = fetches ? keyOf(opened) : null;
      show(opened);
      if (held !== null) askFirst();
      point(hash);
    } catch (error) {
      if (turn !== opening) return;
      if (error !== null) showProblem(error.problem || new LinkError("The server could not be asked.").problem);
      if (view && error === null) return write(false, instrument());
      const model = await lmscope.shelf.defaultModel();
      if (turn !== opening) return;
      show(example(model));
      if (error === null) return write(false, instrument());
      shownHash = hash; // the address stays as it is, so that it can be corrected
      point(await pack(view));
    }
  }

  let started = false;

  /** Called once by Dash when the shell is drawn. */
  function start() {
    if (started) return;
    started = true;
    window.addEventListener("popstate", openAddress);
    window.addEventListener("hashchange", openAddress);
    openAddress();
  }

  lmscope.view = { get, update, ask, go, subscribe, start, pack, unpack, open, allow, isHeld: () => held !== null, isMoving: () => moving, canonical, compact, whole, instrument, isAt, example, written: () => writing, LinkError };
})();
