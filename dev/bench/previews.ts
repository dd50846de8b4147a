/** From a pull request on a real git host to its comment, and from another push to the changed comment. */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { type GiteaClient, type GiteaRepository, reporterScopes } from "../parts/gitea-client.ts";
import { now } from "./clock.ts";
import { type Cluster, isReady, type KubernetesObject, type Seen } from "./cluster.ts";
import { commentSizes } from "./comment-sizes.ts";
import type { ForgeProxy } from "./forge-proxy.ts";
import { median, type Measurement, megabytes, milliseconds, quantile, type Report, type Table } from "./measurement.ts";
import { kindOf, type Preview, receivedAtOf, type Split, splitPreview, stepsOf } from "./preview-moments.ts";
import { pushRelease, specOf } from "./project.ts";
import { coldDiffMs } from "./spawn.ts";
import type { Repository, Stage, TowlineServerOptions } from "./stage.ts";
import { stepTable } from "./timeline.ts";
import type { Isolation, LogLine, Towline } from "./towline.ts";
import { cpuSeconds, ownBytes } from "./usage.ts";

/** Measured from the delivery on: when the host sends it is not under the server's control. */
const goals = { one: 500, twenty: 2_500, many: 20_000, requests: 12 };
const goalRatio = 2.5;
const patienceMs = 60_000;

/** The figures for one number of deployments. */
interface Round extends Pick<Scene, "repository" | "namespace" | "isolation" | "drifted"> {
  readonly count: number;
  readonly opened: readonly Preview[];
  readonly updated: readonly Preview[];
  /** CPU seconds of the server and its children for each opened pull request. */
  readonly cpu: readonly number[];
  /** Memory of the fork server that renders previews. */
  readonly forkServerBytes: number | undefined;
}

export const previews: Measurement = {
  name: "previews",
  title: "From a pull request to its comment",
  async run(stage) {
    const [one, open, drifted] = await measure(stage, 1, stage.quick ? 3 : 12);
    const coldMs = await coldDiffMs(stage, one.repository, one.namespace);
    const [twenty, openTwenty, driftedTwenty] = await measure(stage, 20, stage.quick ? 1 : 3);
    const [many, openMany, driftedMany] = await measure(stage, stage.quick ? 40 : 200, 1);
    const rounds = [open, one, drifted, openTwenty, twenty, driftedTwenty, openMany, many, driftedMany];
    const ratio = median(one.opened.map(fromDelivery)) / coldMs;
    const goal = (what: string, { opened, count }: Round, wanted: number) => {
      const p50 = median(opened.map(fromDelivery));
      return {
        what: `pull request opened to comment, ${count === 1 ? "one deployment" : `${count} deployments`}, isolated: ${what}`,
        wanted: `≤ ${milliseconds(wanted)}`,
        measured: milliseconds(p50),
        met: p50 <= wanted,
        why: "a diff is one run of kluctl for each deployment, about 0.2 s of CPU time, and depends on the processor. On a faster one (isolation off: 38.5 s for 200 deployments), one deployment took 446 ms and 20 took 2.5 s.",
      };
    };
    const asked = median(twenty.opened.map((preview) => preview.asked.length));
    return {
      how:
        `${one.opened.length} pull requests that affect one deployment of three objects, then ${twenty.opened.length} that affect ${twenty.count} and ${many.opened.length} that affects ${many.count}, on Gitea. ` +
        "Each changes one value; it is opened, updated with one push, and closed. The clock starts when Gitea reports that it is open, or when `git push` has ended, " +
        "and stops when Gitea has accepted the comment that shows what merging would change. The goals count from the delivery, because the git host decides when it sends it. " +
        "Previews are isolated (`preview.isolation: required`); for comparison, a second server with `preview.isolation: off` takes turns with the first. All use a service account that may compare these kinds. " +
        "The deployments are in sync with the base, so that it need not be compared. Those of a third server have drifted: before each pull request is opened, a Service of every deployment is edited, and its status shows the drift. " +
        "Then the opened pull request has to compare the base too (cold), and the updated one uses what is known (warm). " +
        "The diff step is kluctl, with the default number of parallel runs. The forge step is the time spent waiting for Gitea, " +
        "except for requests that are sent during the diff step. CPU is the CPU time of the server and everything it starts, from the delivery to the statuses, divided by the number of deployments. " +
        "Comment sizes are measured with generated reports, for the limits of GitHub and GitLab.",
      tables: [
        besideOpen(rounds),
        splits("opened, one deployment", one.opened),
        splits("updated, one deployment", one.updated),
        stepTable("opened, one deployment: steps from the delivery to the comment", one.opened.map(stepsOf)),
        splits(`opened, ${twenty.count} deployments`, twenty.opened),
        splits(`updated, ${twenty.count} deployments`, twenty.updated),
        splits(`opened, ${many.count} deployments`, many.opened),
        requests([one, twenty, many]),
        commentSizes(stage.quick),
      ],
      notes: [
        `The fork server of isolated renderers uses ${megabytes(one.forkServerBytes ?? 0)}; pages that it shares with other processes are counted proportionally.`,
      ],
      goals: [
        goal("p50", one, goals.one),
        {
          what: "pull request opened to comment, one deployment, isolated: p50 / one cold kluctl diff",
          wanted: `≤ ${goalRatio}`,
          measured: ratio.toFixed(2),
          met: ratio <= goalRatio,
        },
        goal("median", twenty, goals.twenty),
        goal("time", many, goals.many),
        {
          what: `requests to the git host for a pull request that affects ${twenty.count} deployments`,
          wanted: `≤ ${goals.requests}`,
          measured: String(asked),
          met: asked <= goals.requests,
        },
      ],
      memory: [],
    } satisfies Report;
  },
};

