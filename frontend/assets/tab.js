/* One websocket a tab: queue positions and progress come in, its closing tells the server that the tab is gone. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const PAUSES_MS = [500, 1000, 2000, 4000, 8000];
  const LOOK_MS = 1000;
  const listeners = new Set();
  const writers = new Set(); // {hear, lost}: who is told what is written

  let socket = null;
  let unsent = []; // said before the page's first websocket was open
  let failures = 0;
  let wasLost = false;
  let toldSocket = false;
  let situation = { questions: [], jobs: [] };
  const ended = new Set(); // jobs whose end was already seen

  /** A new uuid for every page load: a duplicated tab must not speak as the old one. */
  function uuid() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    bytes[6] = (bytes[6] & 15) | 64;
    bytes[8] = (bytes[8] & 63) | 128;
    const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  }
  const id = uuid();

  function connect() {
    const address = location.origin.replace(/^http/, "ws") + lmscope.dom.config().path + "tab/" + id;
    socket = new WebSocket(address);
    socket.onopen = () => {
      for (const text of unsent.splice(0)) socket.send(text);
      if (failures > 0) returned();
    };
    socket.onmessage = (message) => receive(JSON.parse(message.data));
    socket.onclose = async () => {
      tell({ questions: [], jobs: [] });
      unsent = [];
      for (const writer of writers) writer.lost();
      failures++;
      setTimeout(connect, PAUSES_MS[Math.min(failures, PAUSES_MS.length) - 1]);
      if (failures < 2) return;
      if (await isAlive()) withoutSocket();
      else lost();
    };
  }

  /** The server is back, perhaps before anybody noticed that it was away: with other pages, and without its models. */
  function returned() {
    isAlive();
    lmscope.shelf.refresh();
  }

  async function isAlive() {
    try {
      const answer = await fetch(lmscope.dom.config().path + "alive", { cache: "no-store" });
      const build = answer.headers.get("X-Lmscope-Build");
      if (build && build !== lmscope.dom.config().build) updated();
      return answer.ok;
    } catch {
      return false;
    }
  }

  /** The server has other pages than this one: what is asked from here may no longer be understood. */
  function updated() {
    lmscope.notice.show("update-notice", { type: "updated", what: "LMScope has changed since this page was opened", why: "Everything that you see is in the link and comes back." },
      { label: "Reload", act: () => location.reload() });
  }

  /** Answers still come, but something on the way passes no websockets: said once. */
  function withoutSocket() {
    if (toldSocket || wasLost || failures < 3) return;
    toldSocket = true;
    lmscope.notice.show("tab-notice", {
      type: "no-websocket", what: "Live progress is not available", why: "Something between this page and the server passes no websockets.",
      instead: "Answers still come; a proxy should pass websockets on.",
    });
  }

  function receive(data) {
    if ("id" in data) return writers.forEach((writer) => writer.hear(data));
    if (data.status >= 502) return lostBehind(data);
    failures = 0;
    if (!data.questions) return lmscope.notice.show("tab-notice", data);
    recover();
    tell(data);
  }

  function tell(event) {
    situation = event;
    const finished = event.jobs.filter((job) => !["queued", "running"].includes(job.state) && !ended.has(job.id));
    for (const job of finished) ended.add(job.id);
    for (const listener of listeners) listener(event);
    if (finished.length) {
      lmscope.shelf.refresh();
      if (document.querySelector('.notice[data-type="loading"]')) lmscope.view.ask();
    }
  }

  /** The server does not answer: say so once, and come back by ourselves. */
  function lost() {
    if (wasLost) return;
    const look = async () => (!wasLost ? null : (await isAlive()) ? recover() : setTimeout(look, LOOK_MS));
    setTimeout(look, LOOK_MS);
    sayLost("It may be restarting, or the network is gone.");
  }

  /** These pages are served, but the server behind them that computes is not there; its first event ends this. */
  function lostBehind(problem) {
    if (!wasLost) sayLost(problem.why);
  }

  function sayLost(why) {
    wasLost = true;
    document.documentElement.classList.add("server-lost");
    for (const listener of listeners) listener(situation);
    lmscope.notice.show("tab-notice", { type: "unreachable", what: "The server does not answer", why, instead: "This page keeps trying, and goes on by itself." });
  }

  function recover() {
    if (!wasLost) return;
    wasLost = false;
    document.documentElement.classList.remove("server-lost");
    for (const listener of listeners) listener(situation);
    lmscope.notice.clear("tab-notice");
    lmscope.shelf.refresh();
    lmscope.view.ask();
  }

  /** Say something to the server; false when nobody would hear it. In the page's first moments it waits for the websocket. */
  function send(text) {
    const state = socket ? socket.readyState : WebSocket.CLOSED;
    if (state === WebSocket.OPEN) socket.send(text);
    else if (state === WebSocket.CONNECTING && failures === 0) unsent.push(text);
    else return false;
    return true;
  }

  function stop() {
    if (send("stop")) lmscope.dom.announce("Stopped");
  }

  /** Be told what is written: hear({id, write | problem | written}), and lost() when the websocket has closed. */
  const hear = (heard, lost) => writers.add({ hear: heard, lost });

  function start() {
    window.dash_clientside.set_props("tab", { data: id });
    connect();
  }

  lmscope.tab = { id, start, stop, send, hear, isAlive, lost, now: () => situation, subscribe: (listener) => { listeners.add(listener); listener(situation); } };
})();
