/** `towline webhook replay`: sends a delivery again, as the host would. */
import type { Config, ForgeConfig } from "../config.ts";
import { proofHeaders, signDelivery } from "../forge/sign.ts";
import type { Define } from "./commands.ts";
import { loadFromFlags } from "./configuration.ts";
import { deliveryHelp, type DeliveryFlags, type GivenDelivery, withoutHeaders } from "./delivery-file.ts";
import { openDelivery, withDeliveryFlags } from "./delivery-command.ts";
import { plain } from "./table.ts";

interface Flags extends DeliveryFlags {
  readonly config?: string;
  readonly url?: string;
}

const help = `${deliveryHelp}

It is signed anew with the configured secret, so that a payload may be an old one, or one that you have changed.
Nothing is deployed twice by it: the server looks at the branch as it is now.

  towline webhook replay delivery.json                              to the server on this machine
  towline webhook replay push.json --url https://towline.example.com/webhooks/github
  kubectl exec -i deploy/towline -- towline webhook replay < push.json

Exit codes:
  0  the server has taken it
  1  it has not; what it answered is printed
  2  the command line or the configuration is wrong`;

const patienceMs = 30_000;

export const defineWebhookReplay: Define = (command, { env, stdin, out }, onCode) => {
  withDeliveryFlags(command)
    .option("-c, --config <file>", "the server's configuration file, for its forges (TOWLINE_CONFIG)")
    .option("--url <url>", "the webhook's address; else the configured port of this machine")
    .addHelpText("after", help)
    .action(async (file: string | undefined, flags: Flags) => {
      const { config } = loadFromFlags(env, { config: flags.config });
      const { delivery, forge, source } = await openDelivery(file, flags, config, { stdin });
      const url = flags.url ?? addressOf(forge, config);
      const id = source.parse(new Map(), delivery.body).delivery;
      const answer = await send(url, signed(delivery, forge, id));
      out(`${answer.status} from ${url}\n${plain(answer.text)}\n`);
      onCode(answer.ok ? 0 : 1);
    });
};

function addressOf({ id }: ForgeConfig, { webhooks }: Config): string {
  const { host, port } = webhooks;
  const reachable = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}/webhooks/${id}`;
}

/** Of the connection that it came by, or of a body that was packed. */
const ofTheConnection = /^(host|content-length|content-encoding|transfer-encoding|connection|expect|accept-encoding)$/;

function signed(delivery: GivenDelivery, { kind, webhookSecrets }: ForgeConfig, id: string): GivenDelivery {
  const { body, rawHeaders } = withoutHeaders(delivery, (name) => proofHeaders.has(name) || ofTheConnection.test(name));
  const [secret] = webhookSecrets;
  const proof = secret && signDelivery({ kind, secret: secret.reveal(), body, delivery: id, now: Date.now() });
  const type = rawHeaders.some((name) => name.toLowerCase() === "content-type")
    ? []
    : ["Content-Type", "application/json"];
  return { body, rawHeaders: [...rawHeaders, ...type, ...(proof ?? []).flat()] };
}

async function send(url: string, { rawHeaders, body }: GivenDelivery) {
  const headers = new Headers();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) headers.append(rawHeaders[at] ?? "", rawHeaders[at + 1] ?? "");
  try {
    const signal = AbortSignal.timeout(patienceMs);
    const response = await fetch(url, {
      method: "POST",
      headers,
      body: new Uint8Array(body),
      redirect: "manual",
      signal,
    });
    return { ok: response.ok, status: response.status, text: await response.text() };
  } catch (error) {
    const { message, cause } = error as Error;
    const why = cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code : message;
    throw new Error(`${url} cannot be reached: ${why}. Does the server run there? --url names another address`, {
      cause: error,
    });
  }
}
