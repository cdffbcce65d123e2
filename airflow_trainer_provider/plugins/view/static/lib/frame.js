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

/** An address that may be a link: http and https only, whatever the text says. */
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

/** A link to a tool outside Airflow, in a new tab; plain text where the address is not one. */
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

/** Give Airflow's address the query of this page's, where it holds this page's path: a reload then shows the same. */
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
    // Airflow's frame, or a page without TLS, may have no clipboard: the old way works there.
    const area = document.body.appendChild(h("textarea", { class: "sr", "aria-hidden": "true" }));
    area.value = text;
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** What copies text; its label says that it did. */
export function copy(text, announce) {
  return async () => announce((await write(text)) ? "Copied." : "The browser does not allow copying.");
}
