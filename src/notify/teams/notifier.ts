/**
 * Notifications in Teams, through a workflow of Power Automate that starts when it receives a webhook request. It
 * responds before it posts: most of its failures show only in its own history.
 */
import { NotifyError } from "../../errors.ts";
import type { Notifier } from "../../ports.ts";
import { checkAddress } from "../address.ts";
import { post } from "../post.ts";
import { renderCard } from "./card.ts";

export interface TeamsOptions {
  /** The address of the workflow, which is a secret. */
  readonly url: string;
}

/** Throws an Error if the address cannot be used. */
export function createTeamsNotifier({ url }: TeamsOptions): Notifier {
  const host = checkAddress(url);
  return {
    edits: false,
    async send(message, { signal }) {
      const body = renderCard(message);
      if (body === undefined) throw new NotifyError("refused", `${host}: the message is too large`);
      await post({ url, body, signal });
      return undefined;
    },
  };
}
