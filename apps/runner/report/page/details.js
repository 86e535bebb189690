// One run: its messages, its evaluation, its predictions, its config and its system.

function className(run, i) {
  const names = Array.isArray(run.class_names) ? run.class_names : [];
  return i < names.length ? String(names[i]) : String(i);
}

function panel(title, ...content) { return make("div", { class: "panel" }, make("h3", {}, title), ...content); }

function plural(count, word) { return `${number(count)} ${word}${count === 1 ? "" : "s"}`; }

// --- rates of the classes ---

// Returns a cell with a bar behind the number.
function rateCell(share) {
  const cell = make("td", {}, isNumber(share) ? percent(share) : "–"), end = (100 * (share || 0)).toFixed(1);
  cell.style.background = `linear-gradient(to right, rgba(var(--good-rgb), 0.24) ${end}%, transparent ${end}%)`;
  return cell;
}

// Returns a table of precision, recall and F1 of each class, the worst first if there are many.
function classRates(run, confusion, roc) {
  const most = 30, share = (a, b) => b > 0 ? a / b : null;
  const areas = new Map((roc || []).map(curve => [curve.class, curve.auc]));
  if ((roc || []).length === 1 && confusion.classes.length === 2) areas.set(0, roc[0].auc);
  const all = confusion.classes.map(([samples, predictions, hits], i) => ({ i, samples, precision: share(hits, predictions),
    recall: share(hits, samples), f1: share(2 * hits, samples + predictions), auc: areas.get(i) }));
  const isLong = all.length > most && !state.open.has("all classes");
  const rows = isLong ? [...all].sort((a, b) => (a.f1 || 0) - (b.f1 || 0)).slice(0, most) : all;
  const table = make("table", {}, make("thead", {}, make("tr", {}, make("th", { class: "first" }, "class"),
    ["precision", "recall", "F1", areas.size > 0 ? "AUC" : null, "samples"].filter(Boolean).map(name => make("th", { scope: "col" }, name)))),
    make("tbody", {}, rows.map(row => make("tr", {}, make("th", { class: "first", scope: "row", title: className(run, row.i) }, className(run, row.i)),
      rateCell(row.precision), rateCell(row.recall), rateCell(row.f1),
      areas.size > 0 ? make("td", {}, isNumber(row.auc) ? row.auc.toFixed(3) : "–") : null, make("td", {}, number(row.samples))))));
  const more = all.length > most ? make("button", { type: "button", click: () => {
    state.open.has("all classes") ? state.open.delete("all classes") : state.open.add("all classes");
    render();
  } }, isLong ? `The ${most} classes with the lowest F1. Show all ${all.length}` : `Show the ${most} with the lowest F1`) : null;
  return panel("Rates of the classes", make("div", { class: "scroll is-tall" }, table), ...(more ? [make("p", {}, more)] : []));
}

// --- confusion ---

// Returns a matrix whose colors show the share of the row. Errors are rare, so their color is three
// times as strong.
function confusionTable(run, rows) {
  const cell = (row, i, count, j) => {
    const share = count / Math.max(1, row.reduce((a, b) => a + b, 0));
    const box = make("td", {}, rows.length <= 30 ? number(count) : "");
    box.style.background = `rgba(var(--${i === j ? "good" : "bad"}-rgb), ${Math.min(0.75, share * (i === j ? 0.7 : 2.1)).toFixed(2)})`;
    return withTip(box, `true: ${className(run, i)}\npredicted: ${className(run, j)}\n${plural(count, "sample")}, ${percent(share)} of the class`);
  };
  return make("div", { class: "scroll is-tall" }, make("table", { class: "confusion" },
    make("thead", {}, make("tr", {}, make("th", { class: "first" }, "true \\ predicted"),
      rows.map((_, j) => make("th", { scope: "col", title: className(run, j) }, className(run, j))))),
    make("tbody", {}, rows.map((row, i) => make("tr", {}, make("th", { class: "first", scope: "row", title: className(run, i) }, className(run, i)),
      row.map((count, j) => cell(row, i, count, j)))))));
}

function confusionPanel(run, confusion) {
  if (confusion.rows) {
    const box = panel("Confusion", confusionTable(run, confusion.rows));
    if (confusion.rows.length > 12) box.classList.add("is-wide");
    return box;
  }
  if (!confusion.pairs) return null;
  const table = make("table", {}, make("thead", {}, make("tr", {}, ["true", "predicted", "samples"].map(name => make("th", { class: "text" }, name)))),
    make("tbody", {}, confusion.pairs.map(([a, b, count]) => make("tr", {}, make("td", { class: "text" }, className(run, a)),
      make("td", { class: "text" }, className(run, b)), make("td", {}, number(count))))));
  return panel("The most frequent errors", make("div", { class: "scroll is-tall" }, table));
}

// --- calibration and ROC ---