const fromDelivery = ({ comment, lines }: Preview) => comment.to - receivedAtOf(lines);

/** Measures three servers alternately: one that isolates previews, one that does not, and one whose deployments drift. */
async function measure(stage: Stage, count: number, times: number): Promise<[Round, Round, Round]> {
  const drifted = await prepare(stage, count, "required", `bench-previews-${count}-drifted`);
  const scenes = [
    await prepare(stage, count, "required"),
    await prepare(stage, count, "off"),
    { ...drifted, drifted: true },
  ] as const;
  const rounds = scenes.map((scene) => ({ scene, played: [] as Played[] }));
  for (const scene of scenes) await play(scene, "warm");
  for (let i = 1; i <= times; i++) {
    for (const { scene, played } of rounds) played.push(await play(scene, `r${i}`));
    if (i % 4 === 0) stage.say(`  ${count === 1 ? "one deployment" : `${count} deployments`}: ${i} of ${times}`);
  }
  const ended = rounds.map(async ({ scene, played }): Promise<Round> => {
    const { repository, namespace, isolation, drifted: isDrifted, server } = scene;
    const forkServerBytes = await forkServerBytesOf(server);
    await server.stop();
    const [opened, updated] = [played.map((one) => one.opened), played.map((one) => one.updated)];
    return {
      count,
      repository,
      namespace,
      isolation,
      drifted: isDrifted,
      opened,
      updated,
      cpu: played.map(({ cpu }) => cpu),
      forkServerBytes,
    };
  });
  return Promise.all(ended) as Promise<[Round, Round, Round]>;
}

async function forkServerBytesOf(server: Towline): Promise<number | undefined> {
  const line = (await server.lines()).findLast(({ msg }) => msg === "preview renderers are kept warm");
  return line && ownBytes(Number(line["pid"]));
}

interface Played {
  readonly opened: Preview;
  readonly updated: Preview;
  readonly cpu: number;
}

export interface Scene {
  readonly namespace: string;
  readonly isolation: Isolation;
  readonly repository: Repository & { readonly client: GiteaClient; readonly remote: GiteaRepository };
  readonly proxy: ForgeProxy;
  readonly server: Towline;
  readonly cluster: Cluster;
  readonly deployments: Seen;
  /** The deployments. */
  readonly names: readonly string[];
  /** An object of each deployment is edited before each pull request. */
  readonly drifted?: boolean | undefined;
}

/** Creates a repository on Gitea with this many deployments, and a server that previews its pull requests. */
export async function prepare(
  stage: Stage,
  count: number,
  isolation: Isolation,
  namespace = `bench-previews-${count}-${isolation}`,
  more: Partial<TowlineServerOptions> = {},
): Promise<Scene> {
  const repository = await stage.giteaRepository(namespace);
  const { client, remote, url, first } = repository;
  const login = await client.createCollaborator(remote, `login-${namespace}`, reporterScopes);
  const proxy = await stage.forgeProxy(`${login.url}/api/v1`);
  await stage.cluster.createNamespace(namespace);
  await stage.cluster.createComparingAccount(namespace);
  const forge = { apiUrl: proxy.apiUrl, token: login.token };
  const server = await stage.startTowline({ name: namespace, namespace, concurrency: 2, forge, isolation, ...more });
  await client.registerWebhook(remote, { ...server.webhook, events: ["push", "pull_request"] });
  const deployments = await stage.cluster.watch("KluctlDeployment", namespace);
  stage.defer(() => deployments.stop());
  const names = Array.from({ length: count }, (_, i) => `d${String(i).padStart(2, "0")}`);
  for (const name of names) {
    await stage.cluster.createDeployment(namespace, name, specOf({ url, namespace, name, interval: "1h" }));
  }
  await deployments.until("the first deploy", (all) => names.every((name) => isReady(all.get(name), first)), 600_000);
  return { namespace, isolation, repository, proxy, server, cluster: stage.cluster, deployments, names };
}

