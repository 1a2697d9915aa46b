/* Long questions of a panel that are known by what they ask: each has an answer, a job that makes one, or neither. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const PAUSES_MS = [300, 450, 700, 1000, 1500];
  const LIVE = ["queued", "running"];
  const KEPT = 24; // questions whose jobs are found again after a reload of the tab, whatever became of them
  const HEARD_MS = 300; // after the end of a request its answer has been heard
  const askers = new Map();
  const setProps = (id, props) => window.dash_clientside.set_props(id, props);

  /**
   * One kind of question of a page and its stores (frontend/parts/knowing.py): `name` begins their ids, `kind` is the
   * form's name, and `ask(view)` is the question that the view stands for, null while it cannot be asked. Where the
   * server has answered that before it is found without being asked again, if `finds(view)`. `drawn(view)` says how it
   * shall be drawn. Whatever is said is about the view's own question: one of another model runs on, and is there when
   * the view comes back to it.
   */
  function asker(page, name, { kind, ask, finds = () => true, drawn = () => ({}), changed = () => page.again() }) {
    const known = new Map(Object.entries(lmscope.panelJobs.read(name) || {}).map(([key, id]) => [key, { id }]));
    let begun = null; // key of what was begun last: a refusal is about it
    let finding = null; // key of what is being looked for
    let shown = null; // what the picture shows, and how
    let of = null; // key of the question that it is about
    let looked = null; // what was looked at last, the picture for which is on its way
    let timer = null;

    const question = () => { const view = lmscope.view.get(); return view ? ask(view) : null; };
    const keyNow = () => JSON.stringify([kind, question()]);
    const here = () => known.get(keyNow()) || null;
    const isAsked = (one) => Boolean(one && one.isStarting);
    const isRunning = (one) => Boolean(one && one.id && (!one.job || LIVE.includes(one.job.state)) && !one.isQuiet);
    const isLive = () => isAsked(here()) || isRunning(here());
    const picture = (key) => JSON.stringify([key, drawn(lmscope.view.get())]);

    function keep() {
      const ids = [...known].filter(([, one]) => one.id).slice(-KEPT).map(([key, one]) => [key, one.id]);
      lmscope.panelJobs.keep(name, Object.fromEntries(ids));
    }

    function look() {
      const one = here();
      if (!one || !one.id || !page.isOpen()) return;
      looked = picture(keyNow());
      setProps(name + "-look", { data: { id: one.id, key: keyNow(), drawn: drawn(lmscope.view.get()), at: Date.now() } });
    }

    function begin() {
      const key = keyNow();
      for (const [each, one] of known) if (isAsked(one)) known.delete(each); // its answer would not reach us: it is found again
      begun = key;
      known.delete(key);
      known.set(key, { isStarting: true });
      setProps(name + "-ask", { data: { key, asks: [{ kind, ask: question() }], turn: page.turn(), at: Date.now() } });
      changed();
    }

    /** The server has named the job. */
    function began(data) {
      known.set(data.key, { id: data.jobs[kind] });
      keep();
      if (data.key === keyNow()) look();
      changed();
    }

    /** Where the server was asked whether it knows an answer. */
    function knew(data) {
      if (finding === data.key) finding = null;
      if (!known.has(data.key)) known.set(data.key, data.id ? { id: data.id, isQuiet: true } : {});
      changed();
    }

    function told(data) {
      const one = known.get(data.key);
      if (!one || one.id !== data.job.id) return;
      if (one.isQuiet && data.job.state === "lost") return void (known.set(data.key, {}), changed());
      one.job = data.job;
      one.answer = data.answer;
      one.isQuiet = false;
      shown = JSON.stringify([(of = data.key), data.drawn]);
      one.looks = (one.looks || 0) + 1;
      clearTimeout(timer);
      if (isRunning(one)) timer = setTimeout(() => data.key === keyNow() && look(), PAUSES_MS[Math.min(one.looks, PAUSES_MS.length) - 1]);
      changed();
    }

    /** At every drawing: what is known of the view's question is fetched, and what is not is looked for. */
    function follow() {
      if (question() === null || !page.isOpen()) return;
      const key = keyNow();
      const one = known.get(key);
      if (one && one.id && shown !== picture(key) && looked !== picture(key)) return look();
      if (!one && finding === null && finds(lmscope.view.get())) {
        finding = key;
        setProps(name + "-find", { data: { key, kind, ask: question(), at: Date.now() } });
      }
    }

    /** When the page is in the document, whose picture is empty. */
    function start() {
      listen();
      shown = of = looked = finding = null;
    }

    /** After a refusal, or when the server is back. */
    function retry() {
      const out = (part) => lmscope.busy.isOut(name + part);
      if (!out("-known.")) finding = null;
      if (here() && here().id && shown !== picture(keyNow()) && !out("-told.")) looked = null;
      if (isRunning(here()) && !out("-told.")) look();
    }

    /** No answer will come to what was begun: it was refused, and the panel says so. */
    function unheard() {
      if (lmscope.busy.isOut(name + "-began.")) return;
      const waiting = [...known].filter(([, one]) => isAsked(one));
      for (const [key] of waiting) known.set(key, {});
      if (waiting.length && page.isOpen()) changed();
    }

    let isListening = false;
    function listen() {
      if (isListening) return;
      isListening = true;
      lmscope.busy.onEnd((output) => { if (output.includes(name + "-began.")) setTimeout(unheard, HEARD_MS); });
    }

    const measuring = { of: () => { const one = here(); return one && { told: one.job ? { [kind]: one.job } : {} }; } };
    const stop = () => { const one = here(); if (one && one.id) setProps(name + "-stop", { data: { ids: [one.id], at: Date.now() } }); };
    const isDone = () => Boolean(here() && here().job && here().job.state === "done");
    askers.set(name, { began, knew, told });
    return {
      begin, start, follow, retry, question, isLive, isDone, stop, job: () => here() && here().job,
      /** Of the view's own question, once the picture is about it. */
      answer: () => (here() && here().job && of === keyNow() ? here().answer : null),
      /** Whether the refusal that stands there, if any, is about the view's question. */
      isRefused: () => begun === keyNow(),
      progress: (what) => lmscope.panelJobs.progress(measuring, name, stop, what), endings: () => lmscope.panelJobs.endings(measuring, name),
    };
  }

  const hear = (act, suffix) => (data, id) => { if (data) askers.get(id.slice(0, -suffix.length))?.[act](data); };
  window.dash_clientside = Object.assign({}, window.dash_clientside, { panelAnswers: { began: hear("began", "-began"), told: hear("told", "-told"), knew: hear("knew", "-known") } });

  lmscope.panelAnswers = { asker };
})();
