// The query of the page's address. Airflow 3.1.0 fills in a run's id as it is, later versions encode it: a `+` is always
// a `+`, and never a space.

function decoded(bytes) {
  try {
    return decodeURIComponent(bytes);
  } catch {
    return bytes;
  }
}

/** Decode a text; a `%` that encodes nothing is kept. */
const plain = (text) => text.replace(/(%[0-9a-f]{2})+/gi, decoded);

const parts = () => location.search.slice(1).split("&").filter(Boolean);

const nameOf = (part) => plain(part.split("=", 1)[0]);

/** The parameters, by name; of several with one name, the first. */
export const readQuery = () => new Map(parts().map((part) => [nameOf(part), plain(part.slice(part.split("=", 1)[0].length + 1))]).reverse());

/** Set parameters, and remove those that are null. The others stay as they are written. */
export function writeQuery(values) {
  const kept = parts().filter((part) => !Object.hasOwn(values, nameOf(part)));
  const set = Object.entries(values).filter(([, value]) => value !== null).map((pair) => pair.map(encodeURIComponent).join("="));
  history.replaceState(history.state, "", `${location.pathname}?${[...kept, ...set].join("&")}${location.hash}`);
}
