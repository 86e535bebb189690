// The curves of all selected runs, one chart for each metric.

// Returns the exponential moving average of the values, without the bias of its beginning.
function smoothed(values, weight) {
  let sum = 0, all = 0;
  return values.map(value => {
    if (!isNumber(value)) return null;
    sum = weight * sum + (1 - weight) * value;
    all = weight * all + (1 - weight);
    return sum / all;
  });
}

// Returns the index of the best value of a curve, or -1.
function bestIndex(curve, isRising) {
  let best = -1;
  curve.y.forEach((value, i) => {
    if (isNumber(value) && (best < 0 || (isRising ? value > curve.y[best] : value < curve.y[best]))) best = i;
  });
  return best;
}

// Returns whether there are more lines than colors. Raw values and marks would then hide the lines.
function isCrowded() { return state.selected.size > MOST_AT_ONCE; }

const FIRST_CHARTS = ["loss"], LAST_CHARTS = ["lr", "grad_norm", "samples_per_second"];

function chartRank(key) {
  if (FIRST_CHARTS.includes(key)) return 0;
  const last = LAST_CHARTS.indexOf(key);
  return last < 0 ? 1 : 2 + last;
}

// Returns for each metric its lines: {run, curve, shown}, where `shown` are the smoothed values of
// training, and the values themselves of an evaluation.
function chartsOf(runs) {
  const charts = new Map();
  for (const run of runs) {
    for (const curve of run.curves) {
      if (!charts.has(curve.key)) charts.set(curve.key, []);
      const isSmooth = !curve.split && !["lr", "samples_per_second"].includes(curve.key) && curve.y.length > 3;
      charts.get(curve.key).push({
        run, curve, isSmooth, label: curve.split,
        shown: isSmooth ? smoothed(curve.y, state.smoothing) : curve.y,
        best: curve.split && curve.y.length > 1 ? bestIndex(curve, (run.rising || []).includes(curve.key)) : -1,
      });
    }
  }
  return [...charts].sort((a, b) => chartRank(a[0]) - chartRank(b[0]));
}

// Returns the chart of `taper lr-find`, or null.
function rateChart(runs) {
  const lines = [];
  for (const run of runs.filter(run => run.rates && run.rates.lr)) {
    for (const [key, label] of [["loss", "loss"], ["average", "average loss"]]) {
      const curve = { key, split: label, x: run.rates.lr, y: run.rates[key] };
      lines.push({ run, curve, label, isSmooth: false, shown: curve.y, best: -1, isPlain: key === "loss" });
    }
  }
  return lines.length > 0 ? lines : null;
}

// Returns the group of one line: its raw values behind, the smoothed line, marks of evaluations.
function lineGroup(line, x, y) {
  const { run, curve } = line, marks = [];
  if (line.isSmooth && state.showsRaw && !isCrowded()) {
    if (curve.low) marks.push(makeSvg("path", { class: "band", d: bandPath(curve, x, y) }));
    else marks.push(makeSvg("path", { class: "raw", d: linePath(curve.x, curve.y, x, y) }));
  }
  const isMeasured = curve.split && !line.isPlain;
  marks.push(makeSvg("path", { class: isMeasured ? "measured" : "smooth", d: linePath(curve.x, line.shown, x, y) }));
  const hasDots = (isMeasured && curve.x.length <= 40 && !isCrowded()) || curve.x.length === 1;
  curve.x.forEach((step, i) => {
    const isBest = i === line.best && !isCrowded();
    if (!isNumber(curve.y[i]) || !(hasDots || isBest)) return;
    marks.push(makeSvg("circle", { class: isBest ? "best" : "dot", r: isBest ? 4.5 : 2.4,
      cx: x.at(step).toFixed(1), cy: y.at(curve.y[i]).toFixed(1) }));
  });
  return makeSvg("g", { class: `run k${run.slot}`, "data-run": run.name, "data-split": curve.split }, marks);
}

