/** Arguments that `webhook explain` and `webhook replay` share: the delivery and its forge. */
import type { Command } from "commander";
import type { Config, ForgeConfig } from "../config.ts";
import { ConfigError } from "../errors.ts";
import { toWebhookSource } from "../forge/create-webhook-source.ts";
import type { WebhookSource } from "../forge/webhook-source.ts";
import type { ProgramDeps } from "./commands.ts";
import { type DeliveryFlags, forgeOf, type GivenDelivery, readDelivery, withEvent } from "./delivery-file.ts";

export function withDeliveryFlags(command: Command): Command {
  return command
    .argument("[file]", "File with the delivery; default or -: stdin")
    .option("--forge <id>", "Forge of the delivery, if its headers do not identify it")
    .option("--event <name>", "Event name as in the git host's header, such as push or pull_request")
    .option("-H, --header <header...>", "Header to add to the delivery: 'Name: value'");
}

/** Throws if both a file and `--delivery` are given. */
export function refuseBoth(file: string | undefined, { delivery }: { readonly delivery?: string }): void {
  if (file === undefined || delivery === undefined) return;
  throw new ConfigError(`use either the file ${file} or --delivery ${delivery}, not both`);
}

export interface OpenedDelivery {
  readonly delivery: GivenDelivery;
  readonly forge: ForgeConfig;
  readonly source: WebhookSource;
  /** The delivery has no headers. */
  readonly payloadOnly: boolean;
}

export async function openDelivery(
  file: string | undefined,
  flags: DeliveryFlags,
  { forges }: Pick<Config, "forges">,
  deps: Pick<ProgramDeps, "stdin">,
): Promise<OpenedDelivery> {
  const given = await readDelivery(file, flags, deps);
  const forge = forgeOf(given, forges, flags.forge);
  return {
    delivery: withEvent(forge.kind, given, flags.event),
    forge,
    payloadOnly: given.rawHeaders.length === 0,
    source: toWebhookSource(forge),
  };
}
