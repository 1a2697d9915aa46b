/* A panel of long experiments: one of several is open, each is a job with a form, progress, a stored picture, a table. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const weights = lmscope.weights;
  const { place, file, there } = weights;
  const { folded, notes, redraw, tools } = lmscope.panelParts;

  /**
   * `name` begins the panel's ids; `label` of the choice; `open(view)` and `choose(kind)` say and change which is open;
   * `controls` are shown for all. Each control is made once, {element, show(view)}; whatever it holds stands in the view.
   * `kinds`: by name {text, hint, what, go, controls, ask(view), missing(view), finds(view), drawn(view), height(answer) of
   * the picture in px, table(answer), words(answer), csv(answer), about: {unit, source, definition}}.
   */
  function panel({ name, label, open, choose, kinds, said = () => [], controls = [] }) {
    const at = (part) => place("weights-" + name + "-" + part);
    let choice = null;
    let drawn = null;
    const again = () => { drawn = null; weights.again(); };
    const jobs = Object.fromEntries(Object.entries(kinds).map(([kind, told]) => [kind, weights.asker("weights-" + kind, { kind, ask: (view) => (told.missing && told.missing(view) ? null : told.ask(view)), finds: finds(told), drawn: told.drawn, changed: again })]));
    let shared = [];
    const kindOf = () => open(lmscope.view.get());
    const answerOf = () => jobs[kindOf()].answer();

    function start() {
      drawn = null;
      choice = lmscope.panel.segmented("weights-" + name + "-kind", label, Object.entries(kinds).map(([kind, { text, hint }]) => [kind, text, hint]), choose);
      shared = controls.map((make) => make());
      at("choice").replaceChildren(choice.element, ...shared.map((control) => control.element));
      at("tools").replaceChildren(...tools(label, away, () => question() && weights.code([[kindOf(), question()]]), about));
      for (const [kind, told] of Object.entries(kinds)) {
        told.shown = (told.controls || []).map((make) => make());
        told.form = lmscope.dom.h("div.weights-filters", {}, told.shown.map((control) => control.element));
        jobs[kind].start();
      }
    }

    const question = () => jobs[kindOf()].question();

    function away() {
      const kind = kindOf();
      const figure = "weights-" + kind + "-figure";
      return [["PNG", () => there(answerOf()) && lmscope.download.plot(figure, "png", file(kind))], ["SVG", () => there(answerOf()) && lmscope.download.plot(figure, "svg", file(kind))],
        ["CSV", () => there(answerOf()) && lmscope.download.csv(file(kind) + ".csv", kinds[kind].csv(answerOf()))], ["JSON of the answer", () => there(answerOf()) && lmscope.download.json(file(kind) + ".json", answerOf())]];
    }

    function about() {
      const { text, what, about: told } = kinds[kindOf()];
      const answer = answerOf();
      return { title: text, definition: [what, ...told.definition, ...(answer ? [answer.about] : [])], unit: told.unit, source: told.source, conditions: answer && answer.conditions };
    }

    function draw(view) {
      const { h } = lmscope.dom;
      const kind = open(view);
      const job = jobs[kind];
      choice.show(kind);
      for (const control of [...shared, ...kinds[kind].shown]) control.show(view);
      job.follow();
      const why = missing(view, kind);
      const state = JSON.stringify([kind, job.question(), job.job(), job.isLive(), Boolean(job.answer()), job.isRefused(), why, kinds[kind].drawn && kinds[kind].drawn(view)]);
      if (state === drawn) return;
      drawn = state;
      at("what").textContent = kinds[kind].what;
      if (at("form").firstElementChild !== kinds[kind].form) at("form").replaceChildren(kinds[kind].form, h("span.steer-row", { id: "weights-" + name + "-go-row" }));
      redraw(place("weights-" + name + "-go-row"), [h("button.primary", { type: "button", id: "weights-" + name + "-go", disabled: Boolean(why), onclick: job.begin }, kinds[kind].go), " ", h("span.note", {}, why.trim())]);
      redraw(at("state"), job.isLive() ? [job.progress(kinds[kind].text)] : job.endings().map((text) => h("p.make-ending", {}, text)));
      for (const each of Object.keys(kinds)) {
        place("weights-" + each + "-picture").hidden = each !== kind || !job.answer();
        for (const part of ["-notice", "-look-notice"]) place("weights-" + each + part).hidden = each !== kind || !job.isRefused();
      }
      if (job.answer()) place("weights-" + kind + "-picture").style.height = kinds[kind].height(job.answer()) + "px";
      results(kind, job, view);
    }

    function missing(view, kind) {
      if (jobs[kind].isLive()) return "It is running.";
      const wrong = [...at("form").querySelectorAll("input[type=number]")].find((input) => !input.checkValidity());
      return wrong ? "Correct “" + wrong.closest("label").firstChild.textContent + "”: " + wrong.validationMessage : kinds[kind].missing ? kinds[kind].missing(view) : "";
    }

    function results(kind, job, view) {
      const answer = job.answer();
      at("table").hidden = !answer; // a table that was open stays so
      if (!answer) {
        at("about").replaceChildren();
        if (at("words")) at("words").replaceChildren();
        return;
      }
      if (answer.words) lmscope.panelWords.learn(answer.words);
      at("about").replaceChildren([...said(answer), lmscope.dom.sentence(answer.about)].join(" "), ...notes([...answer.notices, ...Object.entries(answer.why || {}).map(([part, why]) => part + " is left out: " + why)]));
      if (at("words")) redraw(at("words"), kinds[kind].words ? kinds[kind].words(answer, view) : []);
      folded(at("table"), "The numbers as a table", () => kinds[kind].table(answer));
    }

    weights.join({ start, draw, retry: () => Object.values(jobs).forEach((job) => job.retry()), anew: () => { drawn = null; } });
    return { jobs, again };
  }

  /** What is answered before is looked for once the models are there: whatever else is loaded under a name counts no more. */
  const isLoaded = (model, revision) => (lmscope.shelf.card({ model, revision }) || {}).state === "loaded";
  const finds = (told) => (view) => isLoaded(view.model, view.revision) && (!told.ask(view).other || isLoaded(told.ask(view).other, null));

  weights.experiments = panel;
})();
