/** Large results: how long the server blocks its event loop while it parses, compares and redacts them. */
import { setTimeout as delay } from "node:timers/promises";
import { reporterScopes } from "../parts/gitea-client.ts";
import { now } from "./clock.ts";
import { largeFiles, type LargeProject, largeProjects } from "./large-projects.ts";
import { lagOf } from "./many-deployments.ts";
import { type Measurement, milliseconds, type Report } from "./measurement.ts";
import { specOf } from "./project.ts";
import type { Stage } from "./stage.ts";
import type { Towline } from "./towline.ts";

const goalMs = 200;
const patienceMs = 300_000;
const words: Readonly<Record<LargeProject, string>> = {
  secret: "a Secret of 1.9 MB in 60,000 lines, which the API server rejects",
  maps: "ten ConfigMaps of 0.9 MB",
  many: "500 objects",
};

export const large: Measurement = {
  name: "large",
  title: "Large results",
  async run(stage) {
    const rows = await measure(stage);
    const longest = Math.max(...rows.map(({ ms }) => ms));
    return {
      how:
        "Three deployments are deployed one after another; then a push changes each object, and a pull request changes " +
        "each object once more. The server reports the longest delay of its event loop meanwhile: a webhook or the renewal of a Lease waits that long.",
      tables: [
        { head: ["longest delay of the event loop", ""], rows: rows.map(({ what, ms }) => [what, milliseconds(ms)]) },
      ],
      goals: [
        {
          what: "longest delay of the event loop with large results",
          wanted: `< ${goalMs} ms`,
          measured: milliseconds(longest),
          met: longest < goalMs,
        },
      ],
      memory: [],
    } satisfies Report;
  },
};

interface Row {
  readonly what: string;
  readonly ms: number;
}

async function measure(stage: Stage): Promise<readonly Row[]> {
  const namespace = "bench-large";
  const repository = await stage.giteaRepository(namespace);
  const { client, remote, url, copy } = repository;
  await copy.push(largeFiles("0"));
  const login = await client.createCollaborator(remote, "towline-large", reporterScopes);
  const forge = { apiUrl: `${login.url}/api/v1`, token: login.token };
  await stage.cluster.createNamespace(namespace);
  await stage.cluster.createPreviewAccount(namespace);
  const server = await stage.startTowline({ name: namespace, namespace, concurrency: 2, forge });
  await client.registerWebhook(remote, { ...server.webhook, events: ["push", "pull_request"] });

  const rows: Row[] = [];
  const longestUntil = async (what: string, isOver: () => Promise<boolean>, begin: () => Promise<unknown>) => {
    await server.metrics(); // resets the lag figures
    await begin();
    await until(what, isOver);
    const { max } = lagOf(await server.metrics());
    stage.say(`  ${what}: ${milliseconds(max)}`);
    rows.push({ what, ms: max });
  };
  const reconciled = async () => (await server.lines()).filter(({ msg }) => msg === "reconciled").length;
  for (const name of largeProjects) {
    const before = await reconciled();
    const spec = {
      ...specOf({ url, namespace, name, interval: "1h" }),
      source: { git: { url, ref: { branch: "main" }, path: name } },
      args: { namespace },
    };
    await longestUntil(
      `first deploy: ${words[name]}`,
      async () => (await reconciled()) > before,
      () => stage.cluster.createDeployment(namespace, name, spec),
    );
  }
  const deployed = await reconciled();
  await longestUntil(
    "push that changes all of these",
    async () => (await reconciled()) >= deployed + largeProjects.length,
    () => copy.push(largeFiles("1")),
  );
  const head = await copy.push(largeFiles("2"), { branch: "next" });
  const pull = { title: "next", head: "next", base: "main" };
  await longestUntil(
    "pull request that changes all of these, and its comment",
    () => isReported(server, head),
    () => client.call("POST", `/repos/${remote.owner}/${remote.name}/pulls`, pull),
  );
  await server.stop();
  return rows;
}

async function isReported(server: Towline, head: string): Promise<boolean> {
  const lines = await server.lines();
  return lines.some((line) => line.msg === "reported" && line["state"] === "done" && line["head"] === head);
}

async function until(what: string, isOver: () => Promise<boolean>): Promise<void> {
  for (const deadline = now() + patienceMs; now() < deadline; await delay(100)) if (await isOver()) return;
  throw new Error(`${what}: not done in ${patienceMs / 1_000} s.`);
}
