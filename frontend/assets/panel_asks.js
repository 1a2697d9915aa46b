/* Questions of a panel that are answered at once: each is asked once, and only the newest answer counts. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const HEARD_MS = 300; // after the end of a request its answer, or its refusal, stands on the page
  const questions = new Map();

  /**
   * A question of a page and its stores (frontend/parts/answering.py): `name` begins their ids. `changed()` is told when
   * an answer is here.
   */
  function question(page, name, { changed = () => page.again() } = {}) {
    let asked = null; // JSON of what was asked last
    let found = null; // {answer, key, isOld}: old when something was asked after it, be it the same again

    /** Ask what was not asked yet. `kind` names the form where there are several. */
    function send(ask, kind = "ask") {
      const key = JSON.stringify([kind, ask]);
      if (key === asked) return;
      asked = key;
      if (found) found.isOld = true;
      window.dash_clientside.set_props(name + "-ask", { data: { name, kind, ask, key } });
    }

    function told(data) {
      if (data.key !== asked) return;
      found = data;
      lmscope.panelWords.learn(data.answer.words);
      if (page.isOpen()) changed();
    }

    const refused = () => Boolean(document.querySelector("#" + name + "-notice > *"));

    /** A refusal is drawn, too: what stands there belongs to an earlier question. */
    let isListening = false;
    function listen() {
      if (isListening) return;
      isListening = true;
      lmscope.busy.onEnd((output) => { if (output.includes(name + "-told.")) setTimeout(() => page.isOpen() && refused() && page.again(), HEARD_MS); });
    }

    const made = {
      send, refused,
      /** Whether nothing is awaited. */
      settled: () => asked === null || Boolean(made.answer()) || refused(),
      start: () => { listen(); asked = found = null; },
      /** After a refusal, or when the server is back: what has no answer may be asked again. */
      retry: () => { if (refused() && !lmscope.busy.isOut(name + "-told.")) asked = null; },
      /** What belongs to the question that was asked last; `last`: whatever came last, while a newer one is awaited. */
      answer: () => (found && found.key === asked && !found.isOld ? found.answer : null),
      last: () => found && found.answer,
      form: () => (asked === null ? null : JSON.parse(asked)[1]),
    };
    questions.set(name, told);
    return made;
  }

  const hear = (data) => data && questions.has(data.name) && questions.get(data.name)(data);
  window.dash_clientside = Object.assign({}, window.dash_clientside, { panelAsks: { told: hear } });

  lmscope.panelAsks = { question };
})();
