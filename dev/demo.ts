/** `npm run demo`: a push to a real git host, deployed to a real Kubernetes API server, with a time line of what happened. */
import { once } from "node:events";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { checkOutcome } from "./demo/check.ts";
import {
  createDeployments,
  deleteDeployments,
  deleteNamespaces,
  type DemoCluster,
  namespace,
  prepareCluster,
  readiness,
  targets,
  watchCluster,
} from "./demo/cluster.ts";
import {
  connectWebhook,
  createShopRepository,
  raiseFrontend,
  releaseMessage,
  type ShopRepository,
} from "./demo/repository.ts";
import { type DemoServer, startServer } from "./demo/server.ts";
import { formatChanged, onPush, type Story } from "./demo/story.ts";
import { endOfRun } from "./end-of-run.ts";
import { readOptions } from "./options.ts";
import { createWorld, type World } from "./world.ts";
import { findTools } from "./tools.ts";

const help = `npm run demo [-- options]

Starts a Kubernetes control plane, Redis, Gitea and \`towline serve\`, pushes a commit and shows what becomes of it.
Then it stays up until Ctrl-C, and shows what becomes of your pushes. Nothing is left behind.

  --once              end after the first push; the exit status is 0 only if every step was seen
  --kubeconfig FILE   use the cluster of this kubeconfig instead; needs to be an administrator's. The demo creates the
                      namespaces shop, shop-staging and shop-prod, and deletes them at the end; the definition of
                      KluctlDeployments stays
  --help              this text
`;

const options = readOptions({ once: { type: "boolean", default: false }, kubeconfig: { type: "string" } }, help);

const say = (line: string) => void process.stderr.write(`${line}\n`);
const tell = (line = "") => void process.stdout.write(`${line}\n`);

await main();

async function main(): Promise<void> {
  const end = endOfRun();
  // What was begun ends with us; only in somebody else's cluster there is something to take back.
  let up = options.kubeconfig !== undefined;
  end.addEventListener("abort", () => up || process.exit(130));
  const startedAt = Date.now();
  const { kluctl, kubectl } = await findTools(["kluctl", "kubectl"], { say });
  const world = await createWorld({ say });
  const stops: (() => Promise<void>)[] = [() => world.stop()];
  const stopAll = async () => {
    for (const stop of stops.splice(0).toReversed()) await stop().catch((error: unknown) => say(String(error)));
  };
  try {
    const ended = once(end, "abort").then(() => undefined);
    const set = await setUp(world, kluctl, stops);
    up = true;
    if (end.aborted) return;
    say(`Everything is up (${seconds(startedAt)})`);
    await Promise.race([play(set), ended]);
    if (end.aborted || options.once) return;
    describe(set, world.stateDir, kubectl);
    const stopTelling = tellPushes(set);
    const why = await Promise.race([ended, set.server.exited]);
    stopTelling();
    if (why !== undefined) throw new Error(`The server is gone (${why}); its log was ${set.server.logFile}.`);
  } catch (error) {
    process.exitCode = 1;
    say(`\ntowline demo: ${error instanceof Error ? error.message : String(error)}`);
  } finally {
    await stopAll();
  }
}

interface Set {
  readonly kubeconfig: string;
  readonly server: DemoServer;
  readonly cluster: DemoCluster;
  readonly shop: ShopRepository;
  readonly giteaUrl: string;
  readonly podsRun: boolean;
}

/** Each thing adds how it is ended, in the order in which it began. */
async function setUp(world: World, kluctl: string, stops: (() => Promise<void>)[]): Promise<Set> {
  const own = options.kubeconfig === undefined ? undefined : resolve(options.kubeconfig);
  const [kubeconfig, redis, gitea] = await Promise.all([
    own ?? world.part("controlPlane").then((plane) => plane.kubeconfig),
    world.part("redis"),
    world.part("gitea"),
  ]);
  const [shop, namespaces] = await Promise.all([
    createShopRepository(gitea, join(world.stateDir, "shop")),
    prepareCluster(kubeconfig),
  ]);
  if (own !== undefined) stops.push(() => deleteNamespaces(own, namespaces));
  const cluster = await watchCluster(kubeconfig);
  stops.push(() => cluster.stop());
  const server = await startServer({ stateDir: world.stateDir, kubeconfig, redis, gitea, kluctl, namespace });
  stops.push(() => server.stop());
  if (own !== undefined) stops.push(() => deleteDeployments(cluster.client));
  await connectWebhook(shop, server.webhook);
  await createDeployments(cluster.client, shop.repository.cloneUrl);
  await firstDeploy(cluster, shop.firstCommit);
  return { kubeconfig, server, cluster, shop, giteaUrl: gitea.url, podsRun: own === undefined };
}

