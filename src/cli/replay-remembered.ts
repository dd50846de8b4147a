/** Takes a delivery anew that the server remembers: by the page's API, with the rights and the audit line of its button. */
import { z } from "zod";
import type { Config } from "../config.ts";
import { ConfigError } from "../errors.ts";
import { parseJson } from "../json.ts";
import { askServer, localAddress, type ServerAnswer } from "./ask-server.ts";
import { plain } from "./table.ts";

export interface RememberedDelivery {
  readonly delivery: string;
  /** Absent: the server is asked whose it is. */
  readonly forge?: string | undefined;
  /** Of the page; absent: on this machine. */
  readonly url?: string | undefined;
}

const Forges = z.array(
  z.object({ id: z.string(), deliveries: z.array(z.object({ delivery: z.string().optional() })) }),
);

/** What the server answered. Throws with what to do where it cannot be asked. */
export async function replayRemembered(
  { delivery, forge, url }: RememberedDelivery,
  { ui }: Pick<Config, "ui">,
): Promise<ServerAnswer> {
  if (ui?.token === undefined) {
    throw new ConfigError(
      "what the server remembers is taken anew by its page, as whoever has the page's token: set TOWLINE_UI_TOKEN_FILE to it, or send the delivery from a file",
    );
  }
  const page = (url ?? localAddress(ui)).replace(/\/+$/, "");
  const headers = { Authorization: `Bearer ${ui.token.reveal()}` };
  let known = forge;
  if (known === undefined) {
    const listed = await askServer(`${page}/api/deliveries`, { headers });
    if (!listed.ok) return listed;
    known = forgeOf(delivery, listed);
  }
  const path = ["deliveries", known, delivery, "replay"].map(encodeURIComponent).join("/");
  return askServer(`${page}/api/${path}`, { method: "POST", headers });
}

function forgeOf(delivery: string, { url, text }: ServerAnswer): string {
  const { data } = Forges.safeParse(parseJson(text));
  if (data === undefined) throw new Error(`${url} is no page of Towline: --url names another address`);
  const forge = data.find(({ deliveries }) => deliveries.some((one) => one.delivery === delivery)) ?? only(data);
  if (forge !== undefined) return forge.id;
  throw new Error(
    `no delivery ${plain(delivery)} is among the last ones: towline get deliveries -o wide. Of an older one say whose it is with --forge`,
  );
}

/** It remembers more than it lists. */
function only<T>(all: readonly T[]): T | undefined {
  return all.length === 1 ? all[0] : undefined;
}
