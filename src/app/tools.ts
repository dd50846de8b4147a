/** Git and kluctl. */
import { join } from "node:path";
import type { LogLines } from "../redis/log-lines.ts";
import type { LiveConfig } from "../config/live.ts";
import type { Confine } from "../kluctl/confine.ts";
import { createKluctl, type KluctlObserver, type KluctlProcesses } from "../kluctl/kluctl.ts";
import { withSteadyTimes } from "../kluctl/steady-times.ts";
import type { KubeClient } from "../kube/client.ts";
import type { Logger, SecretList } from "../log.ts";
import type { Clock } from "../ports.ts";
import type { Metrics } from "../metrics.ts";
import type { DeploymentMetrics } from "../metrics/deployments.ts";
import type { Dispatch } from "../preview-runner/dispatch.ts";
import { createSources, type GitSources, gitHome } from "../source/sources.ts";
import { findEncrypted, stubEncrypted } from "../stub-decryption/stub-encrypted.ts";
import { type Starter, startStarter } from "../starter/starter.ts";
import { createConfine } from "./confine.ts";
import { openFluxRenderer } from "./flux-renderer.ts";
import { type Isolation, refusing, toDemands } from "./isolation.ts";
import { withRunner } from "./runner-kluctl.ts";
import { type InStage, stagedKluctl, stagedSources } from "./stages.ts";

export interface ToolsDeps {
  readonly live: LiveConfig;
  readonly client: Pick<KubeClient, "kubeconfig" | "request">;
  /** `undefined`: previews are not confined. */
  readonly isolation: Isolation | undefined;
  /** `undefined`: the server itself renders previews. */
  readonly dispatch: Dispatch | undefined;
  /** Receives kluctl's own log lines, for the page. */
  readonly logLines: Pick<LogLines, "add">;
  readonly secretList: Pick<SecretList, "scrub">;
  readonly metrics: Metrics;
  readonly deploymentMetrics: Pick<DeploymentMetrics, "kluctlRan">;
  readonly inStage: InStage;
  readonly clock: Clock;
  readonly log: Logger;
}

export function startTools(deps: ToolsDeps) {
  const { live, inStage, log } = deps;
  const cacheDir = join(live.now.dataDir, "git");
  const starter = startStarter({ home: gitHome(cacheDir), env: process.env });
  const sources = createSources({
    cacheDir,
    git: starter.git,
    log,
    env: process.env,
    encrypted: { find: findEncrypted, stub: stubEncrypted },
    limits: {
      proposed: deps.isolation && proposedTree,
      get callMs() {
        return live.now.git.timeoutMs;
      },
    },
    observe: {
      lsRemote: (seconds, ok) => deps.metrics.gitRan("ls-remote", ok, seconds),
      fetch: (seconds, ok) => deps.metrics.gitRan("fetch", ok, seconds),
      checkout: (seconds) => deps.metrics.gitRan("checkout", true, seconds),
    },
  });
  const confine = deps.isolation && openConfine(deps);
  const own = withSteadyTimes(openKluctl(starter, confine, deps), deps.clock);
  const kluctl = stagedKluctl(confine && deps.dispatch ? atRunner(own, confine, deps.dispatch, deps) : own, inStage);
  const stopRemoving = startRemovingMirrors(sources, log);
  return {
    sources: stagedSources(sources, inStage),
    kluctl,
    fluxRenderer: openFluxRenderer({
      config: live.now,
      isolation: deps.isolation,
      atRunner: deps.dispatch !== undefined,
      starter,
      env: process.env,
    }),
    async stop() {
      stopRemoving();
      await kluctl.stop();
      await confine?.stop();
      await starter.stop();
    },
  };
}

const removeEveryMs = 600_000;

/** Removes mirrors that are no longer used, because repositories and logins change while the server runs. */
function startRemovingMirrors(sources: Pick<GitSources, "sweepStale">, log: Logger): () => void {
  const remove = () => {
    sources.sweepStale().catch((error: unknown) => log.warn({ err: error }, "could not remove old git mirrors"));
  };
  remove();
  const timer = setInterval(remove, removeEveryMs);
  return () => clearInterval(timer);
}

/** The limits of the checkout that a branch can cause for its preview. */
const proposedTree = { files: 200_000, bytes: 1024 ** 3 };

function openConfine({ live, client, log }: ToolsDeps) {
  const allowServerLogin = () => live.now.preview.isolation !== "required";
  return createConfine({ live, client, allowServerLogin, env: process.env, log });
}

function atRunner(kluctl: KluctlProcesses, confine: Confine, dispatch: Dispatch, deps: ToolsDeps): KluctlProcesses {
  const { isolation, live } = deps;
  if (isolation === undefined) return kluctl;
  const workDir = join(live.now.dataDir, "kluctl-work");
  return withRunner({ kluctl, dispatch, isolation, confine, workDir, observe: observerOf(deps) });
}

function observerOf({ metrics, deploymentMetrics }: Pick<ToolsDeps, "metrics" | "deploymentMetrics">): KluctlObserver {
  return {
    started: (command) => metrics.kluctlStarted(command),
    ran(command, seconds, how, deployment) {
      metrics.kluctlRan(command, how, seconds);
      deploymentMetrics.kluctlRan(deployment, command, seconds);
    },
    rendererStarted: (start) => metrics.rendererStarted(start),
  };
}

function openKluctl(
  starter: Starter,
  confine: Confine | undefined,
  { live, isolation, dispatch, client, logLines, secretList, metrics, deploymentMetrics, log }: ToolsDeps,
) {
  const { dataDir, lease } = live.now;
  const { path = "kluctl", cacheDir, unpackedDir, systemPython, warm } = live.now.kluctl;
  return createKluctl({
    binary: path,
    cacheDir: cacheDir ?? join(dataDir, "kluctl-cache"),
    unpackedDir,
    workDir: join(dataDir, "kluctl-work"),
    kubeconfigFor: (impersonate) => client.kubeconfig(impersonate),
    env: process.env,
    log,
    starter,
    limits: { leaseSilenceMs: (lease.durationMs * 2) / 3 },
    systemPython,
    warm,
    confine: dispatch ? undefined : isolation && confine && refusing(isolation, confine),
    expectsConfined: () => live.now.preview.enabled,
    jail: isolation && toDemands(isolation),
    onLine(deployment, line) {
      if (live.now.page) logLines.add(deployment, { ...line, text: secretList.scrub(line.text) });
    },
    observe: observerOf({ metrics, deploymentMetrics }),
  });
}