/** What was there before the push that is told about. */
async function firstDeploy(cluster: DemoCluster, commit: string): Promise<void> {
  const from = Date.now();
  const states = () => targets.map((target) => readiness(cluster.find("KluctlDeployment", namespace, target), commit));
  while (!states().every((state) => state === "ready")) {
    const failure = states().find((state) => state instanceof Error);
    if (failure) throw failure;
    if (Date.now() - from > 60_000) throw new Error("The first deploy was not done after 60 s.");
    await delay(50);
  }
  say(`shop/staging and shop/prod are deployed for the first time (${seconds(from)})`);
}

/** The push that the demo is about. */
async function play(set: Set): Promise<void> {
  const { shop } = set;
  const told = Promise.withResolvers<Story>();
  const stop = onPush(set, told.resolve);
  const commit = await raiseFrontend(shop);
  const pushedAt = Date.now();
  const story = await Promise.race([told.promise, delay(30_000, undefined, { ref: false })]);
  stop();
  if (story === undefined) throw new Error("The webhook did not arrive within 30 s.");
  story.add({ at: pushedAt, what: "git push done" });
  await show(story, commit, releaseMessage, pushedAt);
  if (options.once) tell((await checkOutcome({ ...set, story, commit })).map((line) => `  ${line}`).join("\n"));
}

async function show(story: Story, commit: string, message: string, startedAt: number): Promise<void> {
  tell(`\npush ${commit.slice(0, 7)} ${JSON.stringify(message.split("\n")[0])}`);
  await story.tell(commit, startedAt, tell);
  if (story.changed.length > 0) tell();
  for (const changed of story.changed) formatChanged(changed).forEach(tell);
  tell();
}

/** From now on the pushes are somebody else's. One is told after the other. Returns how to stop. */
function tellPushes(set: Set): () => void {
  let told = Promise.resolve();
  let last: Told | undefined;
  const untold: Story[] = [];
  return onPush(set, (story) => {
    const startedAt = story.steps[0]?.at ?? Date.now();
    const overtaken = untold.filter(({ branch }) => branch === story.branch);
    untold.push(story);
    told = told
      .then(async () => {
        last = await tellPush(set, story, startedAt, last);
      })
      .catch((error: unknown) => say(error instanceof Error ? error.message : String(error)))
      .finally(() => void untold.splice(untold.indexOf(story), 1));
    set.shop.head(story.branch).then(
      (head) => head && overtaken.forEach((older) => older.overtake(head.id)),
      () => undefined, // the older ones say themselves that they do not get there
    );
  });
}

interface Told {
  readonly branch: string;
  readonly commit: string;
  readonly endedAt: number;
}

async function tellPush(
  { shop }: Set,
  story: Story,
  startedAt: number,
  last: Told | undefined,
): Promise<Told | undefined> {
  const { branch, targets: concerned, ignored } = story;
  const head = await shop.head(branch);
  if (head && concerned.length > 0) {
    // Of several pushes in a row the newest is told, once: it is what is deployed.
    if (last?.branch === branch && last.commit === head.id && startedAt < last.endedAt) {
      story.end();
      return last;
    }
    await show(story, head.id, head.message, startedAt);
    return { branch, commit: head.id, endedAt: Date.now() };
  }
  story.end();
  tell(
    concerned.length > 0
      ? `\nbranch ${branch} is gone: what it deployed stays, and the deployment says so\n`
      : `\npush to ${branch}: nothing to do (${ignored.join("; ") || "no deployment follows it"})\n`,
  );
  return last;
}

function describe({ kubeconfig, shop, giteaUrl, server }: Set, stateDir: string, kubectl: string): void {
  tell(`Try it yourself, in another terminal:

  cd ${shop.workCopy.dir}
  sed -i 's/api: 2.3.0/api: 2.4.0/' versions.yaml && git commit -qam "Raise api to 2.4.0" && git push -q origin HEAD:main

  git push -q origin main:release                  # roll out to prod what is on staging

  export KUBECONFIG=${kubeconfig}
  ${kubectl} get kluctldeployments -A
  ${kubectl} get pods -A

  Gitea      ${giteaUrl}/${shop.repository.owner}/${shop.repository.name}   user ${shop.login.user}, password ${shop.login.password}
  health     ${server.adminUrl}/readyz
  metrics    ${server.adminUrl}/metrics
  log        ${server.logFile}
  state      ${stateDir}

Ctrl-C ends everything.
`);
}

function seconds(since: number): string {
  return `${((Date.now() - since) / 1_000).toFixed(1)} s`;
}
