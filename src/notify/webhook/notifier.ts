/** Notifies an HTTP endpoint: with the events of the Standard Webhooks specification, or with a body of the user's own. */
import type { Notification } from "../../model.ts";
import type { Notifier } from "../../ports.ts";
import { createSignedPost, type SignedPostOptions } from "../sign.ts";
import { compileTemplate } from "../template.ts";

/** The specification advises to stay below 20 kB. */
const mostBytes = 20_000;

export interface WebhookOptions extends SignedPostOptions {
  /** Replaces the standard body: a JSON value, see template.ts. */
  readonly body?: unknown;
}

/** Throws an Error if an option cannot be used. */
export function createWebhookNotifier({ body, ...options }: WebhookOptions): Notifier {
  const toBody = body === undefined ? toEvent : compileTemplate(body, "body");
  const render = (message: Notification) => JSON.stringify(toBody(message));
  const signedPost = createSignedPost(options);
  return {
    edits: false,
    async send(message, { signal }) {
      await signedPost({ message, contentType: "application/json", mostBytes, render, signal });
      return undefined;
    },
  };
}

function toEvent(message: Notification) {
  const { kind, state, at } = message;
  return { type: `towline.${kind}.${state}`, timestamp: new Date(at).toISOString(), data: message };
}
