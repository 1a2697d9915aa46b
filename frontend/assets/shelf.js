/* The server's models, as the browser knows them. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const STATES = ["loaded", "loading", "cached", "known", "failed"]; // best first
  const listeners = new Set();
  let models = null;
  let due = 0;
  let arrived;
  const arrival = new Promise((resolve) => (arrived = resolve));

  /** Called by Dash with every answer of the shelf callback. */
  function receive(data) {
    if (!data) return;
    models = data;
    arrived();
    for (const listener of listeners) listener(models);
  }

  const refresh = () => window.dash_clientside.set_props("shelf-due", { data: ++due });

  /** The best card of the model that a view names: of its revision, and one that works before one that does not. */
  function card(view) {
    if (!models || !view) return null;
    const [name, at] = isHubId(view.model) ? view.model.split("@") : [view.model];
    const revision = view.revision || at;
    const fits = models.models.filter((each) => each.name === name && (!revision || each.revision === revision));
    return fits.sort((a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state))[0] || null;
  }

  const isHubId = (name) => /^[a-z\d][\w.-]*\/[a-z\d][\w.-]*(@.+)?$/i.test(name);

  /** Whether opening this view would download something; known when the shelf has arrived. */
  const wouldFetch = (view) => arrival.then(() => {
    const found = card(view);
    return found ? found.state === "known" : isHubId(view.model);
  });

  const defaultModel = () => arrival.then(() => models.default);

  lmscope.shelf = { receive, refresh, card, wouldFetch, defaultModel, now: () => models, subscribe: (listener) => { listeners.add(listener); if (models) listener(models); } };
})();