// Returns an <svg> whose axes both have the range [low, high], with the diagonal.
function squareAxes(low, high, xName, yName) {
  const width = Math.min(560, Math.max(220, document.getElementById("details").clientWidth - 28)), height = Math.min(340, 0.85 * width);
  const x = makeScale(low, high, MARGIN.left, width - MARGIN.right), y = makeScale(low, high, height - MARGIN.bottom, MARGIN.top);
  const image = makeAxes(width, height, x, y, xName, yName);
  image.append(makeSvg("path", { class: "guide", d: `M${x.at(x.low)} ${y.at(y.low)}L${x.at(x.high)} ${y.at(y.high)}` }));
  return { image, x, y };
}

function calibrationPanel(calibration) {
  const { image, x, y } = squareAxes(0, 1, "confidence of the prediction", "share of hits");
  const bins = calibration.bins, most = Math.max(...bins.map(bin => bin[2]));
  image.append(makeSvg("g", { class: "run k0" },
    makeSvg("path", { class: "smooth", d: linePath(bins.map(b => b[0]), bins.map(b => b[1]), x, y) }),
    bins.map(([confidence, hits, share]) => withTip(makeSvg("circle", { r: 2.5 + 6 * Math.sqrt(share / most), cx: x.at(confidence), cy: y.at(hits) }),
      `mean confidence ${percent(confidence)}\nhits ${percent(hits)}\n${percent(share)} of all predictions`))));
  image.setAttribute("aria-label", "Calibration");
  return make("figure", { "data-chart": "calibration" }, make("figcaption", {}, "Calibration"), image,
    make("p", { class: "note" }, `Expected calibration error: ${percent(calibration.error)}. On the diagonal, confidence equals the share of hits. `
      + "Larger points have more predictions."));
}

function rocPanel(run, roc) {
  const most = 8, { image, x, y } = squareAxes(0, 1, "false positive rate", "true positive rate");
  const shown = [...roc].sort((a, b) => a.auc - b.auc).slice(0, most);
  image.append(...shown.map((curve, i) => withTip(makeSvg("g", { class: `run k${i % 8}` },
    makeSvg("path", { class: "smooth", d: linePath(curve.points.map(p => p[0]), curve.points.map(p => p[1]), x, y) })),
    `${className(run, curve.class)}\nAUC ${curve.auc.toFixed(3)}`)));
  image.setAttribute("aria-label", "ROC");
  const mean = roc.reduce((sum, curve) => sum + curve.auc, 0) / roc.length;
  const note = roc.length > most ? `The ${most} of ${roc.length} classes with the smallest area. Each class against the others.`
    : roc.length > 1 ? "Each class against the others." : `“${className(run, roc[0].class)}” against the other class.`;
  return make("figure", { "data-chart": "roc" }, make("figcaption", {}, "ROC"), image,
    make("p", { class: "legend" }, shown.map((curve, i) => make("span", {}, make("i", { class: `swatch k${i % 8}` }),
      make("b", {}, className(run, curve.class)), `AUC ${curve.auc.toFixed(3)}`))),
    make("p", { class: "note" }, note + (roc.length > 1 ? ` Mean AUC: ${mean.toFixed(3)}.` : "")));
}

// --- predictions ---