/** Edits a Service of each deployment, and waits until their status shows it. */
async function drift({ cluster, deployments, names, namespace }: Scene): Promise<void> {
  const resultOf = (all: ReadonlyMap<string, KubernetesObject>, name: string) =>
    all.get(name)?.status?.lastDriftDetectionResult;
  const before = new Map<string, string | undefined>();
  await deployments.until("any state", (all) => {
    for (const name of names) before.set(name, resultOf(all, name)?.id);
    return true;
  });
  const selector = { app: `edited-${randomBytes(4).toString("hex")}` };
  for (const name of names) {
    const path = `/api/v1/namespaces/${namespace}/services/${name}`;
    // kluctl reports the changes of this field manager as drift, and keeps those of others.
    const query = { fieldManager: "kubectl-edit" };
    await cluster.client.request({ method: "PATCH", path, query, body: { spec: { selector } } });
  }
  const isNoticed = (all: ReadonlyMap<string, KubernetesObject>) =>
    names.every((name) => {
      const found = resultOf(all, name);
      return found?.id !== before.get(name) && (found?.objects?.length ?? 0) > 0;
    });
  await deployments.until("the drift", isNoticed, 600_000);
}

/** Plays one pull request: opens it, pushes to it, closes it. */
export async function play(scene: Scene, value: string): Promise<Played> {
  const { copy, client, remote } = scene.repository;
  const repo = `/repos/${remote.owner}/${remote.name}`;
  await copy.git("checkout", "--quiet", "-b", value, "main");
  const first = await pushRelease(copy, `${value}-1`, value);
  const name = { title: value, head: value, base: "main" };
  if (scene.drifted) await drift(scene);
  let number = 0;
  const cpuBefore = cpuSeconds(scene.server.pid);
  const opened = await watchPreview(scene, async () => {
    ({ number } = await client.call<{ number: number }>("POST", `${repo}/pulls`, name));
    return { number, head: first.commit, doneAt: now() };
  });
  const cpu = cpuSeconds(scene.server.pid) - cpuBefore;
  const updated = await watchPreview(scene, async () => {
    const { commit, doneAt } = await pushRelease(copy, `${value}-2`, value);
    return { number, head: commit, doneAt };
  });
  const known = (await scene.server.lines()).length;
  await client.call("PATCH", `${repo}/pulls/${number}`, { state: "closed" });
  await reported(scene.server, known, opened.subject, "closed");
  return { opened, updated, cpu };
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
  // Requests still in flight at the report, for example for a commit status, are not counted.
  const asked = proxy.asked.slice(since).filter(({ from, to }) => from >= receivedAt && to <= reportedAt + 1);
  const ran = (await server.processes()).slice(before);
  return { subject, doneAt, comment, reportedAt, asked: asked.toSorted((a, b) => a.from - b.from), lines, ran };
}

/** True if the comment is about this commit and no longer in progress. */
function tellsOf(request: string, head: string): boolean {
  const { body } = JSON.parse(request) as { body: string };
  const [verdict = ""] = /^### .*$/m.exec(body) ?? [];
  const isOlder = body.includes("**Comparing again**");
  return body.includes(head.slice(0, 7)) && !verdict.endsWith("…") && !isOlder;
}

/** The time at which the server logged that the git host shows this state of the pull request. */
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
      part("webhook: opened or pushed → delivery received", ({ webhook }) => webhook),
      part("queue: received → work started", ({ queue }) => queue),
      part("merge: ls-remote, fetch, merge, checkout", ({ merge }) => merge),
      part("diff: kluctl, all deployments", ({ diff }) => diff),
      part("report: check the base branch again, build the comment", ({ report }) => report),
      part("forge: waiting for answers", ({ forge }) => forge),
      part("total: opened or pushed → comment written", ({ total }) => total),
      row(
        "opened or pushed → statuses written",
        all.map(({ reportedAt, doneAt }) => reportedAt - doneAt),
      ),
    ],
  };
}

function besideOpen(rounds: readonly Round[]): Table {
  const cells = (values: readonly number[]) => [median(values), quantile(values, 0.95)].map(milliseconds);
  const rows = rounds.map(({ count, isolation, drifted, opened, updated, cpu }) => [
    `${count === 1 ? "one deployment" : `${count} deployments`}, isolation: ${isolation}${drifted ? ", drifted" : ""}`,
    ...cells(opened.map(fromDelivery)),
    ...cells(updated.map(fromDelivery)),
    milliseconds((median(cpu) * 1_000) / count),
  ]);
  return { head: ["delivery → comment", "opened: p50", "p95", "updated: p50", "p95", "CPU per deployment"], rows };
}

function requests(rounds: readonly Round[]): Table {
  const columns = rounds.flatMap(({ count, opened, updated }) => [
    { title: `opened, ${count}`, all: opened },
    { title: `updated, ${count}`, all: updated },
  ]);
  const kinds = ["read the pull request", "read the comments", "write the comment", "write a status", "other requests"];
  const cell = (all: readonly Preview[], is: (kind: string) => boolean) =>
    String(median(all.map(({ asked }) => asked.filter((one) => is(kindOf(one))).length)));
  const row = (what: string, is: (kind: string) => boolean) => [what, ...columns.map(({ all }) => cell(all, is))];
  return {
    head: ["requests to the forge for one preview, median", ...columns.map(({ title }) => title)],
    rows: [...kinds.map((kind) => row(kind, (one) => one === kind)), row("total", () => true)],
  };
}
