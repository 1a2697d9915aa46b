/* Pictures are drawn again only where their place has another size, and a quick click on them is not lost. */
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

  const LOOK_MS = 60; // Plotly looks at most each 50 ms where the pointer is
  const NEAR_PX = 3;
  let told = false; // whether Plotly has told of the click that is being made
  const tell = () => { told = true; };
  const pictureOf = (event) => event.target.closest?.(".nsewdrag")?.closest(".js-plotly-plot");

  function pressed(event) {
    const drawn = pictureOf(event);
    if (!drawn) return;
    told = false;
    drawn.removeListener("plotly_click", tell);
    drawn.on("plotly_click", tell);
  }

  /** A look under a pressed button forgets where the pointer is: of a release before the next look Plotly tells no click. */
  function clicked(event) {
    const drawn = pictureOf(event);
    if (!drawn || told) return;
    let away = false;
    const moved = (to) => { away = Math.hypot(to.clientX - event.clientX, to.clientY - event.clientY) > NEAR_PX; };
    addEventListener("mousemove", moved, true);
    setTimeout(() => {
      removeEventListener("mousemove", moved, true);
      if (!told && !away && drawn._hoverdata) drawn.emit("plotly_click", { points: drawn._hoverdata, event });
    }, LOOK_MS);
  }

  document.addEventListener("mousedown", pressed, true);
  document.addEventListener("click", clicked, true);

  let plotly; // Dash loads it with the first picture
  Object.defineProperty(window, "Plotly", { configurable: true, get: () => plotly, set: (loaded) => calm((plotly = loaded)) });
})();
