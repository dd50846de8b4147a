/** Alertmanager: what needs somebody is an active alert, which is resolved when it no longer does. */
import type { Notifier } from "../../ports.ts";
import { bearerOf, checkAddress } from "../address.ts";
import { post } from "../post.ts";
import { type AlertLabels, parseLabels, toAlert, toLabels } from "./alert.ts";

export interface AlertmanagerOptions {
  /** Address of the server, including the prefix of its paths if it has one. */
  readonly url: string;
  /** For a proxy in front of it that checks `Authorization: Bearer`. */
  readonly token?: string | undefined;
  /** For the routes of Alertmanager. They replace all of our labels except `alertname` and `thread`. */
  readonly labels?: AlertLabels | undefined;
}

/** Twice the time after which an open alert is sent again: one of a dead server ends, one lost request ends nothing. */
const activeMs = 3_600_000;
const refreshMs = 1_800_000;
/** Nothing resolves a sample. Routes wait 30 s by default before they notify anybody. */
const sampleMs = 300_000;

/** Throws an Error if the address cannot be used. */
export function createAlertmanagerNotifier({ url, token, labels: configured = {} }: AlertmanagerOptions): Notifier {
  checkAddress(url);
  const address = new URL(url);
  address.pathname = `${address.pathname.replace(/\/+$/, "")}/api/v2/alerts`;
  const headers = bearerOf(token);

  return {
    edits: true,
    refreshMs,
    async send(message, { sent, signal }) {
      const { state, sample = false } = message;
      const known = parseLabels(sent);
      const active = sample || state === "failed" || state === "open";
      if (!active && (state === "progress" || known === undefined)) return sent;
      // Severity and object of a later state may differ, but labels that differ would be another alert.
      const labels = known ?? toLabels(message, configured);
      const endsAt = Date.now() + (sample ? sampleMs : active ? activeMs : 0);
      const body = JSON.stringify([toAlert(message, labels, endsAt, active)]);
      await post({ url: address.href, headers, body, signal });
      return active ? JSON.stringify(labels) : undefined;
    },
  };
}
