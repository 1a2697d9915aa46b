/* Pictures are drawn again only where their place has another size. */
(function () {
  "use strict";

  /** Dash asks each picture to fit its place once it is drawn and at each sign of a change; Plotly then draws it anew. */
  function calm(plotly) {
    const resize = plotly.Plots.resize;
    plotly.Plots.resize = (drawn) => (fits(drawn) ? Promise.resolve(drawn) : resize(drawn));
  }

  /** Whether it was drawn in the size that its place has now. What is not shown has none until it is. */
  function fits(drawn) {
    if (!drawn.getClientRects().length) return true;
    const { width, height } = drawn._fullLayout || {};
    const place = getComputedStyle(drawn);
    return Math.abs(parseFloat(place.width) - width) < 1 && Math.abs(parseFloat(place.height) - height) < 1;
  }

  let plotly; // Dash loads it with the first picture
  Object.defineProperty(window, "Plotly", { configurable: true, get: () => plotly, set: (loaded) => calm((plotly = loaded)) });
})();
