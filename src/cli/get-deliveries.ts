/** `towline get deliveries`: deliveries from git hosts and their outcome. */
import { createDeliveries } from "../redis/deliveries.ts";
import type { DeliveryRecord } from "../model/delivery-record.ts";
import type { Define } from "./commands.ts";
import { loadFromFlags } from "./configuration.ts";
import { ageText, listing, type Format, isForPeople, outputOption, short } from "./output.ts";
import { withRedis } from "./redis.ts";
import { plain, table } from "./table.ts";
import { shortRef } from "../model/git-ref.ts";

interface Flags {
  readonly config?: string;
  readonly forge?: string;
  readonly limit: string;
  readonly output: Format;
}

const help = `
For each forge the server keeps the last 200 deliveries for a week, and the last 20 rejected ones: names and reasons, but no
payloads. They are stored in the server's Redis, so this command needs the server's configuration.

  ANSWER    HTTP status sent to the git host; 202 means accepted (docs/webhooks.md)
  MATCHED   Number of affected deployments; -o wide names them, and says why others are not affected
  QUEUED    Number of new jobs; lower than MATCHED if jobs were already waiting
  DELIVERY  With -o wide: the git host's delivery ID, for \`towline webhook explain --delivery\`

Examples:
  towline get deliveries
  towline get deliveries --forge github -o wide
  towline get deliveries -o json | jq '.[] | select(.status != 202)'

Exit codes:
  0  Success
  1  Cannot reach Redis
  2  Invalid command line or configuration`;

export const defineGetDeliveries: Define = (command, { env, columns, out }) => {
  command
    .option("-c, --config <file>", "The server's configuration file, for its forges and Redis (TOWLINE_CONFIG)")
    .option("--forge <id>", "Only deliveries from this forge")
    .option("--limit <n>", "Maximum number of deliveries, newest first", "50")
    .addOption(outputOption())
    .addHelpText("after", help)
    .action(async (flags: Flags) => {
      const { config } = loadFromFlags(env, { config: flags.config });
      const forges = flags.forge === undefined ? config.forges.map(({ id }) => id) : [flags.forge];
      if (forges.length === 0)
        throw new Error(
          "no git host (forge) is configured; pass the server's configuration file with --config, or use --forge",
        );
      const all = await withRedis(config, async (connection, log) => {
        const deliveries = createDeliveries({ connection, prefix: config.redis.prefix, log });
        return (await Promise.all(forges.map((forge) => deliveries.latest(forge)))).flat();
      });
      const records = all.toSorted((a, b) => b.at - a.at).slice(0, Math.max(1, Number(flags.limit) || 50));
      if (records.length === 0 && isForPeople(flags.output)) {
        out(`No deliveries from ${forges.join(", ")} in the last 7 days.\n`);
        return;
      }
      out(listing(flags.output, records, columns, toTable));
    });
};

function toTable(records: readonly DeliveryRecord[], wide: boolean): string {
  const now = Date.now();
  const head = ["AGE", "FORGE", "ANSWER", "EVENT", "ABOUT", "COMMIT", "MATCHED", "QUEUED"];
  const rows = records.map((record) => [
    ageText(now - record.at),
    record.forge,
    String(record.status),
    record.event.replace("-", " "),
    plain(aboutOf(record)),
    short(record.commit),
    String(record.matched),
    String(record.queued),
    ...(wide ? [plain(record.delivery ?? "–")] : []),
    plain(whyOf(record, wide)),
  ]);
  return table([[...head, ...(wide ? ["DELIVERY"] : []), "WHY"], ...rows]);
}

function aboutOf({ repoName, ref, pullRequest }: DeliveryRecord): string {
  if (repoName === undefined) return "–";
  if (pullRequest !== undefined) return `${repoName}#${pullRequest}`;
  return `${repoName} ${shortRef(ref ?? "")}`;
}

function listed(names: readonly string[], wide: boolean): string {
  return names.slice(0, wide ? undefined : 3).join(", ") + (names.length > 3 && !wide ? ", …" : "");
}

function whyOf(record: DeliveryRecord, wide: boolean): string {
  const {
    refused,
    reason,
    status,
    deployments,
    matched,
    fluxSources = [],
    previews = 0,
    ignored,
    ignoredMore,
  } = record;
  if (refused !== undefined) return refused;
  if (reason !== undefined) return reason;
  if (status !== 202) return "see docs/webhooks.md for the meaning of the answer";
  const concerned = deployments.slice(0, wide ? undefined : 3).join(", ") + (matched > 3 && !wide ? ", …" : "");
  const parts = [
    concerned,
    fluxSources.length > 0 ? `fetched by Flux: ${listed(fluxSources, wide)}` : "",
    previews > 0 ? `${previews} ${previews === 1 ? "preview" : "previews"}` : "",
    wide
      ? ignored.map((one) => `not affected: ${one.deployment}, ${one.reason}`).join("; ") +
        (ignoredMore > 0 ? `; and ${ignoredMore} more` : "")
      : ignored.length > 0 && matched === 0
        ? `${ignored[0]?.deployment}: ${ignored[0]?.reason}${ignored.length > 1 ? `; and ${ignored.length - 1 + ignoredMore} more` : ""}`
        : "",
  ];
  return parts.filter(Boolean).join("; ") || "–";
}