// Returns the area between the least and the greatest values.
function bandPath(curve, x, y) {
  const at = (i, v) => x.at(curve.x[i]).toFixed(1) + " " + y.at(Math.max(v, y.isLog ? y.low : v)).toFixed(1);
  const top = curve.high.map((v, i) => at(i, v)), bottom = curve.low.map((v, i) => at(i, v)).reverse();
  return "M" + top.concat(bottom).join("L") + "Z";
}

// Returns a figure with the lines. options: {key, title, xName, isXLog}.
function makeChart(lines, options, width) {
  const height = 250, right = width - MARGIN.right, bottom = height - MARGIN.bottom;
  const xs = rangeOf(lines.map(line => line.curve.x));
  const values = line => state.showsRaw && line.isSmooth && !isCrowded() ? [line.curve.low || line.curve.y, line.curve.high || []] : [line.shown];
  const ys = rangeOf(lines.flatMap(values));
  if (!xs || !ys) return null;
  const canBeLog = ys[0] > 0, isAuto = canBeLog && ys[1] / ys[0] > 30 && options.key !== "lr";
  const isLog = canBeLog && (state.log.has(options.key) ? state.log.get(options.key) : isAuto);
  const x = makeScale(xs[0], xs[1], MARGIN.left, right, options.isXLog && xs[0] > 0);
  const pad = isLog ? 0 : (ys[1] - ys[0]) * 0.04;
  const y = makeScale(ys[0] - pad, ys[1] + pad, bottom, MARGIN.top, isLog);
  const image = makeAxes(width, height, x, y, options.xName);
  image.setAttribute("aria-label", options.title);
  const order = [...lines].sort((a, b) => Boolean(a.curve.split) - Boolean(b.curve.split));
  image.append(...order.map(line => lineGroup(line, x, y)));
  const log = make("button", { type: "button", "aria-pressed": String(isLog), title: "logarithmic scale",
    click: () => { state.log.set(options.key, !isLog); render(); } }, "log");
  const figure = make("figure", { "data-chart": options.key },
    make("figcaption", {}, options.title, canBeLog ? log : null), image);
  followPointer(image, lines, x, y, options.xName);
  return figure;
}

// Returns the points of all lines at the step that is closest to `value`.
function pointsNear(lines, value) {
  let nearest = null;
  const far = v => Math.abs(v - value);
  for (const { curve } of lines) {
    for (const v of curve.x) if (isNumber(v) && (nearest === null || far(v) < far(nearest))) nearest = v;
  }
  const points = [];
  for (const line of lines) {
    let at = -1;
    line.curve.x.forEach((v, i) => {
      if (isNumber(v) && (at < 0 || Math.abs(v - nearest) < Math.abs(line.curve.x[at] - nearest))) at = i;
    });
    if (at >= 0 && isNumber(line.curve.y[at])) points.push({ line, i: at, step: line.curve.x[at] });
  }
  return { nearest, points };
}

