/* Pictures are laid out once and drawn again only where their place has another size, and a quick click on them is not lost. */
(function () {
  "use strict";

  /** Dash asks each picture to fit its place once it is drawn and at each sign of a change; Plotly then draws it anew. */
  function calm(plotly) {
    const resize = plotly.Plots.resize;
    plotly.Plots.resize = (drawn) => {
      if (fits(drawn)) return Promise.resolve(drawn);
      if (given.has(drawn.layout.margin)) drawn.layout.margin = room(drawn, drawn);
      return resize(drawn);
    };
  }

  /** Whether it was drawn in the size that its place has now. What is not shown has none until it is. */
  function fits(drawn) {
    if (!drawn.getClientRects().length) return true;
    const { width, height } = drawn._fullLayout || {};
    const place = getComputedStyle(drawn);
    return Math.abs(parseFloat(place.width) - width) < 1 && Math.abs(parseFloat(place.height) - height) < 1;
  }

  // Pixels that Plotly leaves beside labels, for ticks that point outwards, for a title, for a bar of colours and a line of a legend.
  const [BESIDE, TICK, TITLE, BAR, LEGEND] = [9, 7.2, 16.4, 58.7, 37];
  const [UNDER, LINE] = [2.2, 1.3]; // more below labels that stand upright; height of a line of letters
  const NUMBER = "0.5"; // as wide as most numbers beside an axis
  const OUT = 0.02; // bars and legends stand off by this share of the picture

  const given = new WeakSet(); // margins that are from here

  /** Plotly draws a picture, and once more when its labels need more room than its margins: it is told what they will need. */
  function roomy(plotly) {
    const react = plotly.react;
    plotly.react = (place, figure, ...rest) => {
      const { data, layout } = figure;
      const plain = !data || !data.length || !layout || layout.margin || !layout.template;
      return react(place, plain ? figure : { ...figure, layout: { ...layout, margin: room(place, figure) } }, ...rest);
    };
  }

  function room(place, { data, layout }) {
    const { margin, ...look } = layout.template.layout;
    const found = { ...margin };
    given.add(found);
    const need = (side, px) => { found[side] = Math.max(found[side], Math.ceil(px)); };
    for (const key of Object.keys(layout).filter((each) => /^[xy]axis\d*$/.test(each))) {
      const axis = { ...look[key.slice(0, 5)], ...layout[key] };
      if (axis.visible !== false && axis.showticklabels !== false) need(...beside(key, axis, data, look.font));
    }
    const { clientWidth, clientHeight } = typeof place === "string" ? document.getElementById(place) : place;
    const off = (px, length) => (px + OUT * length) / (1 + OUT);
    const coloured = data.find((each) => each.type === "heatmap" && each.showscale !== false && each.colorbar?.title?.text);
    const letters = `${look.xaxis.tickfont.size}px ${look.font.family}`;
    if (coloured) need("r", off(BAR + widthOf(numberOn(coloured), letters), clientWidth - found.l));
    const named = data.filter((each) => each.type !== "heatmap" && each.showlegend !== false);
    if (layout.showlegend ?? named.length > 1) need("t", off(LEGEND, clientHeight - found.b));
    return found;
  }

  /** A number as long as those beside a bar of colours, which has about five of them. */
  function numberOn({ zmin, zmax }) {
    const most = Math.max(Math.abs(zmin ?? 0), Math.abs(zmax ?? 1)) || 1;
    const step = (zmax - zmin || most) / 5;
    return (zmin < 0 ? "−" : "") + most.toFixed(Math.max(0, Math.min(6, -Math.floor(Math.log10(step)))));
  }

  /** The side of an axis, and the pixels that its labels and title take there; 0 where only Plotly knows how they stand. */
  function beside(key, axis, data, font) {
    const letter = key[0], across = letter === "x", upright = across && Math.abs(axis.tickangle) === 90;
    const side = { left: "l", right: "r", top: "t", bottom: "b" }[axis.side || (across ? "bottom" : "left")];
    const mine = data.filter((each) => (each[letter + "axis"] || letter) === key.replace("axis", ""));
    const words = axis.ticktext || mine.flatMap((each) => (Array.isArray(each[letter]) ? each[letter] : []).filter((one) => typeof one === "string"));
    if (across && words.length && !upright && axis.tickangle !== 0) return [side, 0];
    const { size } = axis.tickfont, letters = `${size}px ${font.family}`;
    const labels = across && !upright ? LINE * size : Math.max(...(words.length ? words : [NUMBER]).map((each) => widthOf(each, letters)));
    const outside = axis.ticks ? axis.ticks === "outside" : mine.some((each) => each.type === "heatmap");
    return [side, BESIDE + labels + (outside ? TICK : 0) + (axis.title?.text ? TITLE : 0) + (upright && side === "b" ? UNDER : 0)];
  }

  const pen = document.createElement("canvas").getContext("2d");

  function widthOf(label, letters) {
    pen.font = label.includes("<b>") ? `bold ${letters}` : letters;
    return Math.max(...label.split("<br>").map((line) => pen.measureText(line.replace(/<[^>]*>/g, "")).width));
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
  Object.defineProperty(window, "Plotly", { configurable: true, get: () => plotly, set: (loaded) => { plotly = loaded; calm(plotly); roomy(plotly); } });
})();
