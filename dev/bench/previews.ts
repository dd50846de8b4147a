/** From a pull request on a real git host to the comment on it, and from another push to the changed comment. */
import { setTimeout as delay } from "node:timers/promises";
import { type GiteaClient, type GiteaRepository, reporterScopes } from "../parts/gitea-client.ts";
import { now } from "./clock.ts";
import { isReady } from "./cluster.ts";
import { commentSizes } from "./comment-sizes.ts";
import type { ForgeProxy } from "./forge-proxy.ts";
import { median, type Measurement, milliseconds, quantile, type Report, type Table } from "./measurement.ts";
import { kindOf, type Preview, receivedAtOf, type Split, splitPreview, stepsOf } from "./preview-moments.ts";
import { pushRelease, specOf } from "./project.ts";
import { coldDiffMs } from "./spawn.ts";
import type { Repository, Stage } from "./stage.ts";
import { stepTable } from "./timeline.ts";
import type { LogLine, Towline } from "./towline.ts";

const goalMs = 3_000;
const goalRatio = 2.5;
const patienceMs = 60_000;

/** What a number of deployments came to. */
interface Round extends Pick<Scene, "repository" | "namespace"> {
  readonly count: number;
  readonly opened: readonly Preview[];
  readonly updated: readonly Preview[];
}

export const previews: Measurement = {
  name: "previews",
  title: "From a pull request to its comment",
  async run(stage) {
    const one = await measure(stage, 1, stage.quick ? 3 : 12);
    const coldMs = await coldDiffMs(stage, one.repository, one.namespace);
    const twenty = await measure(stage, 20, stage.quick ? 1 : 3);
    const totals = one.opened.map((preview) => splitPreview(preview).total);
    const p50 = median(totals);
    return {
      how:
        `${one.opened.length} pull requests that concern one deployment of three objects, then ${twenty.opened.length} that concern ${twenty.count}, on Gitea. ` +
        "Each is opened, pushed to once and closed; one value is changed. The clock starts when Gitea says that it is open, or `git push` is done, " +
        "and stops when Gitea has taken the comment that tells what the merge would change. Comparing is kluctl, " +
        'confined by isolation "required", as many at once as is the default. Waiting for Gitea\'s answers is called forge, ' +
        "except what is asked while something is compared. Comments are built of made-up reports, for the limits of GitHub and GitLab.",
      tables: [
        splits("opened, one deployment", one.opened),
        splits("pushed to, one deployment", one.updated),
        stepTable("opened, one deployment, from the delivery to the comment", one.opened.map(stepsOf)),
        splits(`opened, ${twenty.count} deployments`, twenty.opened),
        splits(`pushed to, ${twenty.count} deployments`, twenty.updated),
        requests([one, twenty]),
        commentSizes(stage.quick),
      ],
      goals: [
        {
          what: "pull request opened to comment, one deployment: p50",
          wanted: `< ${goalMs} ms`,
          measured: milliseconds(p50),
          met: p50 < goalMs,
        },
        {
          what: "pull request opened to comment, one deployment, p50 / one cold kluctl diff",
          wanted: `≤ ${goalRatio}`,
          measured: (p50 / coldMs).toFixed(2),
          met: p50 / coldMs <= goalRatio,
        },
      ],
      memory: [],
    } satisfies Report;
  },
};

async function measure(stage: Stage, count: number, times: number): Promise<Round> {
  const scene = await prepare(stage, count);
  await play(scene, "warm");
  const [opened, updated]: [Preview[], Preview[]] = [[], []];
  for (let i = 1; i <= times; i++) {
    const played = await play(scene, `r${i}`);
    opened.push(played.opened);
    updated.push(played.updated);
    if (i % 4 === 0) stage.say(`  ${count === 1 ? "one deployment" : `${count} deployments`}: ${i} of ${times}`);
  }
  await scene.server.stop();
  const { repository, namespace } = scene;
  return { count, opened, updated, repository, namespace };
}

interface Scene {
  readonly namespace: string;
  readonly repository: Repository & { readonly client: GiteaClient; readonly remote: GiteaRepository };
  readonly proxy: ForgeProxy;
  readonly server: Towline;
}

async function prepare(stage: Stage, count: number): Promise<Scene> {
  const namespace = `bench-previews-${count}`;
  const repository = await stage.giteaRepository(namespace);
  const { client, remote, url, first } = repository;
  const login = await client.createCollaborator(remote, `towline-${count}`, reporterScopes);
  const proxy = await stage.forgeProxy(`${login.url}/api/v1`);
  await stage.cluster.createNamespace(namespace);
  await stage.cluster.createPreviewAccount(namespace);
  const forge = { apiUrl: proxy.apiUrl, token: login.token };
  const server = await stage.startTowline({ name: namespace, namespace, concurrency: 2, forge });
  await client.registerWebhook(remote, { ...server.webhook, events: ["push", "pull_request"] });
  const deployments = await stage.cluster.watch("KluctlDeployment", namespace);
  stage.defer(() => deployments.stop());
  const names = Array.from({ length: count }, (_, i) => `d${String(i).padStart(2, "0")}`);
  for (const name of names) {
    await stage.cluster.createDeployment(namespace, name, specOf({ url, namespace, name, interval: "1h" }));
  }
  await deployments.until("the first deploy", (all) => names.every((name) => isReady(all.get(name), first)), 180_000);
  return { namespace, repository, proxy, server };
}

