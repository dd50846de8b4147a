/** `npm run fuzz`: sends deliveries that no git host would send to the real server. */
import { randomInt } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { endOfRun } from "./end-of-run.ts";
import { type FuzzReport, playFuzz } from "./fuzz/play.ts";
import { readOptions } from "./options.ts";
import { findTools } from "./tools.ts";
import { startWorld } from "./world.ts";

const help = `npm run fuzz [-- options]

Sends mutated deliveries of GitHub, GitLab and Gitea, most of them with a valid signature, to a real \`towline serve\`. Checks that each
is answered within a second and never with a 5xx status, that the log reports no internal error, and that memory does not grow.

  --deliveries N  Send N deliveries: 1000000
  --seed N        Repeat the deliveries of this seed
  --from N        Start with delivery N; with --deliveries 1, repeats a single one
  --report FILE   Write the figures to FILE, as JSON
  --help          Show this help
`;

const options = readOptions(
  {
    deliveries: { type: "string", default: "1000000" },
    seed: { type: "string" },
    from: { type: "string" },
    report: { type: "string" },
  },
  help,
);

const say = (line: string) => void process.stdout.write(`${line}\n`);
const tellEveryMs = 10_000;

await main();
process.exit();

async function main(): Promise<void> {
  const signal = endOfRun();
  const [deliveries, from] = [wholeNumber("deliveries") ?? 1, wholeNumber("from")];
  const seed = wholeNumber("seed") ?? randomInt(1, 1_000_000);
  const progress = { say: (line: string) => void process.stderr.write(`${line}\n`) };
  const { kluctl } = await findTools(["kluctl"], progress);
  const world = await startWorld(["controlPlane", "redis"], progress);
  try {
    const [{ kubeconfig }, { url }] = [await world.part("controlPlane"), await world.part("redis")];
    say(`seed ${seed}: ${deliveries} deliveries`);
    let toldAt = performance.now();
    const report = await playFuzz({
      ...{ seed, deliveries, from, signal, kubeconfig, kluctl },
      dir: world.stateDir,
      redisUrl: url,
      namespace: "fuzz",
      onProgress(done, soFar) {
        if (performance.now() < toldAt + tellEveryMs) return;
        toldAt = performance.now();
        say(`${Math.floor((100 * done) / deliveries)} %: ${describe(soFar)}`);
      },
    });
    say(`seed ${seed}: ${describe(report)}`);
    for (const [answer, times] of [...report.answers].toSorted(([, a], [, b]) => b - a)) say(`  ${answer}: ${times}`);
    for (const { delivery, what } of report.findings) {
      say(
        `  FOUND ${what}${delivery === undefined ? "" : `; npm run fuzz -- --seed ${seed} --from ${delivery} --deliveries 1`}`,
      );
    }
    if (options.report !== undefined) {
      await writeFile(
        resolve(options.report),
        JSON.stringify({ seed, ...report, answers: Object.fromEntries(report.answers) }),
      );
    }
    if (report.findings.length > 0) process.exitCode = 1;
  } finally {
    await world.stop();
  }
}

function describe({ sent, findings, p50, p99, longest, bytes }: FuzzReport): string {
  const times = `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, longest ${Math.round(longest)} ms`;
  return `${sent} sent, ${findings.length} findings; ${times}; ${Math.round((bytes.at(-1) ?? 0) / 1e6)} MB`;
}

function wholeNumber(name: "deliveries" | "seed" | "from"): number | undefined {
  const text = options[name];
  if (text === undefined) return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  process.stderr.write(`--${name}: ${JSON.stringify(text)} is not a whole number\n`);
  return process.exit(2);
}
