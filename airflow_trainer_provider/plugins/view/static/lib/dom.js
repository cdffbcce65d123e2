// Elements without markup: text is always set as text, so nothing that a script or a log wrote becomes HTML.

const SVG = "http://www.w3.org/2000/svg";

function setProperty(element, name, value) {
  if (name.startsWith("on")) element[name] = value;
  else if (name === "style") for (const [property, text] of Object.entries(value)) element.style.setProperty(property, String(text));
  else if (value === true) element.setAttribute(name, "");
  else element.setAttribute(name, String(value));
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value !== null && value !== undefined && value !== false) setProperty(element, name, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** An HTML element. Absent properties and children (null, undefined, false) are left out. */
export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);

/** An SVG element. */
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

/** Text for screen readers only. */
export const hidden = (...text) => h("span", { class: "sr" }, ...text);

const PATHS = {
  activity: ["M22 12h-4l-3 8L9 4l-3 8H2"],
  alert: ["M12 4 2.5 20h19zM12 10v4M12 17v.1"],
  award: ["M12 3a6 6 0 1 0 0 12 6 6 0 0 0 0-12", "m8.500 14-1.500 8 5-3 5 3-1.500-8"],
  check: ["M20 6 9 17l-5-5"],
  clock: ["M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M12 7v5l3 2"],
  copy: ["M9 9h11v11H9z", "M5 15H4V4h11v1"],
  cross: ["M18 6 6 18M6 6l12 12"],
  dashed: ["M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18"],
  external: ["M18 13v7H4V6h7M15 3h6v6M10 14 21 3"],
  list: ["M4 6h16M4 12h9M4 18h7", "m17 13 4 3-4 3z"],
  more: ["M12 5v.1M12 12v.1M12 19v.1"],
  pause: ["M8 5v14M16 5v14"],
  play: ["m6 4 13 8-13 8z"],
  repeat: ["m17 2 4 4-4 4M3 11V9a3 3 0 0 1 3-3h15M7 22l-4-4 4-4M21 13v2a3 3 0 0 1-3 3H3"],
  right: ["m9 6 6 6-6 6"],
  search: ["M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14M20 20l-4-4"],
  slash: ["M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M5.600 5.600l12.800 12.800"],
  square: ["M5 5h14v14H5z"],
};

/** A line icon. It is only decoration, so a word always accompanies it. */
export function icon(name, size = "") {
  const paths = PATHS[name].map((d) => s("path", { d, "stroke-dasharray": name === "dashed" ? "4 4" : null }));
  return s("svg", { class: `icon ${size}`, viewBox: "0 0 24 24", "aria-hidden": "true" }, paths);
}
