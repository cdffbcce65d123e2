// Ways out of the frame. Airflow shows this page in a sandboxed frame, in which links to new windows do nothing.

import { h, icon } from "./dom.js";

/** The path of this provider's pages, such as `/trainer`; the server has filled it in. */
export const base = () => document.querySelector('meta[name="trainer-base"]').content.replace(/\/+$/, "");

function outer() {
  try {
    return window.parent !== window && window.parent.document ? window.parent : null;
  } catch {
    return null;
  }
}

/** The address if it may be used as a link: http and https only. */
export function safeHref(text) {
  try {
    const url = new URL(text);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}

function openOutside(event, href) {
  const parent = outer();
  if (!parent) return;
  event.preventDefault();
  const link = parent.document.createElement("a");
  Object.assign(link, { href, target: "_blank", rel: "noopener noreferrer" });
  parent.document.body.append(link);
  link.click();
  link.remove();
}

/** A link to a tool outside Airflow, in a new tab; plain text if the address may not be a link. */
export function outsideLink(name, address) {
  const href = safeHref(address);
  if (!href) return h("span", { class: "muted" }, name);
  const onclick = (event) => openOutside(event, href);
  return h("a", { href, target: "_blank", rel: "noopener noreferrer", onclick }, name, " ", icon("external", "small"));
}

function goInside(event, href) {
  const parent = outer();
  if (!parent || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  parent.history.pushState(null, "", href);
  parent.dispatchEvent(new parent.PopStateEvent("popstate", { state: null }));
}

/** A link to a page of Airflow, such as the log of a task instance. */
export function airflowLink(className, path, ...children) {
  const href = base().replace(/\/trainer$/, "") + path;
  return h("a", { class: className, href, onclick: (event) => goInside(event, href) }, ...children);
}

/** Copy this page's query to Airflow's address, if that has this page's path: a reload then shows the same. */
export function shareQuery() {
  const parent = outer();
  if (!parent || !parent.location.pathname.endsWith(location.pathname)) return;
  parent.history.replaceState(parent.history.state, "", `${parent.location.pathname}${location.search}`);
}

async function write(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Airflow's frame, or a page without TLS, may have no clipboard API: the older command works there.
    const area = document.body.appendChild(h("textarea", { class: "sr", "aria-hidden": "true" }));
    area.value = text;
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** A handler that copies text, and announces the result. */
export function copy(text, announce) {
  return async () => announce((await write(text)) ? "Copied." : "The browser does not allow copying.");
}
