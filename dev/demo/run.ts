/**
 * The demo: pushes to a real git host, from which Towline deploys to a real Kubernetes API server, then opens a pull
 * request that shows what it would change there. Prints time lines of what happened.
 */
import { once } from "node:events";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { DemoOptions } from "../../src/cli/commands.ts";
import { endOfRun } from "../end-of-run.ts";
import { findTools } from "../tools.ts";
import { createWorld, type World } from "../world.ts";
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
} from "./cluster.ts";
import { playPullRequest } from "./play-pull-request.ts";
import { playPush } from "./play-push.ts";
import { createPreviewStories } from "./preview-story.ts";
import { createPushStories } from "./push-story.ts";
import { demoTools } from "./programs.ts";
import { connectWebhook, createShopRepository } from "./repository.ts";
import type { Scene } from "./scene.ts";
import { cli, type DemoServer, startServer } from "./server.ts";
import { tellOthers } from "./tell-others.ts";

export interface DemoRun extends DemoOptions {
  /** Builds what the server needs and a package contains; absent in a package. */
  readonly prepare?: (() => Promise<void>) | undefined;
}

const say = (line: string) => void process.stderr.write(`${line}\n`);
const tell = (line = "") => void process.stdout.write(`${line}\n`);

/** Runs until Ctrl-C, or with `once` until the merge. Returns the exit code; everything that it started has ended. */
export async function runDemo(options: DemoRun): Promise<number> {
  const end = endOfRun();
  // Everything that was started ends with this process; only a cluster of the user needs cleaning up.
  let up = options.kubeconfig !== undefined;
  end.addEventListener("abort", () => up || process.exit(130));
  const startedAt = Date.now();
  const { kluctl, kubectl } = await findTools(demoTools, { say });
  const world = await createWorld({ say });
  const stops: (() => Promise<void>)[] = [() => world.stop()];
  const stopAll = async () => {
    for (const stop of stops.splice(0).toReversed()) await stop().catch((error: unknown) => say(String(error)));
  };
  try {
    const ended = once(end, "abort").then(() => undefined);
    const { scene, server, kubeconfig } = await setUp(options, world, kluctl, stops);
    up = true;
    if (end.aborted) return 0;
    say(`Everything is up (${seconds(startedAt)})`);
    await Promise.race([playPush(scene).then(() => playPullRequest(scene)), ended]);
    if (end.aborted || options.once) return 0;
    tell(describe({ scene, server, kubeconfig }, world.stateDir, kubectl));
    const stopTelling = tellOthers(scene, say);
    const why = await Promise.race([ended, server.exited]);
    stopTelling();
    if (why !== undefined) throw new Error(`The server has exited (${why}); its log was ${server.logFile}.`);
    return 0;
  } catch (error) {
    say(`\ntowline demo: ${error instanceof Error ? error.message : String(error)}`);
    return 1;
  } finally {
    await stopAll();
  }
}

interface Up {
  readonly scene: Scene;
  readonly server: DemoServer;
  readonly kubeconfig: string;
}

/** Each part adds a function that stops it, in the order in which the parts were started. */
async function setUp(
  { once: check, webhooks, prepare, ...options }: DemoRun,
  world: World,
  kluctl: string,
  stops: (() => Promise<void>)[],
): Promise<Up> {
  const own = options.kubeconfig === undefined ? undefined : resolve(options.kubeconfig);
  const [kubeconfig, redis, gitea] = await Promise.all([
    own ?? world.part("controlPlane").then((plane) => plane.kubeconfig),
    world.part("redis"),
    world.part("gitea"),
    prepare?.(),
  ]);
  const [shop, namespaces] = await Promise.all([
    createShopRepository(gitea, join(world.stateDir, "shop")),
    prepareCluster(kubeconfig),
  ]);
  if (own !== undefined) stops.push(() => deleteNamespaces(own, namespaces));
  const cluster = await watchCluster(kubeconfig);
  stops.push(() => cluster.stop());
  const server = await startServer({
    stateDir: world.stateDir,
    kubeconfig,
    redis,
    gitea: shop.reporter,
    kluctl,
    ...{ namespace, webhooks },
  });
  stops.push(() => server.stop());
  if (own !== undefined) stops.push(() => deleteDeployments(cluster.client));
  if (webhooks) await connectWebhook(shop, server.webhook);
  await createDeployments(cluster.client, shop.repository.cloneUrl);
  await firstDeploy(cluster, shop.firstCommit);
  const pushes = createPushStories({ server, cluster, shop, podsRun: own === undefined });
  const previews = createPreviewStories({ server, shop });
  return { scene: { cluster, shop, pushes, previews, webhooks, check, tell }, server, kubeconfig };
}

/** Waits for the state before the first push that the demo shows. */
async function firstDeploy(cluster: DemoCluster, commit: string): Promise<void> {
  const from = Date.now();
  const states = () => targets.map((target) => readiness(cluster.find("KluctlDeployment", namespace, target), commit));
  while (!states().every((state) => state === "ready")) {
    const failure = states().find((state) => state instanceof Error);
    if (failure) throw failure;
    if (Date.now() - from > 60_000) throw new Error("The first deploy did not finish within 60 s.");
    await delay(50);
  }
  say(`shop/staging and shop/prod are deployed for the first time (${seconds(from)})`);
}

function describe({ scene: { shop }, server, kubeconfig }: Up, stateDir: string, kubectl: string): string {
  const page = `${shop.reporter.url}/${shop.repository.owner}/${shop.repository.name}`;
  return `
Try it yourself, in another terminal:

  cd ${shop.workCopy.dir}
  sed -i 's/frontend: 1.5.0/frontend: 1.6.0/' versions.yaml && git commit -qam "Raise frontend to 1.6.0" && git push -q origin HEAD:main

  git push -q origin main:release                  # deploy to prod what is on staging

a pull request:

  git switch -qc try && sed -i 's/api: 2.4.0/api: 2.5.0/' versions.yaml && git commit -qam "Raise api to 2.5.0" && git push -q origin try
  ${page}/compare/main...try      # sign in, create it, read the comment; push again, merge

and look around:

  export KUBECONFIG=${kubeconfig}
  ${kubectl} get kluctldeployments -A
  ${kubectl} get pods -A
  alias towline='${process.execPath} ${cli}'; export TOWLINE_CONFIG=${server.configFile}
  towline get deployments; towline get deliveries -o wide; towline trace ${shop.firstCommit.slice(0, 10)}

  the page   ${server.page.url}   token ${server.page.token}
  Gitea      ${page}   user ${shop.login.user}, password ${shop.login.password}
  health     ${server.adminUrl}/readyz
  metrics    ${server.adminUrl}/metrics
  log        ${server.logFile}
  state      ${stateDir}

Ctrl-C ends everything.
`;
}

function seconds(since: number): string {
  return `${((Date.now() - since) / 1_000).toFixed(1)} s`;
}