// Shows the values at the pointer's step, those of the closest lines first. Arrow keys move the step.
function followPointer(image, lines, x, y, xName) {
  const most = isCrowded() ? 6 : 12, marks = makeSvg("g", {});
  image.append(marks);
  image.setAttribute("tabindex", "0");
  const place = () => image.getBoundingClientRect();
  const show = (px, py) => {
    const box = place(), scale = box.width / image.viewBox.baseVal.width;
    const { nearest, points } = pointsNear(lines, x.value((px - box.left) / scale));
    if (nearest === null) return;
    const distance = p => Math.abs(y.at(p.line.shown[p.i]) * scale + box.top - py);
    points.sort((a, b) => distance(a) - distance(b));
    marks.replaceChildren(makeSvg("path", { class: "cursor", d: `M${x.at(nearest)} ${MARGIN.top}V${image.viewBox.baseVal.height - MARGIN.bottom}` }),
      ...points.slice(0, isCrowded() ? 1 : points.length).map(p => makeSvg("g", { class: `run k${p.line.run.slot}` },
        makeSvg("circle", { r: 3.5, cx: x.at(p.step), cy: y.at(p.line.shown[p.i]) }))));
    if (isCrowded()) emphasize(points.length > 0 ? points[0].line.run.name : null);
    const rows = points.slice(0, most).map(p => tipRow(p));
    const rest = points.length > most ? [`and ${points.length - most} more`] : [];
    showTip(px, py, make("b", {}, `${xName} ${number(nearest)}`), ...rows, ...rest);
  };
  const leave = () => {
    marks.replaceChildren();
    hideTip();
    emphasize(null);
    state.isPointing = false;
    renderIfDue();
  };
  image.addEventListener("pointermove", event => { state.isPointing = true; show(event.clientX, event.clientY); });
  image.addEventListener("pointerdown", event => show(event.clientX, event.clientY));
  image.addEventListener("pointerleave", leave);
  image.addEventListener("blur", leave);
  let at = 0.5;
  image.addEventListener("keydown", event => {
    const move = { ArrowLeft: -0.02, ArrowRight: 0.02 }[event.key];
    if (!move) return;
    event.preventDefault();
    at = Math.min(1, Math.max(0, at + move));
    const box = place();
    show(box.left + box.width * at, box.top + box.height / 2);
  });
}

function tipRow({ line, i, step }) {
  const { curve, run } = line, value = number(line.shown[i]);
  const raw = line.isSmooth ? ` (raw ${number(curve.y[i])})` : "";
  const best = i === line.best ? " best" : "";
  const at = curve.split && !line.isPlain && step !== undefined ? ` @ ${short(step)}` : "";
  return make("span", { class: `row k${run.slot}` }, make("i", { class: "swatch" }),
    make("span", {}, run.label), make("span", {}, line.label), make("span", {}, value + raw + at + best));
}

function renderCurves(runs) {
  const box = document.getElementById("curves");
  const grid = make("div", { class: isCrowded() ? "grid is-crowded" : "grid" });
  const keep = box.querySelector(".tools") || curveTools();
  box.replaceChildren(make("h2", {}, "Curves"), keep, curveLegend(runs), grid);
  if (runs.length === 0) return grid.replaceWith(make("p", { class: "note" }, "Select runs in the table above."));
  const columns = getComputedStyle(grid).gridTemplateColumns.split(" ").length;
  const width = Math.max(260, Math.round(grid.clientWidth / columns - 16 - 28));
  const rates = rateChart(runs);
  const found = rates ? [makeChart(rates, { key: "rates", title: "Loss by learning rate", xName: "learning rate", isXLog: true }, width)] : [];
  for (const [key, lines] of chartsOf(runs)) found.push(makeChart(lines, { key, title: titleOf(key), xName: "step" }, width));
  grid.append(...found.filter(figure => figure !== null));
}

function curveTools() {
  const label = make("output", {}, state.smoothing.toFixed(2));
  const slider = make("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: state.smoothing, "aria-label": "smoothing",
    input: event => { state.smoothing = Number(event.target.value); label.value = state.smoothing.toFixed(2); render(); } });
  const raw = make("input", { type: "checkbox", checked: state.showsRaw,
    change: event => { state.showsRaw = event.target.checked; render(); } });
  return make("div", { class: "tools" }, make("label", {}, "Smoothing", slider, label), make("label", {}, raw, "raw values"));
}

function curveLegend(runs) {
  if (isCrowded()) {
    return make("p", { class: "note" }, `${runs.length} runs have no colors of their own. Point at a line to see its run, or at a run in the table to see its lines. `
      + "Full lines: training, smoothed. Dashed: evaluations.");
  }
  const names = runs.map(run => make("span", { title: run.name }, make("i", { class: `swatch k${run.slot}` }), make("b", {}, run.label)));
  return make("div", {}, make("p", { class: "legend" }, names),
    make("p", { class: "note" }, "Full lines: training, smoothed, with the raw values behind. Dashed: evaluations. Ring: the best evaluation."));
}
