/** Replays a delivery that the server has stored, through the page's API: same permission and audit entry as its button. */
import { z } from "zod";
import type { Config } from "../config.ts";
import { ConfigError } from "../errors.ts";
import { parseJson } from "../kit/json.ts";
import { callServer, localAddress, type ServerAnswer } from "./call-server.ts";
import { plain } from "./table.ts";

export interface StoredDelivery {
  readonly delivery: string;
  /** Absent: looked up at the server. */
  readonly forge?: string | undefined;
  /** Address of the page; absent: on this machine. */
  readonly url?: string | undefined;
}

const Forges = z.array(
  z.object({ id: z.string(), deliveries: z.array(z.object({ delivery: z.string().optional() })) }),
);

/** Returns the server's answer. Throws with advice if it cannot be reached. */
export async function replayStored(
  { delivery, forge, url }: StoredDelivery,
  { page: configured }: Pick<Config, "page">,
): Promise<ServerAnswer> {
  if (configured?.token === undefined) {
    throw new ConfigError(
      "--delivery needs the page's token: set TOWLINE_PAGE_TOKEN_FILE, or replay the delivery from a file",
    );
  }
  const page = (url ?? localAddress(configured)).replace(/\/+$/, "");
  const headers = { Authorization: `Bearer ${configured.token.reveal()}` };
  let known = forge;
  if (known === undefined) {
    const listed = await callServer(`${page}/api/deliveries`, { headers });
    if (!listed.ok) return listed;
    known = forgeOf(delivery, listed);
  }
  const path = ["deliveries", known, delivery, "replay"].map(encodeURIComponent).join("/");
  return callServer(`${page}/api/${path}`, { method: "POST", headers });
}

function forgeOf(delivery: string, { url, text }: ServerAnswer): string {
  const { data } = Forges.safeParse(parseJson(text));
  if (data === undefined) throw new Error(`${url} is not a Towline page; check --url`);
  const forge = data.find(({ deliveries }) => deliveries.some((one) => one.delivery === delivery)) ?? only(data);
  if (forge !== undefined) return forge.id;
  throw new Error(
    `delivery ${plain(delivery)} is not among the latest ones (towline get deliveries -o wide); for an older one, set --forge`,
  );
}

/** With one forge only it must be that one: the server stores more deliveries than it lists. */
function only<T>(all: readonly T[]): T | undefined {
  return all.length === 1 ? all[0] : undefined;
}