function canvasOf(pixels, { width, height, channels }) {
  const bytes = atob(pixels), canvas = make("canvas", { width, height, role: "img", "aria-label": "sample" });
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  for (let i = 0; i < width * height; ++i) {
    for (let c = 0; c < 3; ++c) image.data[4 * i + c] = bytes.charCodeAt(i * channels + (channels === 3 ? c : 0));
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

function exampleCard(run, example, picture) {
  const names = list => Array.isArray(list) ? list.map(i => className(run, i)).join(", ") || "none" : className(run, list);
  const chance = new Map(example.probabilities), sure = chance.get(example.predicted);
  const likely = example.probabilities.map(([i, p]) => `${className(run, i)}: ${percent(p)}`).join("\n");
  return withTip(make("div", { class: `card ${example.is_hit ? "" : "is-wrong"}` },
    picture && example.pixels ? canvasOf(example.pixels, picture) : null,
    example.text ? make("blockquote", {}, example.text) : null,
    make("div", {}, `predicted: ${names(example.predicted)}`, isNumber(sure) ? ` (${percent(sure)})` : ""),
    make("div", {}, `true: ${names(example.true)}`), make("div", { class: "note" }, `sample ${example.row}`)), likely);
}

function valuesFigure({ name, points }) {
  const range = rangeOf(points), title = name ? `Predictions of ${name}` : "Predictions";
  if (!range) return null;
  const { image, x, y } = squareAxes(range[0], range[1], "true value", "prediction");
  image.append(makeSvg("g", { class: "run k0" }, points.filter(p => p.every(isNumber)).map(([a, b]) =>
      withTip(makeSvg("circle", { r: 3, cx: x.at(a).toFixed(1), cy: y.at(b).toFixed(1), opacity: 0.6 }), `true ${number(a)}\npredicted ${number(b)}`))));
  return make("figure", { "data-chart": "values" }, make("figcaption", {}, title), image);
}

function predictionsPanel(run, predictions, split) {
  const picture = predictions.picture, examples = predictions.examples || [];
  if (examples.length === 0) return null;
  const wrong = examples.filter(example => !example.is_hit).length;
  const note = `From the first ${plural(predictions.samples, "sample")} of the ${split} part: errors first, the most confident at the beginning`
    + (wrong === 0 ? "; there are none." : ".") + (picture && picture.is_stretched ? " Each picture is scaled to its own range." : "");
  const box = panel("Predictions", make("p", { class: "note" }, note),
    make("div", { class: `cards ${examples.some(example => example.text) ? "is-text" : ""}` }, examples.map(example => exampleCard(run, example, picture))));
  box.classList.add("is-wide");
  return box;
}

// --- the section ---

// Returns a line with facts that the table of runs has no column for.
function factsOf(run) {
  const thresholds = Array.isArray(run.thresholds) ? run.thresholds.map(number).join(", ") : null, best = bestOf(run);
  const facts = [
    best && `best ${best.name}: ${number(best.value)} after step ${number(best.step)}`,
    isNumber(run.model_step) && `saved weights: step ${number(run.model_step)}`,
    thresholds && `threshold: ${thresholds}`,
    isNumber(run.seconds) && `${duration(run.seconds)} of training`,
    isNumber(run.peak_bytes) && `peak memory: ${mebibytes(run.peak_bytes)}` + (isNumber(run.peak_ratio) ? ` (${run.peak_ratio.toFixed(2)}x the estimate)` : ""),
  ];
  return make("p", { class: "note" }, facts.filter(Boolean).join(" · "));
}

// Returns what f() returns. A part that cannot be drawn, because a file was changed by hand, does not
// take the others with it.
function guarded(name, f) {
  try {
    return f();
  } catch (error) {
    return panel(name, make("p", { class: "note" }, `This part cannot be shown: ${error.message}`));
  }
}

function evaluationParts(run) {
  const evaluation = run.evaluation || {}, confusion = evaluation.confusion || run.confusion;
  const split = evaluation.split || (run.confusion || {}).split || "test", predictions = evaluation.predictions || {};
  const parts = [
    confusion && guarded("Rates of the classes", () => classRates(run, confusion, evaluation.roc)),
    confusion && guarded("Confusion", () => confusionPanel(run, confusion)),
    evaluation.calibration && guarded("Calibration", () => calibrationPanel(evaluation.calibration)),
    evaluation.roc && evaluation.roc.length > 0 && guarded("ROC", () => rocPanel(run, evaluation.roc)),
    ...(predictions.values || []).map(values => guarded("Predictions", () => valuesFigure(values))),
    guarded("Predictions", () => predictionsPanel(run, predictions, split)),
  ].filter(Boolean);
  if (parts.length === 0) return [];
  const step = evaluation.step === undefined ? run.confusion && run.confusion.step : evaluation.step;
  const count = evaluation.samples || predictions.samples;
  const on = `Measured on the ${split} part${evaluation.samples ? ` (${plural(count, "sample")})` : ""} with the `
    + `${run.evaluation ? "saved weights, those after" : "weights after"} step ${number(step)}.`;
  return [make("p", { class: "note" }, on), make("div", { class: "grid is-wide" }, parts)];
}

// Returns a block that opens and closes, and stays as it is when the page is drawn again.
function foldable(title, content, isOpen = false) {
  const box = make("details", { open: state.open.has(title) || isOpen && !state.open.has("-" + title) }, make("summary", {}, title), content);
  box.addEventListener("toggle", () => {
    state.open.delete(box.open ? "-" + title : title);
    state.open.add(box.open ? title : "-" + title);
  });
  return box;
}

function systemTable(system) {
  const rows = Object.entries(system).map(([key, value]) => make("tr", {}, make("th", { class: "first", scope: "row" }, key),
    make("td", { class: "text" }, typeof value === "object" ? JSON.stringify(value) : String(value))));
  return make("div", { class: "scroll" }, make("table", {}, make("tbody", {}, rows)));
}

function renderDetails(run) {
  const box = document.getElementById("details");
  if (!run) return box.replaceChildren();
  const picker = state.runs.length < 2 ? null : make("select", { "aria-label": "run", change: event => { state.focus = event.target.value; render(); } },
    state.runs.map(each => make("option", { value: each.name, selected: each.name === run.name }, each.label)));
  const messages = warningsOf(run);
  box.replaceChildren(make("h2", {}, `Run ${run.label}`), ...(picker ? [make("div", { class: "tools" }, make("label", {}, "Run", picker))] : []),
    factsOf(run), ...messages.map(text => make("pre", { class: "message" }, text)), ...[guarded("Evaluation", () => evaluationParts(run))].flat(),
    ...(run.samples ? [foldable("Samples", make("pre", {}, run.samples), true)] : []),
    ...(run.config ? [foldable("Config", make("pre", {}, run.config))] : []),
    ...(run.system && Object.keys(run.system).length > 0 ? [foldable("System", systemTable(run.system))] : []));
}
