/** What `webhook explain` and `webhook replay` have in common: which delivery, and whose. */
import type { Command } from "commander";
import type { Config, ForgeConfig } from "../config.ts";
import { ConfigError } from "../errors.ts";
import { toWebhookSource } from "../forge/create-webhook-source.ts";
import type { WebhookSource } from "../forge/webhook-source.ts";
import type { ProgramDeps } from "./commands.ts";
import { type DeliveryFlags, forgeOf, type GivenDelivery, readDelivery, withEvent } from "./delivery-file.ts";

export function withDeliveryFlags(command: Command): Command {
  return command
    .argument("[file]", "the delivery; - or none: stdin")
    .option("--forge <id>", "whose webhook it is, if the headers do not tell")
    .option("--event <name>", "the event, as the host's header has it: push, pull_request …")
    .option("-H, --header <header...>", "a header of the delivery that the file does not have: 'Name: value'");
}

/** One delivery, from a file or from what the server remembers. */
export function refuseBoth(file: string | undefined, { delivery }: { readonly delivery?: string }): void {
  if (file === undefined || delivery === undefined) return;
  throw new ConfigError(`there are two deliveries, ${file} and --delivery ${delivery}: give one of them`);
}

export interface OpenedDelivery {
  readonly delivery: GivenDelivery;
  readonly forge: ForgeConfig;
  readonly source: WebhookSource;
  /** No header was given with it. */
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
