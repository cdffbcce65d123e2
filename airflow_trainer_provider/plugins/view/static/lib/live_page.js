// The base class of the pages that follow jobs: it polls the API, one request at a time, and redraws.

import { Client, Refused } from "./client.js";
import { resetTimezone } from "./format.js";
import { followTheme } from "./theme.js";

/**
 * A page that polls. A subclass defines `read()`, which requests the data, `redraw()`, and `pauseSeconds()`, the seconds
 * until the next read; null for none.
 */
export class LivePage {
  constructor(root) {
    this.root = root;
    this.client = new Client();
    /** Failed reads since the last success, and the status and message of the latest one. */
    this.failures = 0;
    this.refused = null;
    /** Seconds from the last read to the next; null where there is none. */
    this.nextIn = null;
    this.announce = this.announce.bind(this);
  }

  /** Have screen readers say a text. */
  announce(text) {
    document.getElementById("announce").textContent = text;
  }

  /** Record that a read has failed. */
  fail(error) {
    this.failures += 1;
    this.refused = { status: error.status || 0, message: error instanceof Refused ? error.message : "" };
  }

  /** Whether Airflow has denied the last read: without a login, or without the right. Polling then ends. */
  isDenied() {
    return this.refused !== null && [401, 403].includes(this.refused.status);
  }

  /** Read, redraw, and schedule the next read. A call during a read has another one follow it. */
  async refresh() {
    clearTimeout(this.timer);
    if (this.reading) {
      this.again = true;
      return;
    }
    this.reading = true;
    await this.read();
    this.reading = false;
    this.nextIn = this.isDenied() ? null : this.pauseSeconds();
    // First, as an answer that cannot be drawn must not end the polling.
    const soon = this.again ? 0 : this.nextIn;
    this.again = false;
    if (soon !== null) this.timer = setTimeout(() => this.refresh(), soon * 1000);
    this.redraw();
  }

  /** Redraw after another time zone was chosen in Airflow. */
  timezoneChanged() {
    this.redraw();
  }

  /** Begin to poll. */
  start() {
    followTheme();
    document.addEventListener("visibilitychange", () => !document.hidden && (this.nextIn || this.refused) && this.refresh());
    addEventListener("storage", (event) => {
      if (event.key !== "timezone") return;
      resetTimezone();
      this.timezoneChanged();
    });
    this.redraw();
    this.refresh();
  }
}
