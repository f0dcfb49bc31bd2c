// Elements without a framework: h() makes them, patch() brings the page up to date and keeps what is unchanged,
// so that focus, scrolling and half-written words stay where they are. Text is only ever set as text. What is
// inside an element with data-own, somebody else draws.

const SVG = new Set(["svg", "polyline", "line", "rect"]);

export function h(tag, props = {}, ...children) {
  const node = SVG.has(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || (value === false && !name.startsWith("aria-"))) continue;
    if (name === "style") for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else node.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => (child ?? false) !== false));
  return node;
}

const same = (node, next) => node.nodeName === next.nodeName && node.dataset?.key === next.dataset?.key;

// data-keep names attributes that live in the page alone once they are there, such as the frame on show.
function attributes(node, next) {
  const kept = (node.getAttribute("data-keep") ?? "").split(" ");
  for (const { name } of [...node.attributes]) {
    if (!next.hasAttribute(name) && !kept.includes(name)) node.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    const own = kept.includes(name) && node.hasAttribute(name);
    if (own || node.getAttribute(name) === value) continue;
    // The page's policy lets no style attribute be set but in this way.
    if (name === "style") node.style.cssText = value;
    else node.setAttribute(name, value);
  }
}

export function patch(node, next) {
  if (node.nodeType === Node.TEXT_NODE) {
    if (node.data !== next.data) node.data = next.data;
    return;
  }
  attributes(node, next);
  if (!("own" in next.dataset)) children(node, next);
}

function children(node, next) {
  let at = node.firstChild;
  for (const child of [...next.childNodes]) {
    let found = at;
    while (found && !same(found, child)) found = child.dataset?.key ? found.nextSibling : null;
    if (!found) {
      node.insertBefore(child, at);
      continue;
    }
    if (found !== at) node.insertBefore(found, at);
    patch(found, child);
    at = found.nextSibling;
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

// Brings the children of `holder` up to date.
export function fill(holder, ...inside) {
  const next = holder.cloneNode(false);
  next.append(...inside.flat(Infinity).filter(Boolean));
  children(holder, next);
}

export const find = (css, within = document) => within.querySelector(css);
export const all = (css, within = document) => [...within.querySelectorAll(css)];

// A function that calls `draw` once a frame of the screen, however often it is called; never after `signal` aborts.
export function onceAFrame(draw, signal) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      if (!signal.aborted) draw();
    });
  };
}
