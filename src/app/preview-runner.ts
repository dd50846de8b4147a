/** `towline preview-runner`: renders previews for servers, in a place without any of their data. */
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import type { App } from "../app.ts";
import type { Config } from "../config.ts";
import { ConfigError } from "../errors.ts";
import type { ConfinedAccess } from "../kluctl/confine.ts";
import { createKluctl } from "../kluctl/kluctl.ts";
import type { ReadResult } from "../kluctl/result.ts";
import type { Logger } from "../log.ts";
import type { CommandResult } from "../model.ts";
import { type RunnerPlace, startRunner } from "../preview-runner/runner.ts";
import type { Task } from "../preview-runner/task.ts";
import { createWorkDirectories, removeDirectory } from "../kit/work-directories.ts";
import { isCutOff } from "./cut-off.ts";
import { createDataDir } from "./data-dir.ts";
import { examineMachine, logIsolation, toDemands } from "./isolation.ts";
import { ownVersion } from "./runner-isolation.ts";

/**
 * How often to check that the runner reaches nothing: while that is true, previews may run without Landlock's rules for
 * ports.
 */
const askEveryMs = 60_000;

export async function startPreviewRunner(
  config: Config,
  log: Logger,
  env: NodeJS.ProcessEnv,
): Promise<Pick<App, "drainMs" | "lost" | "stop">> {
  const { dataDir, kluctl: tool, preview, shutdown } = config;
  const { token, bindAddress } = preview.runner;
  if (token === undefined) throw new ConfigError("a preview runner needs preview.runner.token, or tokenFile");
  await createDataDir(dataDir);
  const workDir = join(dataDir, "kluctl-work");
  const machine = await examineMachine(preview.isolation === "off" ? "required" : preview.isolation, workDir);
  const look = () => isCutOff({ env, interfaces: networkInterfaces(), patienceMs: 2_000 });
  let reachesNothing = await look();
  const timer = setInterval(() => void look().then((cut) => (reachesNothing = cut)), askEveryMs);
  timer.unref();
  const isolation = () => withNetwork(machine, reachesNothing);
  logIsolation(isolation(), "off", log);

  const accesses = new Map<string, ConfinedAccess>();
  const kluctl = createKluctl({
    binary: tool.path ?? "kluctl",
    cacheDir: tool.cacheDir ?? join(dataDir, "kluctl-cache"),
    unpackedDir: tool.unpackedDir,
    workDir,
    kubeconfigFor: () => Promise.reject(new Error("a preview runner has no cluster login")),
    env,
    log,
    systemPython: tool.systemPython,
    warm: tool.warm,
    confine: {
      open: (_run, slot) => {
        const access = accesses.get(slot);
        return access ? Promise.resolve(access) : Promise.reject(new Error("unknown run"));
      },
    },
    jail: { ...toDemands(machine), reachesNothing: () => reachesNothing },
  });
  const version = await kluctl.version();
  const slots = createWorkDirectories(join(dataDir, "slots"));
  await slots.sweep();

  async function render(
    { run, call, overrides = [] }: Task,
    { slot, projectDir, access, isServing }: RunnerPlace,
    send: (file: string) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    if (access) accesses.set(slot, { ...access, isServing, close: () => Promise.resolve() });
    const sendIt: ReadResult<CommandResult> = async (file) => {
      await send(file);
      return unread;
    };
    try {
      const { data = {}, webIdentity } = run.decryption ?? {};
      const secrets = [...Object.values(data), webIdentity?.token ?? ""].filter((secret) => secret !== "");
      const localOverrides = overrides.map(({ host, path, dir }) => ({
        ...{ repoKey: { type: "git", host, path } as const, isGroup: false, path: join(slot, dir) },
      }));
      const placed = { ...run, secrets, cold: true, slot, projectDir, localOverrides };
      if (call.command === "render") await kluctl.renderInto(placed, call.options, sendIt, signal);
      else await kluctl.diffInto(placed, call.options, sendIt, signal);
    } finally {
      accesses.delete(slot);
    }
  }

  const runner = await startRunner({
    token: token.reveal(),
    bind: bindAddress,
    report: () => {
      const { provided, missing } = isolation();
      return { version: ownVersion(), provided, missing };
    },
    concurrency: preview.concurrency,
    work: slots,
    removeDirectory,
    render,
    log,
  });
  log.info({ previews: runner.at, kluctl: version }, "listening");
  return {
    drainMs: () => shutdown.drainMs,
    lost: new Promise(() => undefined),
    async stop() {
      clearInterval(timer);
      log.info({ running: runner.running(), drainMs: shutdown.drainMs }, "stopping");
      await runner.stop(shutdown.drainMs);
      await kluctl.stop();
      log.info("stopped");
    },
  };
}

/** The server reads the result. */
const unread: CommandResult = { document: {}, objects: [], objectsHash: "", errors: [], warnings: [] };

function withNetwork(machine: Awaited<ReturnType<typeof examineMachine>>, reachesNothing: boolean): typeof machine {
  const { mode, provided, missing } = machine;
  const said = { ...provided, credentials: `${provided.credentials ?? ""}, and no login at the runner` };
  if (!reachesNothing) return { mode, provided: said, missing };
  const { network, ...others } = missing;
  const how = network === undefined ? (said.network ?? "") : "seccomp and a proxy";
  const by = `${how}, at a runner that reaches nothing else`;
  // Without seccomp, sockets cannot be filtered by their kind.
  if (others.processes !== undefined) return { mode, provided: said, missing };
  return { mode, provided: { ...said, network: by }, missing: others };
}
