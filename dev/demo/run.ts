/**
 * The demo: pushes to a real git host, from which Towline deploys to a real Kubernetes API server, then opens a pull
 * request that shows what it would change there. Prints time lines of what happened.
 */
import { once } from "node:events";
import { join } from "node:path";
import type { DemoOptions } from "../../src/cli/commands.ts";
import { endOfRun } from "../end-of-run.ts";
import { controlPlaneTools } from "../parts/control-plane.ts";
import { createView } from "../progress.ts";
import { createWorld } from "../world.ts";
import { moveDeployments } from "./cluster.ts";
import { startPlainShop } from "./plain-host.ts";
import { playPullRequest } from "./play-pull-request.ts";
import { playPush } from "./play-push.ts";
import { createPreviewStories } from "./preview-story.ts";
import { demoTools, findPrograms, type Programs } from "./programs.ts";
import { createPushStories } from "./push-story.ts";
import { connectWebhook, createShopRepository } from "./repository.ts";
import type { Scene } from "./scene.ts";
import { cli, type DemoServer } from "./server.ts";
import { prepareStage, type Stage, type StageOptions, startPart } from "./stage.ts";
import { tellOthers } from "./tell-others.ts";

export interface DemoRun extends DemoOptions {
  /** Builds what the server needs and a package contains; absent in a package. */
  readonly prepare?: (() => Promise<void>) | undefined;
}

const view = createView(process.stderr);
const { say } = view;
const tell = (line = "") => view.above(() => process.stdout.write(`${line}\n`));

/** Runs until Ctrl-C, or with `once` until the merge. Returns the exit code; everything that it started has ended. */
export async function runDemo(run: DemoRun): Promise<number> {
  const end = endOfRun();
  // Until it is up, everything ends with this process; only a cluster of the user needs cleaning up.
  let up = false;
  end.addEventListener("abort", () => up || process.exit(130));
  const ended = once(end, "abort").then(() => undefined);
  const world = await createWorld({ say });
  const stops = [() => world.stop()];
  let programs: Programs | undefined;
  let code = 0;
  try {
    programs = await findPrograms((name) => isNeeded(name, run), { say, progress: view });
    const options = { ...run, world, programs, say, stops, onLasting: () => void (up = true) };
    const played = await Promise.race([play(options, run.once), ended]);
    up = true;
    if (played !== undefined && !run.once) await showUsersPushes(played, world.stateDir, ended);
  } catch (error) {
    code = 1;
    view.stop();
    say(`\ntowline demo: ${error instanceof Error ? error.message : String(error)}`);
  }
  for (const stop of stops.toReversed()) await stop().catch((error: unknown) => say(String(error)));
  // A build that is still in progress ends only with this process.
  if (programs?.areMissing(...demoTools)) process.exit(code);
  return code;
}

function isNeeded(name: (typeof demoTools)[number], { once: check, kubeconfig }: DemoRun): boolean {
  if (name === "kubectl") return !check;
  return kubeconfig === undefined || !controlPlaneTools.some((one) => one === name);
}

interface Up {
  readonly scene: Scene;
  readonly server: DemoServer;
  readonly kubeconfig: string;
  readonly kubectl: string;
}

async function play(options: StageOptions, check: boolean): Promise<Up> {
  const { world, programs, webhooks } = options;
  const startedAt = Date.now();
  const login = startPart("gitea", options);
  login.catch(() => undefined); // reported where the demo cannot go on without it
  const stage = await prepareStage(options);
  const { cluster, kubeconfig } = stage;
  const early = programs.areMissing("gitea") ? await playEarlyPush(stage, options, check) : undefined;

  const shop = await createShopRepository(await login, join(world.stateDir, "shop"), early?.shop);
  await early?.server.stop();
  const server = await stage.serve({ forge: shop.reporter });
  if (webhooks) await connectWebhook(shop, server.webhook);
  if (early) await moveDeployments(cluster, shop.repository.cloneUrl);
  else await stage.deploy(shop);
  say(early ? "The shop is on Gitea now" : `Everything is up (${seconds(startedAt)})`);
  const pushes = createPushStories({ server, cluster, shop, podsRun: stage.podsRun });
  const previews = createPreviewStories({ server, shop });
  const scene = { cluster, shop, pushes, previews, webhooks, check, tell };
  if (!early) await playPush(scene);
  await playPullRequest(scene);
  return { scene, server, kubeconfig, kubectl: (await programs.paths.kubectl) ?? "kubectl" };
}

/** Building Gitea takes minutes, and a push needs only git and a webhook. */
async function playEarlyPush(stage: Stage, { world, webhooks, stops }: StageOptions, check: boolean) {
  const { cluster } = stage;
  const shop = await startPlainShop(world.stateDir, join(world.stateDir, "shop"));
  stops.push(shop.stop);
  const server = await stage.serve({ name: "towline-before-gitea", forge: { url: shop.url } });
  if (webhooks) shop.sendWebhooks(server.webhook);
  await stage.deploy(shop);
  const sender = webhooks ? ", and the demo sends the webhook that Gitea would send" : "";
  say(`Gitea is not there yet. The first push goes to a plain git server${sender}. The pull request follows on Gitea.`);
  const pushes = createPushStories({ server, cluster, shop, podsRun: stage.podsRun });
  await playPush({ cluster, shop, pushes, check, tell });
  return { shop, server };
}

async function showUsersPushes(played: Up, stateDir: string, ended: Promise<undefined>): Promise<void> {
  const { scene, server } = played;
  tell(describe(played, stateDir));
  const stopTelling = tellOthers(scene, say);
  const why = await Promise.race([ended, server.exited]);
  stopTelling();
  if (why !== undefined) throw new Error(`The server has exited (${why}); its log was ${server.logFile}.`);
}

function describe({ scene: { shop }, server, kubeconfig, kubectl }: Up, stateDir: string): string {
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
