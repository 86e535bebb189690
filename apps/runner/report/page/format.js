// Elements and texts. Texts of runs reach the page only as text nodes and attributes, so that no name
// or message can become markup.

// Returns an element. A null child is left out. Attributes whose value is a function are listeners.
function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function makeSvg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter(child => child !== null));
  return element;
}

function isNumber(value) { return typeof value === "number" && Number.isFinite(value); }

// Returns a number with five significant digits: 0.12346, 1234.5, 1.2e-7.
function number(value) {
  if (!isNumber(value)) return value === null || value === undefined ? "" : String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US");
  return String(Number(value.toPrecision(5)));
}

// Returns a number that is short enough for an axis: 20k, 1.5M.
function short(value) {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= Math.max(size, 1e4) && Math.abs(value) < 1e12) return Number((value / size).toPrecision(4)) + unit;
  }
  return String(Number(value.toPrecision(4)));
}

function percent(share) { return isNumber(share) ? (100 * share).toFixed(1) + "\u00a0%" : ""; }

function duration(seconds) {
  if (!isNumber(seconds)) return "";
  if (seconds < 60) return Number(seconds.toPrecision(3)) + " s";
  if (seconds < 3600) return (seconds / 60).toFixed(1) + " min";
  return (seconds / 3600).toFixed(1) + " h";
}

function mebibytes(bytes) { return isNumber(bytes) ? (bytes / 1048576).toFixed(1) + " MiB" : ""; }

// Returns "Samples per second" for "samples_per_second".
function titleOf(key) {
  if (key === "lr") return "Learning rate";
  const words = key.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

// --- the tooltip ---

function showTip(x, y, ...content) {
  const tip = document.getElementById("tip");
  tip.replaceChildren(...content);
  tip.hidden = false;
  const gap = 14, width = tip.offsetWidth, height = tip.offsetHeight, view = document.documentElement;
  const left = x + gap + width > view.clientWidth ? x - gap - width : x + gap;
  const top = y + gap + height > view.clientHeight ? y - gap - height : y + gap;
  tip.style.left = Math.max(4, left) + window.scrollX + "px";
  tip.style.top = Math.max(4, top) + window.scrollY + "px";
}

function hideTip() { document.getElementById("tip").hidden = true; }

// Shows the text while the pointer is on the element.
function withTip(element, text) {
  element.addEventListener("pointermove", event => showTip(event.clientX, event.clientY, text));
  element.addEventListener("pointerleave", hideTip);
  return element;
}
