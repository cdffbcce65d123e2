// The reader's choices, kept in the address, so that a link or a reload shows the same.

import { readQuery, writeQuery } from "../lib/address.js";
import { shareQuery } from "../lib/frame.js";

/** The filters of the list; empty for all jobs. */
export const FILTERS = ["q", "state", "framework", "backend", "namespace", "owner", "dag"];

export const DEFAULTS = { view: "active", sort: "-started", page: "1", ...Object.fromEntries(FILTERS.map((name) => [name, ""])) };

/** The choices that the address holds, with the defaults of the others. */
export function readChoices() {
  const query = readQuery();
  return Object.fromEntries(Object.entries(DEFAULTS).map(([name, value]) => [name, query.get(name) || value]));
}

const chosen = (choices) => Object.keys(DEFAULTS).filter((name) => choices[name] !== DEFAULTS[name]);

/** Keep the choices in the address; those at their default are left out. */
export function writeChoices(choices) {
  const set = new Set(chosen(choices));
  writeQuery(Object.fromEntries(Object.keys(DEFAULTS).map((name) => [name, set.has(name) ? choices[name] : null])));
  shareQuery();
}

/** The choices as the query of a request. */
export const queryOf = (choices) => new URLSearchParams(chosen(choices).map((name) => [name, choices[name]])).toString();

/** Whether a filter is set. */
export const isFiltered = (choices) => FILTERS.some((name) => choices[name]);
