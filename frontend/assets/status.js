/* The queue pill and the progress of a model that is loading. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const WORDS = {
    tokens: "Reading the text", "tokens.names": "Reading the text", attention: "Computing every head",
    "attention.head": "Computing one head", "attention/head": "Computing one head", head: "Computing one head",
    heads: "Computing every head", "trace focus": "Reading the last row", "trace all": "Reading every layer",
    "trace/cell": "Opening a cell", "trace.cell": "Opening a cell", "trace/contributions": "Adding up every part", "trace.contributions": "Adding up every part",
    "trace/patch": "Running the other text", "trace.patch": "Running the other text",
  };

  const ordinal = (n) => n + (n % 100 > 10 && n % 100 < 14 ? "th" : ["th", "st", "nd", "rd"][n % 10] || "th");
  const running = (jobs) => jobs.filter((job) => job.state === "queued" || job.state === "running");
  /** Jobs that a page waits for as a whole; others show how far they are in their own panel. */
  const loading = (jobs) => running(jobs).filter((job) => job.kind.startsWith("models."));
  const measuring = (jobs) => running(jobs).filter((job) => !job.kind.startsWith("models.") && job.owner === lmscope.tab.id);

  /** 43 of 105 MB · 12 s left. */
  function progressWords(job) {
    const left = lmscope.dom.seconds(job.eta_s);
    if (!job.total) return left;
    const share = job.unit === "bytes" ? lmscope.dom.bytes(job.done) + " of " + lmscope.dom.bytes(job.total) : Math.round((100 * job.done) / job.total) + " %";
    return left ? share + " · " + left : share;
  }

  function bar(job) {
    const { h } = lmscope.dom;
    const share = job.total ? Math.min(1, job.done / job.total) : null;
    const known = share === null ? {} : { "aria-valuenow": Math.round(100 * share), "aria-valuemin": 0, "aria-valuemax": 100 };
    return h("div.progress" + (share === null ? ".unknown" : ""), { role: "progressbar", "aria-label": job.what, ...known },
      h("div.progress-done", { style: "width:" + (share === null ? 30 : 100 * share) + "%" }));
  }

  function pill({ questions, jobs }) {
    const { h, icon } = lmscope.dom;
    const stop = () => h("button.quiet.stop", { type: "button", title: "Stop what this page asked for", onclick: lmscope.tab.stop }, icon("stop"), "Stop");
    const busy = (words) => ["busy", h("span.spinner", { "aria-hidden": "true" }), h("span.pill-words", {}, words), stop()];
    if (loading(jobs).length) return busy("Loading");
    if (questions.length) {
      const first = questions.find((question) => question.state === "running");
      const place = Math.min(...questions.map((question) => question.position));
      return busy(first ? WORDS[first.instrument] || "Running " + first.instrument : ordinal(place) + " in line");
    }
    if (measuring(jobs).length) return ["busy", h("span.spinner", { "aria-hidden": "true" }), h("span.pill-words", {}, capital(measuring(jobs)[0].what))];
    const lost = document.documentElement.classList.contains("server-lost");
    return ["idle", h("span.pill-words", {}, lost ? "Server lost" : "Ready")];
  }

  function progress(jobs) {
    const { h } = lmscope.dom;
    const place = document.getElementById("progress");
    place.replaceChildren(...loading(jobs).map((job) =>
      h("div.job", {}, h("strong", {}, capital(job.what)), bar(job), h("span.job-words", {}, progressWords(job) || "…"))));
    place.hidden = !place.children.length;
  }

  const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
  let pending = null;

  /** An answer that comes at once must not make the pill flicker. */
  function show(event) {
    clearTimeout(pending);
    const [kind] = pill(event);
    pending = setTimeout(() => {
      const [state, ...parts] = pill(event);
      const place = document.getElementById("status");
      place.replaceChildren(lmscope.dom.h("div.pill." + state, {}, ...parts));
    }, kind === "idle" ? 0 : 300);
    progress(event.jobs);
  }

  lmscope.status = { start: () => lmscope.tab.subscribe(show), bar, progressWords, running };
})();
