/** `towline notify test`: sends a sample of each kind to a target, and shows what it answers. */
import { randomBytes } from "node:crypto";
import { ConfigError, NotifyError } from "../errors.ts";
import { findNearest } from "../kit/nearest.ts";
import { noticeKinds } from "../model.ts";
import { didYouMean } from "../config/problems.ts";
import { loadFromFlags } from "./configuration.ts";
import type { Define } from "./commands.ts";
import { plain } from "./table.ts";

interface Flags {
  readonly config?: string;
  readonly channel?: string;
  readonly only?: string;
}

const help = `
Sends one message of each kind, marked as a sample, with the target's configuration as the server has it. Nothing is
recorded, and the limit per hour and quiet hours do not apply.

Examples:
  towline notify test team
  towline notify test team --only drift
  towline notify test team --channel '#shop'

Exit codes:
  0  The target accepted all of them
  1  The target refused one or did not answer: the output says why
  2  Invalid command line or configuration`;

export const defineNotifyTest: Define = (command, { env, out }, onCode) => {
  command
    .argument("<target>", "The target's id in the configuration (notifications.targets)")
    .option("-c, --config <file>", "The server's configuration file (TOWLINE_CONFIG)")
    .option("--channel <channel>", "Another channel or other recipients than the target's own")
    .option("--only <kind>", `Only messages of this kind: ${noticeKinds.join(", ")}`)
    .addHelpText("after", help)
    .action(async (id: string, { config: file, channel, only }: Flags) => {
      const { config } = loadFromFlags(env, { config: file });
      const { targets } = config.notifications;
      const ids = targets.map((one) => one.id);
      const target = targets.find((one) => one.id === id);
      if (target === undefined) {
        const known = ids.length === 0 ? "none is configured" : `configured are ${ids.join(", ")}`;
        throw new ConfigError(`there is no target ${plain(id)}${didYouMean(findNearest(id, ids)) || `: ${known}`}`);
      }
      const [{ createNotifier }, { sampleNotifications }] = await Promise.all([
        import("../notify/create-notifier.ts"), // `--help` does not wait for it
        import("../reporting/notifications/samples.ts"),
      ]);
      const cluster = config.clusterName ?? "test";
      const notifier = createNotifier(target, { cluster });
      const all = sampleNotifications({ cluster, seed: randomBytes(6).toString("hex"), now: Date.now() });
      const samples = all.filter(({ kind }) => only === undefined || kind === only);
      if (samples.length === 0) throw new ConfigError(`--only: there are no messages of kind ${plain(only ?? "")}`);
      for (const sample of samples) {
        try {
          await notifier.send(sample, { channel, signal: new AbortController().signal });
          out(`sent: ${sample.title}\n`);
        } catch (error) {
          if (!(error instanceof NotifyError)) throw error;
          out(`not sent: ${sample.title}: ${plain(error.message)}\n`);
          return onCode(1);
        }
      }
      if (target.kind === "teams")
        out("Teams accepts messages before it posts them: look into the channel, or the flow's run history.\n");
      onCode(0);
    });
};
