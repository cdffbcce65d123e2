// Requests to the API. An unchanged response is a 304, and the previous one stays valid.

/** Seconds that an answer may take. An action waits for the cluster. */
const READ_SECONDS = 20, ACT_SECONDS = 60;

/** The maximum number of cached responses: each choice of the reader is another address. */
const KEPT = 20;

/** A response that is not a success; status 0 means no response in time. */
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

/** Send a request, and read the response, within a time limit: a connection may hang without an error. */
async function within(seconds, ask) {
  try {
    return await ask(AbortSignal.timeout(seconds * 1000));
  } catch (error) {
    throw error.name === "TimeoutError" ? new Refused(0, `No answer within ${seconds} s`) : error;
  }
}

/** Sends requests, and caches the last response of each address with its ETag. */
export class Client {
  constructor() {
    this.forget();
    // The server has marked the page if Airflow does not accept sessions.
    this.usesToken = document.querySelector('meta[name="trainer-auth"][content="token"]') !== null;
  }

  /** Drop the cached answers: the next requests are unconditional. */
  forget() {
    this.kept = new Map();
  }

  /** Send a request with the browser's session; without sessions, as in Airflow 3.1.0, with its pages' own token. */
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

  /** Cache a response as the newest one. */
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

  /** Send an action, and return the response. Pages of other origins cannot send JSON without the server's consent. */
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
