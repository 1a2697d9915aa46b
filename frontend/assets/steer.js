/* The steer page: what its panels share beyond what all pages of panels do (panels.js). */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const { setProps } = lmscope.panelWords;
  const page = lmscope.panels.page({
    id: "steer-page", instrument: "steer", cannot: "steer-cannot", sized: "steer-page",
    refusal: { what: "This model cannot be steered", instead: "Choose a model that predicts the next token; attention can be looked at in this one." },
  });

  /** What a panel shows as calls of the Python client; `asks` are its questions by the client’s method, in order. */
  const code = (asks) => setProps("steer-code-ask", { data: { asks, origin: lmscope.info.server(), asked: Date.now() } });

  /** Every slider of the server, [{card, fits, why}], or null while it is not known; `refresh` after one was made. */
  const shelf = () => lmscope.steers.now();
  const fitting = () => (shelf() || []).filter((each) => each.fits).map((each) => each.card);

  /** The steer that is looked into, swept and moved: the one that was chosen, else the first that fits. */
  const chosen = (view) => fitting().find((card) => card.id === view.focus.steer) || fitting().find((card) => card.kind === "steer") || null;
  const choose = (id) => lmscope.panel.focus({ steer: id });

  lmscope.steer = { ...lmscope.panelWords, ...page, code, shelf, fitting, chosen, choose, refresh: () => lmscope.steers.refresh() };

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    steer: { start: page.start, code: (data) => data && lmscope.info.code(data) },
  });
  window.addEventListener("load", () => lmscope.steers.listeners.add(() => page.again()));
})();
