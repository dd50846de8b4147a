/** Signed deliveries at a steady rate, alone and while pull requests with greedy templates are previewed. */
import { setTimeout as sleep } from "node:timers/promises";
import { createDelivery } from "./delivery.ts";
import { describeLost, send } from "./intake.ts";
import { type Measurement, milliseconds, type Report } from "./measurement.ts";
import { play, prepare, type Scene } from "./previews.ts";
import { pushRelease } from "./project.ts";
import type { Order, Sent } from "./send-pushes.ts";
import { startSampling } from "./usage.ts";

const perSecond = 50;
const bytes = 8 * 1024;
const connections = 64;
const warmSeconds = 3;
const pushEveryMs = 2_000;
const goalMs = 200;

const os = "lipsum.__globals__.os";
/** Templates that each exhaust one limit of a renderer; none ends before the next push to its branch. */
const greedy: Readonly<Record<string, string>> = {
  memory: `{% set all = [] %}{% for _ in range(100000) %}{% set _ = all.append("x" * 10000000 ~ loop.index) %}{% endfor %}`,
  processes: `{% for _ in range(10 ** 9) %}{{ ${os}.fork() }}{% endfor %}`,
  time: `{% for _ in range(10 ** 12) %}{% endfor %}`,
  output: `{% for _ in range(10 ** 6) %}{{ "x" * 1000000 }}{% endfor %}`,
};

export const exhausting: Measurement = {
  name: "exhausting",
  title: "Webhook intake with pull requests that exhaust resources",
  async run(stage) {
    const scene = await prepare(stage, 1, "required", "bench-exhausting");
    const { server, repository } = scene;
    const { url, first: commit } = repository;
    const repoName = `${repository.remote.owner}/${repository.remote.name}`;
    const deliveries = [
      createDelivery({ url, commit, repoName, paths: ["release.yaml"], bytes }, server.webhook.secret),
    ];
    const seconds = stage.quick ? 5 : 30;
    const order: Order = { url: server.webhook.url, perSecond, seconds, warmSeconds, connections, deliveries };
    await play(scene, "warm");

    const alone = await send(stage, order);
    const sampled = startSampling(server.pid);
    const { sent: beside, pushes } = await besideGreedy(scene, () => send(stage, order));
    const usage = sampled();
    const { opened } = await play(scene, "after");
    await server.stop();

    const each = (what: string, of: (sent: Sent) => string) => [what, of(alone), of(beside)];
    const lost = beside.sent - beside.accepted;
    return {
      how:
        `${alone.sent} signed deliveries of 8 KB, ${perSecond} a second, for one deployment whose pull requests are previewed with \`preview.isolation: required\`. ` +
        `Then the same, while four pull requests use memory, processes, time and output without limit; one of them is updated every ${pushEveryMs / 1_000} s, ${pushes} times in total. ` +
        "All processes share two cores.",
      tables: [
        {
          head: ["deliveries", "alone", "with these pull requests"],
          rows: [
            each("sent", ({ sent }) => String(sent)),
            each("answered with 202", ({ accepted }) => String(accepted)),
            each("lost", describeLost),
            each("latency, p50", ({ p50 }) => milliseconds(p50)),
            each("latency, p99", ({ p99 }) => milliseconds(p99)),
            each("latency, max", ({ max }) => milliseconds(max)),
            each("largest delay of the sender", ({ latest }) => milliseconds(latest)),
          ],
        },
      ],
      notes: [
        `The next pull request had its comment ${milliseconds(opened.comment.to - opened.doneAt)} after it was opened, queued behind the previews that were still in progress.`,
      ],
      goals: [
        {
          what: `intake at ${perSecond}/s with pull requests that exhaust resources: p99`,
          wanted: `< ${goalMs} ms`,
          measured: milliseconds(beside.p99),
          met: beside.p99 < goalMs,
        },
        {
          what: `intake at ${perSecond}/s with pull requests that exhaust resources: lost`,
          wanted: "0",
          measured: String(lost),
          met: lost === 0,
        },
      ],
      memory: [{ when: `${perSecond} deliveries a second with pull requests that exhaust resources`, ...usage }],
    } satisfies Report;
  },
};

/** Keeps the pull requests open until the work is done, then closes them. */
async function besideGreedy(
  { repository: { copy, client, remote } }: Scene,
  work: () => Promise<Sent>,
): Promise<{ sent: Sent; pushes: number }> {
  const repo = `/repos/${remote.owner}/${remote.name}`;
  const numbers: number[] = [];
  for (const [branch, template] of Object.entries(greedy)) {
    await copy.git("checkout", "--quiet", "-b", branch, "main");
    await pushRelease(copy, template, branch);
    const proposal = { title: branch, head: branch, base: "main" };
    numbers.push((await client.call<{ number: number }>("POST", `${repo}/pulls`, proposal)).number);
  }
  let [over, pushes] = [false, 0];
  const pushing = (async () => {
    for (const kinds = Object.entries(greedy); !over; await sleep(pushEveryMs)) {
      const [branch = "", template = ""] = kinds[pushes % kinds.length] ?? [];
      await copy.git("checkout", "--quiet", branch);
      await pushRelease(copy, `${template}{# ${++pushes} #}`, branch);
    }
  })();
  try {
    return { sent: await work(), pushes };
  } finally {
    over = true;
    await pushing;
    for (const number of numbers) await client.call("PATCH", `${repo}/pulls/${number}`, { state: "closed" });
    await copy.git("checkout", "--quiet", "main");
  }
}
