/** Notifies an HTTP endpoint with CloudEvents 1.0 in structured mode: https://github.com/cloudevents/spec. */
import type { Notification } from "../../model.ts";
import type { Notifier } from "../../ports.ts";
import { createSignedPost, type SignedPostOptions } from "../sign.ts";

/** The specification: every intermediary has to forward events of up to 64 KiB. */
const mostBytes = 64 * 1_024;

export interface CloudEventsOptions extends SignedPostOptions {
  /** The origin of the events, a URI reference such as `/clusters/prod`. */
  readonly source: string;
}

/** The characters of RFC 3986, with complete escapes. */
const uriReference = /^(?:[\w\-.~:/?#[\]@!$&'()*+,;=]|%[\da-f]{2})+$/i;

/** Throws an Error if an option cannot be used. */
export function createCloudEventsNotifier({ source, ...options }: CloudEventsOptions): Notifier {
  if (!uriReference.test(source)) throw new Error("source: must be a URI reference such as /clusters/prod");
  const render = (message: Notification) => JSON.stringify(toEvent(message, source));
  const signedPost = createSignedPost(options);
  return {
    edits: false,
    async send(message, { signal }) {
      await signedPost({ message, contentType: "application/cloudevents+json", mostBytes, render, signal });
      return undefined;
    },
  };
}

function toEvent(message: Notification, source: string) {
  const { id, thread, kind, state, at, object } = message;
  return {
    specversion: "1.0",
    id,
    source,
    type: `dev.towline.${kind}.${state}`,
    subject: object === undefined ? thread : `${object.namespace}/${object.name}`,
    time: new Date(at).toISOString(),
    datacontenttype: "application/json",
    data: message,
  };
}
