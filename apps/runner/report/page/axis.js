// Scales and axes of charts.

// Returns a scale from the values [low, high] to the pixels [from, to].
function makeScale(low, high, from, to, isLog = false) {
  if (!(high - low > Math.max(Math.abs(low), Math.abs(high)) * 1e-9)) {
    const margin = Math.max(Math.abs(low), Math.abs(high)) * 0.1 || 1;
    [low, high] = [low - margin, high + margin];
    isLog = isLog && low > 0;
  }
  const place = isLog ? v => Math.log(v / low) / Math.log(high / low) : v => (v - low) / (high - low);
  const value = isLog ? p => low * Math.pow(high / low, p) : p => low + p * (high - low);
  return {
    low, high, isLog,
    at: v => from + Math.min(2, Math.max(-1, place(v))) * (to - from),
    value: pixel => value((pixel - from) / (to - from)),
    ticks: count => isLog ? logTicks(low, high) : linearTicks(low, high, count),
  };
}

function linearTicks(low, high, count) {
  const rough = (high - low) / count, power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = power * (rough < 2 * power ? 2 : rough < 5 * power ? 5 : 10), ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high && ticks.length < 40; ++i) ticks.push(i * step);
  return ticks;
}

function logTicks(low, high) {
  const decades = Math.log10(high / low), stride = Math.ceil(decades / 8), ticks = [];
  const factors = decades < 1.2 ? [1, 2, 3, 5, 7] : decades < 4 ? [1, 2, 5] : [1];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e += stride) {
    for (const f of factors) {
      const tick = f * Math.pow(10, e);
      if (tick >= low && tick <= high) ticks.push(tick);
    }
  }
  return ticks;
}

// Returns the smallest and the largest of the finite values, or null if there are none.
function rangeOf(lists) {
  let low = Infinity, high = -Infinity;
  for (const list of lists) {
    for (const v of list) {
      if (!isNumber(v)) continue;
      if (v < low) low = v;
      if (v > high) high = v;
    }
  }
  return low <= high ? [low, high] : null;
}

const MARGIN = { left: 52, right: 14, top: 8, bottom: 36 };

// Returns an <svg> of that size with both axes and their names.
function makeAxes(width, height, x, y, xName, yName = "") {
  const bottom = height - MARGIN.bottom, right = width - MARGIN.right, marks = [];
  for (const tick of y.ticks(5)) {
    marks.push(makeSvg("path", { class: "gridline", d: `M${MARGIN.left} ${y.at(tick).toFixed(1)}H${right}` }),
      makeSvg("text", { class: "end", x: MARGIN.left - 6, y: (y.at(tick) + 4).toFixed(1) }, short(tick)));
  }
  for (const tick of x.ticks(Math.max(2, width / 90))) {
    marks.push(makeSvg("path", { class: "axis", d: `M${x.at(tick).toFixed(1)} ${bottom}v4` }),
      makeSvg("text", { class: "middle", x: x.at(tick).toFixed(1), y: bottom + 16 }, short(tick)));
  }
  marks.push(makeSvg("path", { class: "axis", d: `M${MARGIN.left} ${MARGIN.top}V${bottom}H${right}` }),
    makeSvg("text", { class: "middle", x: (MARGIN.left + right) / 2, y: height - 4 }, xName));
  if (yName) marks.push(makeSvg("text", { x: MARGIN.left + 4, y: MARGIN.top + 10 }, yName));
  return makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" }, marks);
}

// Returns the path of a line through points, with gaps where a value is missing.
function linePath(xs, ys, x, y) {
  let path = "", isOpen = false;
  for (let i = 0; i < xs.length; ++i) {
    const isDrawn = isNumber(xs[i]) && isNumber(ys[i]) && !(y.isLog && ys[i] <= 0);
    if (isDrawn) path += (isOpen ? "L" : "M") + x.at(xs[i]).toFixed(1) + " " + y.at(ys[i]).toFixed(1);
    isOpen = isDrawn;
  }
  return path;
}
