// The table of runs, by which runs are selected, and the differences of their configs.

// Returns the columns with metrics: {split, key}, in the order in which they first appear.
function metricColumns(runs) {
  const columns = new Map();
  for (const run of runs) {
    for (const { split, key } of run.curves) if (split) columns.set(split + " " + key, { split, key });
  }
  return [...columns].map(([name, column]) => ({ name, ...column }));
}

// Returns the value of a metric for the saved weights; the last value if these were not measured.
function metricOf(run, { split, key }) {
  const curve = run.curves.find(c => c.split === split && c.key === key);
  if (!curve) return null;
  const at = curve.x.lastIndexOf(run.model_step);
  return curve.y[at < 0 ? curve.y.length - 1 : at];
}

// Returns the curve by which the run chooses its weights, or null.
function goalCurve(run) {
  const of = key => run.curves.find(c => c.split === "validation" && c.key === key) || run.curves.find(c => c.split && c.key === key);
  return of(run.goal) || of("loss") || null;
}

// Returns the best evaluation {name, value, step}, or null.
function bestOf(run) {
  const curve = goalCurve(run);
  const at = curve ? bestIndex(curve, (run.rising || []).includes(curve.key)) : -1;
  return at < 0 ? null : { name: `${curve.split} ${curve.key}`, value: curve.y[at], step: curve.x[at], isRising: (run.rising || []).includes(curve.key) };
}

// Returns the runs with the best evaluation first.
function byQuality(runs) {
  const rank = run => {
    const best = bestOf(run);
    return best ? (best.isRising ? -best.value : best.value) : Infinity;
  };
  return [...runs].sort((a, b) => rank(a) - rank(b) || (a.index - b.index));
}

function bestFirst(runs) {
  const first = byQuality(runs).map(bestOf).find(best => best !== null);
  return { name: "best", isDown: Boolean(first && first.isRising) };
}

function warningsOf(run) {
  const list = Array.isArray(run.warnings) ? run.warnings.map(String) : [];
  return run.message ? [String(run.message), ...list] : list;
}

// Returns the columns of the table: {name, value(run), shown(run)}.
function runColumns(runs) {
  const loss = run => run.curves.find(c => c.key === "loss" && !c.split);
  const columns = [
    { name: "state", isText: true, value: run => run.state, shown: run => make("span", { class: "state " + run.state }, run.state) },
    { name: "step", value: run => run.step },
    { name: "best", value: run => (b => b && b.value)(bestOf(run)),
      shown: run => (b => b ? `${number(b.value)} @ ${short(b.step)}` : "")(bestOf(run)), tip: run => (b => b ? `${b.name}, step ${number(b.step)}` : "")(bestOf(run)) },
    { name: "train loss", value: run => (c => c ? c.y[c.y.length - 1] : null)(loss(run)) },
    ...metricColumns(runs).map(column => ({ name: column.name, value: run => metricOf(run, column), isMetric: true,
      isRising: runs.some(run => (run.rising || []).includes(column.key)) })),
    { name: "training", value: run => run.seconds, shown: run => duration(run.seconds) },
    { name: "samples/s", value: run => run.samples_per_second, shown: run => isNumber(run.samples_per_second) ? short(Math.round(run.samples_per_second)) : "" },
    { name: "peak memory", value: run => run.peak_bytes, shown: run => mebibytes(run.peak_bytes) },
    { name: "warnings", isText: true, value: run => warningsOf(run).join("; ") },
  ];
  return columns.filter(column => runs.some(run => ![null, undefined, ""].includes(column.value(run))));
}

function sortedRuns(columns) {
  const wanted = state.filter.toLowerCase();
  const runs = state.runs.filter(run => run.name.toLowerCase().includes(wanted));
  const column = columns.find(c => c.name === state.sort.name);
  const value = column ? column.value : run => (state.sort.name === "run" ? run.name : run.index);
  const order = (a, b) => {
    const [x, y] = [value(a), value(b)], isMissing = v => v === null || v === undefined || v === "";
    if (isMissing(x) || isMissing(y)) return isMissing(x) - isMissing(y);
    return (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y) * (state.sort.isDown ? -1 : 1);
  };
  return runs.sort(order);
}

function headCell(name, isText) {
  const isSorted = state.sort.name === name;
  const click = () => {
    state.sort = { name, isDown: isSorted ? !state.sort.isDown : false };
    render();
  };
  return make("th", { class: `is-sortable ${isText ? "text" : ""} ${name === "run" ? "first" : ""}`, scope: "col",
    "aria-sort": isSorted ? (state.sort.isDown ? "descending" : "ascending") : "none" },
    make("button", { type: "button", class: "link", click }, name + (isSorted ? (state.sort.isDown ? " ▼" : " ▲") : "")));
}

// Returns for each metric column the best value of all runs.
function bestValues(columns) {
  const best = new Map();
  for (const column of columns.filter(c => c.isMetric)) {
    const range = rangeOf([state.runs.map(column.value)]);
    if (range && state.runs.length > 1) best.set(column.name, range[column.isRising ? 1 : 0]);
  }
  return best;
}

