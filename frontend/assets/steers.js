/* The sliders that a model has, as the browser knows them: asked for on the Steer page, and wherever an edit is one. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const KINDS = ["steer", "residual.add"];
  const listeners = new Set();
  let asked = null; // the model that was asked for last
  let have = null; // {key, cards}
  let due = 0;

  const keyOf = ({ model, revision }) => JSON.stringify([model, revision || null]);
  const isSlider = (edit) => KINDS.includes(edit.kind);
  const wanted = (view) => lmscope.view.instrument() === "steer" || view.edits.some(isSlider);

  /** Ask for the shelf of the view's model, unless it is here; `again`: even then. */
  function ask(view, again = false) {
    const key = keyOf(view);
    const wasRefused = Boolean(document.querySelector("#steers-notice > *")) && !lmscope.busy.isOut("steers.data"); // as while the model is loaded
    if (lmscope.view.isHeld() || !wanted(view) || (key === asked && !again && !wasRefused)) return;
    asked = key;
    window.dash_clientside.set_props("steers-ask", { data: { model: view.model, revision: view.revision || null, due: ++due } });
  }

  function receive(data) {
    if (!data) return;
    have = { key: keyOf(data), cards: data.shelf.steers };
    for (const listener of listeners) listener();
  }

  /** Every slider of the server with whether it fits this model, [{card, fits, why}]; null while it is not known. */
  const now = () => {
    const view = lmscope.view.get();
    return have && view && have.key === keyOf(view) ? have.cards : null;
  };

  /** The card of an edit that is a slider, or null. */
  function cardOf(edit) {
    const id = edit.kind === "steer" ? edit.steer : edit.vector;
    const found = (now() || []).find(({ card }) => card.id === id && (card.kind === "steer" || card.layer === edit.layer));
    return found ? found.card : null;
  }

  const refresh = () => lmscope.view.get() && ask(lmscope.view.get(), true);

  function start() {
    lmscope.view.subscribe((view) => ask(view));
    window.addEventListener("_dashprivate_pushstate", () => lmscope.view.get() && ask(lmscope.view.get()));
  }

  lmscope.steers = { start, receive, now, cardOf, isSlider, refresh, listeners };
})();
