/* Long questions of a panel: each is a job whose partial results are fetched until it ends, and which can be stopped. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const PAUSES_MS = [300, 450, 700, 1000, 1500];
  const LIVE = ["queued", "running"];

  /**
   * What measures for one panel of a page. `start` is the store that starts jobs, `stop` the one that ends them; `fetch`
   * asks for what they have found; `now` is the key that the panel shows. Jobs are known by the key of their question, so
   * that going back finds them again; with `kept`, a name, the last ones are found after a reload of the tab, too.
   */
  function measurer(page, { start, stop, fetch, now, kept }) {
    const known = new Map(); // key -> {jobs: {kind: id}, told: {kind: Job}, looks}
    let timer = null;
    let starting = null;

    const of = (key) => known.get(key) || null;
    const isLive = (key) => starting === key || (known.has(key) && Object.keys(known.get(key).jobs).some((kind) => LIVE.includes(stateOf(key, kind))));
    const stateOf = (key, kind) => (known.get(key).told[kind] ? known.get(key).told[kind].state : "queued");
    /** Jobs that this tab has started before it was loaded anew. */
    function restore() {
      const found = kept ? read(kept) : null;
      if (found && !known.has(found.key)) known.set(found.key, { jobs: found.jobs, told: {}, looks: 0 });
      return found;
    }

    function forget(key) {
      known.delete(key);
      if (kept) keep(kept, null);
    }

    const isDone = (key) => known.has(key) && Object.keys(known.get(key).jobs).every((kind) => stateOf(key, kind) === "done");

    function begin(key, asks) {
      starting = key;
      setProps(start, { data: { key, asks, turn: page.turn(), at: Date.now() } });
    }

    /** The server has named the jobs. */
    function began(data) {
      if (!data || !page.isOpen()) return;
      if (starting === data.key) starting = null;
      known.set(data.key, { jobs: data.jobs, told: {}, looks: 0 });
      if (kept) keep(kept, { key: data.key, jobs: data.jobs });
      if (data.key !== now()) return void leave(data.key);
      fetch();
    }

    /** What the last look has found; the next one follows while something runs. */
    function told(key, jobs) {
      const mine = known.get(key);
      if (!mine) return;
      mine.told = jobs;
      clearTimeout(timer);
      if (isLive(key)) timer = setTimeout(() => page.isOpen() && fetch(), PAUSES_MS[Math.min(mine.looks++, PAUSES_MS.length - 1)]);
    }

    function end(key) {
      const mine = known.get(key);
      starting = null;
      if (mine && isLive(key) && page.isOpen()) setProps(stop, { data: { ids: Object.values(mine.jobs), at: Date.now() } });
    }

    /** What nobody looks at any more need not be measured; on another page it goes on, and is found again. */
    function leave(key) {
      clearTimeout(timer);
      if (!page.isOpen()) return;
      if (key !== null && isLive(key)) {
        end(key);
        known.delete(key);
      }
    }

    const refused = () => { starting = null; };

    return { of, isLive, isDone, begin, began, told, end, leave, refused, restore, forget, isStarting: () => starting !== null };
  }

  /**
   * One job that goes on whatever the view becomes, and its panel's stores (frontend/parts/following.py): `name` begins
   * their ids. `drawn()` says how it shall be drawn; `changed()` is told of everything new.
   */
  function follower(page, name, { drawn = () => ({}), changed = () => page.again() } = {}) {
    let found = null; // {answer, job, key}
    let about = read(name + "-about"); // what was asked: {kind, ask}
    const measuring = measurer(page, { start: name + "-ask", stop: name + "-stop", fetch: look, now: () => name, kept: name });
    const id = () => (measuring.of(name) ? Object.values(measuring.of(name).jobs)[0] : null);

    function look() {
      if (id() !== null) setProps(name + "-look", { data: { id: id(), key: name, drawn: drawn(), at: Date.now() } });
    }

    function begin(kind, ask) {
      found = null;
      about = { kind, ask };
      keep(name + "-about", about);
      measuring.forget(name);
      measuring.begin(name, [about]);
      changed();
    }

    function told(data) {
      if (id() !== data.job.id) return; // of the job before
      found = data;
      measuring.told(name, { [Object.keys(measuring.of(name).jobs)[0]]: data.job });
      changed();
    }

    /** When the page is in the document: a job from before a reload, or from before another page, is looked at. */
    function start() {
      measuring.restore();
      look();
    }

    /** After a refusal, or when the server is back. */
    function retry() {
      const out = (part) => lmscope.busy.isOut(name + part);
      if (document.querySelector("#" + name + "-notice > *") && !out("-began.")) measuring.refused();
      if (measuring.isLive(name) && !measuring.isStarting() && !out("-told.")) look();
    }

    const made = {
      begin, look, start, retry, about: () => about, answer: () => found && found.answer, job: () => found && found.job,
      isLive: () => measuring.isLive(name), isDone: () => measuring.isDone(name), stop: () => measuring.end(name),
      progress: (what) => progress(measuring, name, () => measuring.end(name), what), endings: (stopped) => endings(measuring, name, stopped),
    };
    followers.set(name, { began: (data) => (measuring.began(data), changed()), told });
    return made;
  }

  const followers = new Map();
  const hear = (act) => (data) => data && followers.has(data.key) && followers.get(data.key)[act](data);
  window.dash_clientside = Object.assign({}, window.dash_clientside, { panelJobs: { began: hear("began"), told: hear("told") } });

  // ------------------------------------------------------------------ what outlives a reload, in this tab alone

  const setProps = (id, props) => window.dash_clientside.set_props(id, props);

  function keep(name, value) {
    try {
      if (value === null) sessionStorage.removeItem("lmscope-" + name);
      else sessionStorage.setItem("lmscope-" + name, JSON.stringify(value));
    } catch {
      // a browser that keeps nothing: the job goes on, and is found among the server's jobs
    }
  }

  function read(name) {
    try {
      return JSON.parse(sessionStorage.getItem("lmscope-" + name));
    } catch {
      return null;
    }
  }

  // ------------------------------------------------------------------ in words

  /** One bar for all jobs of a question: share done, in words, with the time left. */
  function progress(measuring, key, stop, what = "Measured") {
    const { h } = lmscope.dom;
    const mine = measuring.of(key);
    const jobs = mine ? Object.values(mine.told) : [];
    const running = jobs.filter((job) => LIVE.includes(job.state));
    const done = jobs.reduce((sum, job) => sum + (job.done || 0), 0);
    const total = jobs.length && jobs.every((job) => job.total) ? jobs.reduce((sum, job) => sum + job.total, 0) : null;
    const eta = running.some((job) => job.eta_s !== null && job.eta_s !== undefined) ? running.reduce((sum, job) => sum + (job.eta_s || 0), 0) : null;
    const one = { what, done, total, eta_s: eta, unit: "" };
    const words = total ? done.toLocaleString("en") + " of " + total.toLocaleString("en") + (eta === null ? "" : " · " + lmscope.dom.seconds(eta)) : running.some((job) => job.state === "running") ? "Working …" : "Waiting for its turn …";
    return h("div.measuring", {}, lmscope.status.bar(one), h("span.measuring-words", {}, words), h("button", { type: "button", onclick: stop }, "Stop"));
  }

  /** How a job ended, where that wants saying. */
  function endings(measuring, key, stopped = "Stopped: what was measured by then is shown.") {
    const mine = measuring.of(key);
    const ended = mine ? Object.values(mine.told).filter((job) => ["failed", "cancelled", "lost"].includes(job.state)) : [];
    return ended.map((job) => (job.state === "cancelled" ? stopped : job.problem ? lmscope.dom.sentence(job.problem.what) + " " + lmscope.dom.sentence(job.problem.why) + " " + lmscope.dom.sentence(job.problem.instead) : "It did not end."));
  }

  /** For a page of panels: its `jobs`. */
  const on = (page) => ({ measurer: (given) => measurer(page, given), follower: (name, given) => follower(page, name, given), progress, endings });

  lmscope.panelJobs = { on, keep, read, progress, endings };
})();
