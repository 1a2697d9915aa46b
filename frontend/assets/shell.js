/* What Dash calls: the start of the shell, and the answers that the scripts draw. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  let started = false;

  const start = () => {
    if (started) return window.dash_clientside.no_update;
    started = true;
    lmscope.theme.start();
    lmscope.notice.start();
    lmscope.tab.start();
    for (const part of ["rail", "picker", "prompt", "status", "strip", "steers", "edits", "share"]) if (lmscope[part]) lmscope[part].start();
    lmscope.view.start();
    return lmscope.tab.id;
  };

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    shell: {
      start,
      shelf: (data) => lmscope.shelf.receive(data),
      tokens: (data) => lmscope.strip && lmscope.strip.tokens(data),
      steers: (data) => lmscope.steers && lmscope.steers.receive(data),
      scores: (data) => lmscope.strip && lmscope.strip.scores(data),
    },
  });
})();
