// The reader's choices, kept in the address, so that a link or a reload shows the same.

import { readQuery, writeQuery } from "./address.js";

const DEFAULTS = {
  metric: "", axis: "step", log: "0", smooth: "1", last_success: "1", table: "0",
  replicas: "", colour: "state", zoom: "", try: "",
};

/** The choices that the address holds, with the defaults of the others. */
export function readChoices() {
  const query = readQuery();
  return Object.fromEntries(Object.entries(DEFAULTS).map(([name, value]) => [name, query.get(name) ?? value]));
}

/** Keep the choices in the address; those at their default are left out. */
export function writeChoices(choices) {
  writeQuery(Object.fromEntries(Object.entries(DEFAULTS).map(([name, value]) => [name, choices[name] === value ? null : choices[name]])));
}
