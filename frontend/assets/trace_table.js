/* The lens of the trace page as a table, and as a file of numbers. */
(function () {
  "use strict";
  const lmscope = (window.lmscope = window.lmscope || {});
  const trace = lmscope.trace;
  const { rowName, tokenName, wordOf } = trace;
  let tabled = null; // what the table shows, so that a change of the focus does not fill it again

  /** Every cell of a side that was read, in the form that is wanted. */
  function cells(view, form) {
    const side = trace.lens.wordsSide(view);
    const { layers } = trace.answer();
    const rows = [];
    for (let token = 0; token < trace.lens.count(); token++)
      for (let row = 0; row <= layers; row++) {
        const found = trace.lens.cellAt(side, row, token);
        if (found) rows.push(form(row, token, found));
      }
    return rows;
  }

  function draw(view) {
    if (!trace.lens.fresh() || view.focus.tab !== "table") return;
    const state = [trace.lens.wordsSide(view), trace.part(), trace.turn()].join();
    if (state === tabled) return;
    tabled = state;
    const number = (field, headerName) => ({ field, headerName, type: "rightAligned", width: 104, filter: "agNumberColumnFilter", valueFormatter: { function: "lmscopeTrace.printed(params.value)" } });
    const word = (field, headerName) => ({ field, headerName, width: 118, filter: "agTextColumnFilter" });
    const columnDefs = [
      { field: "token", headerName: "token", pinned: "left", width: 96, cellClass: "head-link", filter: "agTextColumnFilter", comparator: { function: "lmscopeTrace.byPosition" } },
      { field: "row", headerName: "row", type: "rightAligned", width: 72, filter: "agNumberColumnFilter" },
      word("stage", "stage"), ...Array.from({ length: trace.lens.TOP }, (_, i) => [word("word " + (i + 1), "word " + (i + 1)), number("p " + (i + 1), "probability")]).flat(),
      number("entropy", "entropy, nats"), number("answer", "answer’s word"),
    ];
    const rowData = cells(view, (row, token, found) => ({
      position: token, token: tokenName(token), row, stage: rowName(row), entropy: found.entropy, answer: found.final,
      ...Object.fromEntries(found.ids.flatMap((id, i) => [["word " + (i + 1), wordOf(id)], ["p " + (i + 1), found.probability[i]]])),
    }));
    trace.setProps("trace-table", { columnDefs, rowData });
  }

  function csv() {
    const head = ["position", "token", "row", "stage", "entropy (nats)", "answer's word (probability)", ...Array.from({ length: trace.lens.TOP }, (_, i) => ["id " + (i + 1), "word " + (i + 1), "probability " + (i + 1), "logit " + (i + 1)]).flat()];
    const tokens = lmscope.strip.answer().tokens;
    const rows = cells(lmscope.view.get(), (row, token, found) => [token, tokens[token] ? tokens[token].piece : "", row, rowName(row), found.entropy, found.final, ...found.ids.flatMap((id, i) => [id, trace.answer().words[id], found.probability[i], found.logit[i]])]);
    lmscope.download.csv(trace.fileName("lens") + ".csv", [head, ...rows]);
  }

  trace.table = { csv };
  trace.join({ draw, anew: () => { tabled = null; } });

  const functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  functions.lmscopeTrace = {
    printed: (value) => (trace.answer() ? trace.share(value, trace.answer().conditions) : ""),
    byPosition: (a, b) => parseInt(a, 10) - parseInt(b, 10),
    clicked: (params) => params.column.getColId() === "token" && trace.lens.open(params.data.position, params.data.row),
    keyed: (params) => params.event.key === "Enter" && trace.lens.open(params.data.position, params.data.row),
  };
})();
