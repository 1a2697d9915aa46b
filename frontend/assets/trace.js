/* The trace page: what its panels share beyond what all pages of panels do (panels.js). */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const page = lmscope.panels.page({
    id: "trace-page", instrument: "trace", cannot: "trace-cannot", sized: "trace-place",
    refusal: { what: "This model has no lens", instead: "Choose a model that predicts the next token; attention can be looked at in this one." },
  });

  const rowName = (row) => (row === 0 ? "embedding" : "after block " + (row - 1));

  /** What an answer wants said, without what the lens beside it says already. */
  function notices(answer) {
    const lens = lmscope.trace.answer();
    return lmscope.panel.notices(answer).filter((said) => !(lens && lens.notices.includes(said)));
  }

  /** What a panel shows as calls of the Python client; `asks` are its questions, in order. */
  const code = (asks) => lmscope.panelWords.setProps("trace-code-ask", { data: { asks, origin: lmscope.info.server(), asked: Date.now() } });

  lmscope.trace = { ...lmscope.panelWords, ...page, rowName, notices, code };

  window.dash_clientside = Object.assign({}, window.dash_clientside, { trace: { start: page.start } });
})();