/** One pull request: opened, pushed to, closed. */
async function play(scene: Scene, value: string): Promise<{ opened: Preview; updated: Preview }> {
  const { copy, client, remote } = scene.repository;
  const repo = `/repos/${remote.owner}/${remote.name}`;
  await copy.git("checkout", "--quiet", "-b", value, "main");
  const first = await pushRelease(copy, `${value}-1`, value);
  const name = { title: value, head: value, base: "main" };
  let number = 0;
  const opened = await watchPreview(scene, async () => {
    ({ number } = await client.call<{ number: number }>("POST", `${repo}/pulls`, name));
    return { number, head: first.commit, doneAt: now() };
  });
  const updated = await watchPreview(scene, async () => {
    const { commit, doneAt } = await pushRelease(copy, `${value}-2`, value);
    return { number, head: commit, doneAt };
  });
  const known = (await scene.server.lines()).length;
  await client.call("PATCH", `${repo}/pulls/${number}`, { state: "closed" });
  await reported(scene.server, known, opened.subject, "closed");
  return { opened, updated };
}

async function watchPreview(
  { repository: { remote }, proxy, server }: Scene,
  act: () => Promise<{ number: number; head: string; doneAt: number }>,
): Promise<Preview> {
  const [since, known] = [proxy.asked.length, (await server.lines()).length];
  const before = (await server.processes()).length;
  const { number, head, doneAt } = await act();
  const subject = `gitea:${remote.owner}/${remote.name}#${number}`;
  const comment = await proxy.until(
    `a comment about ${head.slice(0, 7)}`,
    (asked) => kindOf(asked) === "write the comment" && tellsOf(asked.body, head),
    since,
  );
  const reportedAt = await reported(server, known, subject, "done", head);
  const lines = (await server.lines()).slice(known);
  const receivedAt = receivedAtOf(lines);
  // What was on its way when it was reported, of the status of a commit for example, is nobody's.
  const asked = proxy.asked.slice(since).filter(({ from, to }) => from >= receivedAt && to <= reportedAt + 1);
  const ran = (await server.processes()).slice(before);
  return { subject, doneAt, comment, reportedAt, asked: asked.toSorted((a, b) => a.from - b.from), lines, ran };
}

/** Of this commit, and no more at work. */
function tellsOf(request: string, head: string): boolean {
  const { body } = JSON.parse(request) as { body: string };
  const [verdict = ""] = /^### .*$/m.exec(body) ?? [];
  return body.includes(head.slice(0, 7)) && !verdict.endsWith("…");
}

/** When the server said that the git host shows this state of the pull request. */
async function reported(server: Towline, known: number, subject: string, state: string, head?: string) {
  const isIt = (line: LogLine) =>
    line.msg === "reported" &&
    line["pullRequest"] === subject &&
    line["state"] === state &&
    (head === undefined || line["head"] === head);
  for (const deadline = now() + patienceMs; now() < deadline; await delay(50)) {
    const line = (await server.lines()).slice(known).find(isIt);
    if (line) return line.at;
  }
  throw new Error(`${subject} was not reported as ${state} in ${patienceMs / 1_000} s.`);
}

function splits(title: string, all: readonly Preview[]): Table {
  const parts = all.map(splitPreview);
  const row = (what: string, values: readonly number[]) => [
    what,
    ...[median(values), quantile(values, 0.95), quantile(values, 1)].map(milliseconds),
  ];
  const part = (what: string, of: (split: Split) => number) => row(what, parts.map(of));
  return {
    head: [title, "p50", "p95", "max"],
    rows: [
      part("webhook: done → delivery received", ({ webhook }) => webhook),
      part("queue: received → work started", ({ queue }) => queue),
      part("merge: ls-remote, fetch, merge, check out", ({ merge }) => merge),
      part("diff: kluctl, all deployments", ({ diff }) => diff),
      part("report: look at the base again, build the comment", ({ report }) => report),
      part("forge: waiting for its answers", ({ forge }) => forge),
      part("total: done → comment written", ({ total }) => total),
      row(
        "and until the statuses are",
        all.map(({ reportedAt, doneAt }) => reportedAt - doneAt),
      ),
    ],
  };
}

function requests(rounds: readonly Round[]): Table {
  const columns = rounds.flatMap(({ count, opened, updated }) => [
    { title: `opened, ${count}`, all: opened },
    { title: `pushed to, ${count}`, all: updated },
  ]);
  const kinds = ["read the pull request", "read the comments", "write the comment", "write a status", "anything else"];
  const cell = (all: readonly Preview[], is: (kind: string) => boolean) =>
    String(median(all.map(({ asked }) => asked.filter((one) => is(kindOf(one))).length)));
  const row = (what: string, is: (kind: string) => boolean) => [what, ...columns.map(({ all }) => cell(all, is))];
  return {
    head: ["asked of the forge for one preview, median", ...columns.map(({ title }) => title)],
    rows: [...kinds.map((kind) => row(kind, (one) => one === kind)), row("together", () => true)],
  };
}
