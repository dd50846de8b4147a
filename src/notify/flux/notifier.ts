/** Flux's notification-controller, which passes events on to the providers that its Alerts select. */
import type { Notifier } from "../../ports.ts";
import { bearerOf, checkAddress } from "../address.ts";
import { post } from "../post.ts";
import { toEvent } from "./event.ts";

export interface FluxOptions {
  /** Address of the controller, such as `http://notification-controller.flux-system.svc/`. */
  readonly url: string;
  /** For a proxy in front of it that checks `Authorization: Bearer`: the controller itself has no login. */
  readonly token?: string | undefined;
}

/** The controller has no other rate limit than this: it accepts the same event once in five minutes. */
const duplicate = 429;

/** Throws an Error if the address cannot be used. */
export function createFluxNotifier({ url, token }: FluxOptions): Notifier {
  checkAddress(url);
  const headers = bearerOf(token);
  return {
    edits: false,
    async send(message, { signal }) {
      await post({ url, headers, body: JSON.stringify(toEvent(message)), accepts: [duplicate], signal });
      return undefined;
    },
  };
}
