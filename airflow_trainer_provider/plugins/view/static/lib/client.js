// Requests to the API. An answer that has not changed is 304, and the one from before stays valid.

/** Seconds that an answer may take. An action waits for the cluster. */
const READ_SECONDS = 20, ACT_SECONDS = 60;

/** Answers that are kept: as a reader chooses, there are ever more addresses. */
const KEPT = 20;

/** An answer that is no success; with status 0, none in time. */
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function textOf(response) {
  try {
    const { detail } = await response.json();
    return typeof detail === "string" ? detail : (detail && detail.message) || response.statusText;
  } catch {
    return response.statusText;
  }
}

/** Ask, and read the answer, within a time: a connection may hang without an error. */
async function within(seconds, ask) {
  try {
    return await ask(AbortSignal.timeout(seconds * 1000));
  } catch (error) {
    throw error.name === "TimeoutError" ? new Refused(0, `No answer within ${seconds} s`) : error;
  }
}

/** Reads addresses, and keeps the last answer of each with its ETag. */
export class Client {
  constructor() {
    this.forget();
    // The server knows whether Airflow takes sessions.
    this.usesToken = document.querySelector('meta[name="trainer-auth"][content="token"]') !== null;
  }

  /** Drop the cached answers: the next requests are unconditional. */
  forget() {
    this.kept = new Map();
  }

  /** Ask with the session of the browser; where Airflow has none, as 3.1.0, with the token that its own pages send. */
  async send(address, headers, options) {
    const token = localStorage.getItem("token");
    const ask = (login) => fetch(address, { ...options, headers: { Accept: "application/json", ...headers, ...login }, credentials: "same-origin" });
    if (!this.usesToken || !token) {
      const response = await ask({});
      if (response.status !== 401 || !token) return response;
    }
    const response = await ask({ Authorization: `Bearer ${token}` });
    this.usesToken = response.status !== 401;
    return response;
  }

  /** Keep an answer as the newest one. */
  keep(address, answer) {
    this.kept.delete(address);
    this.kept.set(address, answer);
    if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
  }

  /** The JSON at an address. */
  get(address) {
    return within(READ_SECONDS, async (signal) => {
      const kept = this.kept.get(address);
      const response = await this.send(address, kept && kept.tag ? { "If-None-Match": kept.tag } : {}, { cache: "no-store", signal });
      if (response.status === 304 && kept) {
        this.keep(address, kept);
        return kept.value;
      }
      if (!response.ok) throw new Refused(response.status, await textOf(response));
      const value = await response.json();
      this.keep(address, { tag: response.headers.get("ETag"), value });
      return value;
    });
  }

  /** Send an action, and return the answer; JSON, which a page of another origin cannot send without the server's consent. */
  post(address, body) {
    return within(ACT_SECONDS, async (signal) => {
      const response = await this.send(address, { "Content-Type": "application/json" }, { method: "POST", body: JSON.stringify(body), signal });
      if (!response.ok) throw new Refused(response.status, await textOf(response));
      return response.json();
    });
  }
}

const ACTIVE = 5, QUIET = 30, LONGEST = 300;

/** Seconds until the next request: null after the end. `active` means that a job runs and the page is visible. */
export function pause({ ended, failures, active }) {
  if (failures) return Math.min(LONGEST, QUIET * 2 ** (failures - 1));
  if (ended) return null;
  return active ? ACTIVE : QUIET;
}
