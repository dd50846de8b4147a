/** `towline webhook replay`: sends a delivery again, as the host would. */
import type { Config, ForgeConfig } from "../config.ts";
import { proofHeaders, signDelivery } from "../forge/sign.ts";
import { askServer, localAddress, type ServerAnswer } from "./ask-server.ts";
import type { Define, ProgramDeps } from "./commands.ts";
import { loadFromFlags } from "./configuration.ts";
import { deliveryHelp, type DeliveryFlags, type GivenDelivery, withoutHeaders } from "./delivery-file.ts";
import { openDelivery, refuseBoth, withDeliveryFlags } from "./delivery-command.ts";
import { replayRemembered } from "./replay-remembered.ts";
import { plain } from "./table.ts";

interface Flags extends DeliveryFlags {
  readonly config?: string;
  readonly url?: string;
  readonly delivery?: string;
}

const help = `${deliveryHelp}

It is signed anew with the configured secret, so that a payload may be an old one, or one that you have changed.
Nothing is deployed twice by it: the server looks at the branch as it is now.

One that the server remembers (--delivery) is not sent: the server takes it anew by itself, as with the button of the
page. That is a matter of the page's address and token (ui.token, of ui.tokenRole operator), and leaves a line in the
audit log.

  towline webhook replay delivery.json                              to the server on this machine
  towline webhook replay push.json --url https://towline.example.com/webhooks/github
  towline webhook replay --delivery 0b6a8a4e-6f1c-4d2e-9d1f-3f2c1ab09d41
  kubectl exec -i deploy/towline -- towline webhook replay < push.json

Exit codes:
  0  the server has taken it
  1  it has not, or cannot be reached; what it answered is printed
  2  the command line or the configuration is wrong`;

export const defineWebhookReplay: Define = (command, { env, stdin, out }, onCode) => {
  withDeliveryFlags(command)
    .option("-c, --config <file>", "the server's configuration file, for its forges (TOWLINE_CONFIG)")
    .option("--delivery <id>", "no file, but one that the server has taken: its id in `get deliveries -o wide`")
    .option(
      "--url <url>",
      "the webhook's address, or with --delivery the page's; else the configured port of this machine",
    )
    .addHelpText("after", help)
    .action(async (file: string | undefined, flags: Flags) => {
      refuseBoth(file, flags);
      const { config } = loadFromFlags(env, { config: flags.config });
      const answer =
        flags.delivery === undefined
          ? await sendFile(file, flags, config, { stdin })
          : await replayRemembered({ ...flags, delivery: flags.delivery }, config);
      out(`${answer.status} from ${answer.url}\n${plain(answer.text)}\n`);
      onCode(answer.ok ? 0 : 1);
    });
};

async function sendFile(
  file: string | undefined,
  flags: Flags,
  config: Config,
  deps: Pick<ProgramDeps, "stdin">,
): Promise<ServerAnswer> {
  const { delivery, forge, source } = await openDelivery(file, flags, config, deps);
  const id = source.parse(new Map(), delivery.body).delivery;
  const { body, rawHeaders } = signed(delivery, forge, id);
  const headers = new Headers();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) headers.append(rawHeaders[at] ?? "", rawHeaders[at + 1] ?? "");
  const url = flags.url ?? `${localAddress(config.webhooks)}/webhooks/${forge.id}`;
  return askServer(url, { method: "POST", headers, body: new Uint8Array(body) });
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
