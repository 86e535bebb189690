// The state of the page, and its drawing.
//
// The data are {"is_live": boolean, "runs": [run, ...]}. A run (apps/runner/report/run_data.h) has
//   name, state, message, warnings, step, epoch, model_step, best_step, thresholds
//   seconds, samples_per_second, peak_bytes, peak_ratio     of the training, where they are known
//   curves    [{key, split, x, y, low, high}]; split is "" for training; low and high only if points
//             of the curve were joined
//   goal      the metric by which the weights are chosen; rising: the metrics that are better when
//             larger
//   rates     {lr, loss, average} of `taper lr-find`, or null
//   confusion, evaluation, class_names     apps/runner/run/class_details.h, evaluation_file.h
//   settings  the config by paths; config: its YAML; system: env.json; samples: a text

const MOST_AT_ONCE = 8;  // runs that are shown at first, and have colors of their own

const state = {
  runs: [], selected: new Set(), focus: null, isLive: false,
  smoothing: 0.6, showsRaw: true, log: new Map(),
  sort: { name: "", isDown: false }, filter: "", open: new Set(),
  isPointing: false, isDue: false,
};

// Returns the longest beginning, up to a slash, that all names share.
function commonFolder(names) {
  let folder = names.length > 1 ? names[0].slice(0, names[0].lastIndexOf("/") + 1) : "";
  while (folder && !names.every(name => name.startsWith(folder))) folder = folder.slice(0, folder.lastIndexOf("/", folder.length - 2) + 1);
  return folder;
}

// Takes over the data. Runs that have appeared are selected while few are.
function take(data) {
  const known = new Set(state.runs.map(run => run.name)), isFirst = known.size === 0;
  state.runs = data.runs;
  state.isLive = data.is_live;
  const folder = commonFolder(state.runs.map(run => run.name));
  state.runs.forEach((run, index) => Object.assign(run, { index, label: run.name.slice(folder.length) || run.name }));
  if (isFirst && state.runs.length > MOST_AT_ONCE) state.sort = bestFirst(state.runs);
  const names = new Set(state.runs.map(run => run.name));
  state.selected = new Set([...state.selected].filter(name => names.has(name)));
  const fresh = isFirst ? byQuality(state.runs) : state.runs.filter(run => !known.has(run.name));
  for (const run of fresh) if (state.selected.size < MOST_AT_ONCE) state.selected.add(run.name);
  if (!names.has(state.focus)) state.focus = state.runs.length > 0 ? byQuality(state.runs)[0].name : null;
}

// Gives each selected run a color that it keeps while it is selected.
function assignSlots() {
  const selected = state.runs.filter(run => state.selected.has(run.name));
  const taken = new Map([...state.slots || []].filter(([name]) => state.selected.has(name)));
  for (const run of selected) {
    const used = [...taken.values()];
    let slot = [0, 1, 2, 3, 4, 5, 6, 7].find(i => !used.includes(i));
    if (slot === undefined) slot = taken.size % MOST_AT_ONCE;
    if (!taken.has(run.name)) taken.set(run.name, slot);
    run.slot = taken.get(run.name);
  }
  state.slots = taken;
  return selected;
}

function render() {
  state.isDue = false;
  const selected = assignSlots(), counts = new Map();
  for (const run of state.runs) counts.set(run.state, (counts.get(run.state) || 0) + 1);
  document.getElementById("summary").textContent = state.runs.length === 0 ? "There are no runs yet."
    : `${plural(state.runs.length, "run")}: ` + [...counts].map(([name, count]) => `${count} ${name}`).join(", ");
  document.querySelector("main").hidden = state.runs.length === 0;
  const place = window.scrollY;
  hideTip();
  renderRuns();
  renderCurves(selected);
  renderDifferences(selected);
  renderDetails(state.runs.find(run => run.name === state.focus));
  window.scrollTo(window.scrollX, place);
}

function renderIfDue() { if (state.isDue && !state.isPointing) render(); }

// Asks the server of `taper report --serve` for changes, and draws them when no pointer is on a chart.
async function follow() {
  const live = document.getElementById("live"), pause = 2000;
  let tag = "";
  for (;;) {
    await new Promise(done => setTimeout(done, pause));
    if (document.hidden) continue;
    try {
      const answer = await fetch("data.json", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
      live.className = "";
      live.textContent = "refreshes while runs train";
      if (answer.status === 304) continue;
      if (!answer.ok) throw new Error(String(answer.status));
      tag = answer.headers.get("ETag") || "";
      take(await answer.json());
      state.isDue = true;
      renderIfDue();
    } catch {
      live.className = "is-lost";
      live.textContent = "the server does not answer; this is its last state";
    }
  }
}

take(JSON.parse(document.getElementById("data").textContent));
render();
let lastWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth !== lastWidth) render();
  lastWidth = window.innerWidth;
});
if (state.isLive) follow();