function runRow(run, columns, best) {
  const isSelected = state.selected.has(run.name);
  const box = make("input", { type: "checkbox", checked: isSelected, "aria-label": `show ${run.name}`, change: event => {
    event.target.checked ? state.selected.add(run.name) : state.selected.delete(run.name);
    render();
  } });
  const name = make("button", { type: "button", class: "link", title: run.name, click: () => { state.focus = run.name; render(); } }, run.label);
  const cells = columns.map(column => {
    const shown = column.shown ? column.shown(run) : typeof column.value(run) === "string" ? column.value(run) : number(column.value(run));
    const isBest = best.has(column.name) && column.value(run) === best.get(column.name);
    const title = column.tip ? column.tip(run) : column.isText ? String(column.value(run) || "").slice(0, 2000) : null;
    return make("td", { class: `${column.isText ? "text" : ""} ${isBest ? "is-best" : ""}`, title: title || null }, shown);
  });
  return make("tr", { class: run.name === state.focus ? "is-focus" : "", "data-run": run.name,
    mouseenter: () => emphasize(run.name), mouseleave: () => emphasize(null) },
    make("th", { class: "first", scope: "row" }, make("div", { class: "first-content" }, make("label", {}, box,
      make("i", { class: `swatch ${isSelected && !isCrowded() ? "k" + run.slot : "is-off"}` }), name))), cells);
}

// Fades the curves of all other runs.
function emphasize(name) {
  for (const group of document.querySelectorAll("#curves .run[data-run]")) {
    group.classList.toggle("is-dim", name !== null && state.selected.has(name) && group.dataset.run !== name);
  }
}

function select(runs) {
  state.selected = new Set(runs.map(run => run.name));
  render();
}

function runTools() {
  const filter = make("input", { type: "search", placeholder: "Filter runs by name", "aria-label": "Filter runs by name", value: state.filter,
    input: event => { state.filter = event.target.value; render(); } });
  const visible = () => sortedRuns([]);
  const button = (text, runs) => make("button", { type: "button", click: () => select(runs()) }, text);
  return make("div", { class: "tools" }, filter, button(`Best ${MOST_AT_ONCE}`, () => byQuality(visible()).slice(0, MOST_AT_ONCE)),
    button("All", visible), button("None", () => []), make("output", { class: "note", id: "count" }));
}

function renderRuns() {
  const box = document.getElementById("runs");
  const columns = runColumns(state.runs), best = bestValues(columns), runs = sortedRuns(columns);
  const table = make("table", {},
    make("thead", {}, make("tr", {}, headCell("run", true), columns.map(column => headCell(column.name, column.isText)))),
    make("tbody", {}, runs.map(run => runRow(run, columns, best))));
  const scroll = box.querySelector(".scroll") || make("div", { class: "scroll is-tall", tabindex: "0" });
  const place = [scroll.scrollLeft, scroll.scrollTop];
  scroll.replaceChildren(table);
  if (!scroll.isConnected) box.append(state.runs.length > 1 ? runTools() : "", scroll);
  if (state.runs.length > 1 && !box.querySelector(".tools")) box.prepend(runTools());
  [scroll.scrollLeft, scroll.scrollTop] = place;
  const count = document.getElementById("count");
  if (count) count.value = `${state.selected.size} of ${state.runs.length} shown. A name opens its run below.`;
}

// --- differences of configs ---

// Returns the paths of settings in which the runs differ.
function differingSettings(runs) {
  const values = new Map();
  for (const run of runs) for (const key of Object.keys(run.settings)) values.set(key, null);
  const isDifferent = key => runs.some(run => run.settings[key] !== runs[0].settings[key]);
  return [...values.keys()].filter(key => key !== "name" && isDifferent(key)).sort();
}

function renderDifferences(runs) {
  const box = document.getElementById("differences");
  if (runs.length < 2) return box.replaceChildren();
  const keys = differingSettings(runs), head = make("h2", {}, "Differences of configs");
  if (keys.length === 0) return box.replaceChildren(head, make("p", { class: "note" }, "The selected runs have the same config."));
  const rows = runs.map(run => make("tr", {},
    make("th", { class: "first", scope: "row", title: run.name }, make("label", {}, make("i", { class: `swatch ${isCrowded() ? "is-off" : "k" + run.slot}` }), make("span", { class: "link" }, run.label))),
    keys.map(key => make("td", { title: run.settings[key] || null }, run.settings[key] === undefined ? "–" : String(run.settings[key]).slice(0, 80)))));
  const table = make("table", {}, make("thead", {}, make("tr", {}, make("th", { class: "first" }, "run"),
    keys.map(key => make("th", { scope: "col" }, key)))), make("tbody", {}, rows));
  const scroll = box.querySelector(".scroll") || make("div", { class: "scroll is-tall", tabindex: "0" });
  const place = [scroll.scrollLeft, scroll.scrollTop];
  scroll.replaceChildren(table);
  box.replaceChildren(head, scroll);
  [scroll.scrollLeft, scroll.scrollTop] = place;
}
