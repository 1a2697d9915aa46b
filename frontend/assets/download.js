/* Taking pictures and numbers away: PNG, SVG, CSV and JSON, made in the browser. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});

  function save(name, blob) {
    const address = URL.createObjectURL(blob);
    const anchor = lmscope.dom.h("a", { href: address, download: name, hidden: true });
    document.body.append(anchor);
    anchor.click();
    anchor.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
  }

  const text = (name, content, type) => save(name, new Blob([content], { type: type + ";charset=utf-8" }));
  const json = (name, value) => text(name, JSON.stringify(value, null, 1), "application/json");

  /** A field that no reader splits, and that no spreadsheet takes for a formula. */
  function field(value) {
    if (value === null || value === undefined || (typeof value === "number" && !Number.isFinite(value))) return "";
    if (typeof value === "number") return String(value);
    const safe = /^[=+\-@\t\r]/.test(value) ? "'" + value : String(value);
    return /[",\r\n]/.test(safe) ? '"' + safe.replace(/"/g, '""') + '"' : safe;
  }

  const csvText = (rows) => rows.map((row) => Array.from(row, field).join(",")).join("\r\n") + "\r\n";
  const csv = (name, rows) => text(name, "\ufeff" + csvText(rows), "text/csv");

  /** One row a head, every statistic (decoded) beside its uniform value. */
  function statisticRows({ layers, heads }, statistics) {
    const rows = [["layer", "head", ...statistics.flatMap(({ name, unit }) => [name + " (" + unit + ")", name + " uniform"]), "rows"]];
    layers.forEach((layer, row) => {
      for (let head = 0; head < heads; head++) {
        const index = row * heads + head;
        rows.push([layer, head, ...statistics.flatMap(({ value, uniform }) => [value[index], uniform[index]]), statistics[0].rows[index]]);
      }
    });
    return rows;
  }

  /** A file name out of words. */
  const named = (...words) => words.join("-").replace(/[^A-Za-z0-9.-]+/g, "-").replace(/-+/g, "-").slice(0, 100);

  const canvas = (name, drawn) => drawn.toBlob((blob) => save(name, blob), "image/png");

  /** A Plotly figure; the page's background is put behind it. */
  async function plot(id, kind, name) {
    const drawn = document.querySelector("#" + id + " .js-plotly-plot");
    const { width, height } = drawn.getBoundingClientRect();
    const layout = { ...drawn.layout, paper_bgcolor: background(drawn), width: Math.round(width), height: Math.round(height), autosize: false };
    const address = await window.Plotly.toImage({ data: drawn.data, layout }, { format: kind, scale: kind === "png" ? 2 : 1, width: Math.round(width), height: Math.round(height) });
    const response = kind === "svg" ? new Blob([decodeURIComponent(address.slice(address.indexOf(",") + 1))], { type: "image/svg+xml" }) : bytes(address);
    save(name + "." + kind, response);
  }

  /** A data: address as a Blob, without asking the network. */
  function bytes(address) {
    const raw = atob(address.slice(address.indexOf(",") + 1));
    return new Blob([Uint8Array.from(raw, (character) => character.charCodeAt(0))], { type: "image/png" });
  }

  function background(element) {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (colour && !/rgba\(0, 0, 0, 0\)|transparent/.test(colour)) return colour;
    }
    return "#ffffff";
  }

  const STYLES = ["fill", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "fill-opacity", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline"];

  /** An SVG of the page as text, with the styles that the style sheet gave it. */
  function svgText(element) {
    const copy = element.cloneNode(true);
    const from = element.querySelectorAll("*");
    copy.querySelectorAll("*").forEach((node, i) => {
      const style = getComputedStyle(from[i]);
      for (const name of STYLES) if (style.getPropertyValue(name)) node.setAttribute(name, style.getPropertyValue(name));
      node.removeAttribute("class");
    });
    copy.removeAttribute("class");
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    const { width, height } = element.getBoundingClientRect();
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.setAttribute("style", "background:" + background(element));
    return new XMLSerializer().serializeToString(copy);
  }

  async function svg(element, kind, name) {
    const source = svgText(element);
    if (kind === "svg") return text(name + ".svg", source, "image/svg+xml");
    const { width, height } = element.getBoundingClientRect();
    const image = new Image();
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(source);
    await image.decode();
    const drawn = lmscope.dom.h("canvas", { width: Math.round(width * 2), height: Math.round(height * 2) });
    const context = drawn.getContext("2d");
    context.fillStyle = background(element);
    context.fillRect(0, 0, drawn.width, drawn.height);
    context.drawImage(image, 0, 0, drawn.width, drawn.height);
    canvas(name + ".png", drawn);
  }

  lmscope.download = { json, csv, csvText, canvas, plot, svg, svgText, named, statisticRows };
})();
