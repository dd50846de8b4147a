/** `towline webhook replay`: sends a delivery again, as the git host would. */
import type { Config, ForgeConfig } from "../config.ts";
import { proofHeaders, signDelivery } from "../forge/sign.ts";
import { callServer, localAddress, type ServerAnswer } from "./call-server.ts";
import type { Define, ProgramDeps } from "./commands.ts";
import { loadFromFlags } from "./configuration.ts";
import { deliveryHelp, type DeliveryFlags, type GivenDelivery, withoutHeaders } from "./delivery-file.ts";
import { openDelivery, refuseBoth, withDeliveryFlags } from "./delivery-command.ts";
import { replayStored } from "./replay-stored.ts";
import { plain } from "./table.ts";

interface Flags extends DeliveryFlags {
  readonly config?: string;
  readonly url?: string;
  readonly delivery?: string;
}

const help = `${deliveryHelp}

The delivery is signed again with the configured secret, so the payload may be old or edited. Replaying never deploys an old
commit: the server reads the branch again.

With --delivery nothing is sent: the server replays its stored event, like the button on the page. This needs the page's
address and token (page.token, with page.tokenRole operator), and is recorded in the audit log.

Examples:
  towline webhook replay delivery.json                              To the server on this machine
  towline webhook replay push.json --url https://towline.example.com/webhooks/github
  towline webhook replay --delivery 0b6a8a4e-6f1c-4d2e-9d1f-3f2c1ab09d41
  kubectl exec -i deploy/towline -- towline webhook replay < push.json

Exit codes:
  0  The server accepted it
  1  The server rejected it or cannot be reached; its answer is printed
  2  Invalid command line or configuration`;

export const defineWebhookReplay: Define = (command, { env, stdin, out }, onCode) => {
  withDeliveryFlags(command)
    .option("-c, --config <file>", "The server's configuration file, for its forges (TOWLINE_CONFIG)")
    .option("--delivery <id>", "Delivery that the server received, instead of a file: ID from `get deliveries -o wide`")
    .option(
      "--url <url>",
      "Address of the webhook, or with --delivery of the page; default: the configured port on this machine",
    )
    .addHelpText("after", help)
    .action(async (file: string | undefined, flags: Flags) => {
      refuseBoth(file, flags);
      const { config } = loadFromFlags(env, { config: flags.config });
      const answer =
        flags.delivery === undefined
          ? await sendFile(file, flags, config, { stdin })
          : await replayStored({ ...flags, delivery: flags.delivery }, config);
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
  return callServer(url, { method: "POST", headers, body: new Uint8Array(body) });
}

/** Headers of the original connection or of a compressed body. */
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
