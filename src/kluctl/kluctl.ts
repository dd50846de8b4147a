/**
 * Step 11 of a push: runs the real kluctl, one process per call, with a directory of its own that is removed after the
 * call. What it wrote becomes the result that the steps above record. Next: src/reconcile/status/status-writer.ts.
 */
import type { Memory } from "../machine/available-memory.ts";
import { KilledError, KluctlUnavailableError, PrepareError, PreviewRefusedError } from "../errors.ts";
import { createScrubber, type Logger } from "../log.ts";
import type { CommandResult, Credentials, DiffOptions, Key, RenderOptions, Run, ValidateResult } from "../model.ts";
import type { Kluctl } from "../ports.ts";
import { type Call, toArguments } from "./arguments.ts";
import { hostsAsking } from "./asking-hosts.ts";
import type { Confine } from "./confine.ts";
import { type ConfinedLimits, createConfinement, defaultConfinedLimits, type JailDemands } from "./confinement.ts";
import { explainDecryption, toDecryption } from "./decryption.ts";
import { createDirectories, type JobDirectory } from "./directories.ts";
import { type Environment, toSharedEnvironment, withDecryption, withLogins } from "./environment.ts";
import { type AnyRun, writeJobFiles } from "./job-files.ts";
import { createKeyring, type Keyring } from "./keyring.ts";
import { explainJail } from "./explain-jail.ts";
import { createLineLogger } from "./line-logger.ts";
import { createLineForwarder, type LineForwarder, type OnLine } from "./said-lines.ts";
import { explainHostKey, explainRefusal, toLogins } from "./logins.ts";
import { explainOffline, keepPrinted, noAccess, notIsolated, printedBytes, readRender } from "./offline.ts";
import { toOrphans } from "./orphans.ts";
import { explainDisk, readOutcome } from "./outcome.ts";
import { type Ended, type ProcessLimits, runProcess } from "./process.ts";
import { readCommandResult, readValidateResult, type ReadResult } from "./result.ts";
import { toStableWords } from "./stable-words.ts";
import { createThreads } from "./threads.ts";
import { createUnpackedBy } from "./unpacked-by.ts";
import { type Binary, createBinary, isSince } from "./version.ts";
import type { RendererLimits } from "./warm/fork-server-process.ts";
import type { StartWatched } from "./watched.ts";
import { createWarmRenderers, type RendererStart } from "./warm/renderers.ts";

export interface KluctlLimits extends Omit<ProcessLimits, "timeoutMs">, RendererLimits, ConfinedLimits {
  /**
   * Time since the last renewal of the lease after which kluctl is killed. It is shorter, by a margin, than the time
   * after which another server can take the lease.
   */
  readonly leaseSilenceMs: number;
  /** kluctl enforces the timeout itself; this is the margin after which we end it. */
  readonly overtimeMs: number;
}

const defaultLimits: KluctlLimits = {
  leaseSilenceMs: 10_000,
  silenceMs: 60_000,
  overtimeMs: 10_000,
  graceMs: 2_000,
  keptBytes: 1024 * 1024,
  lineLength: 4_096,
  lines: 2_000,
  // Limits of a warm renderer. They are higher than any real project needs: the timeout ends a template that loops
  // forever long before.
  rendererBytes: 4 * 1024 ** 3,
  rendererSeconds: 3_600,
  ...defaultConfinedLimits,
};

/** Each retry discovers one more host that the project includes something from. */
const mostRuns = 10;

export interface KluctlDeps {
  /** A path, or a name to look up on PATH. */
  readonly binary: string;
  readonly cacheDir: string;
  /** Directory with kluctl's Python already unpacked, if there is one. */
  readonly unpackedDir?: string | undefined;
  readonly workDir: string;
  /** Returns the text of a kubeconfig whose only context is "default". */
  readonly kubeconfigFor: (impersonate?: string) => string | Promise<string>;
  /** The server's environment; only variables known to be meant for kluctl are passed on. */
  readonly env: Environment;
  readonly log: Logger;
  readonly limits?: Partial<KluctlLimits> | undefined;
  /** Makes kluctl use `python3` from PATH; never combined with `warm`. */
  readonly systemPython?: boolean | undefined;
  /** Whether renderers are kept warm for runs without `cold`. */
  readonly warm?: boolean | undefined;
  /** Starts kluctl and removes its directories; the server does so itself if left out. */
  readonly starter?: KluctlStarter | undefined;
  /** Confines runs with `cold`: code of a branch that nobody has approved yet can only render. */
  readonly confine?: Confine | undefined;
  /** Whether `render` also works without `confine`; for files of the user who runs it. */
  readonly rendersUnconfined?: boolean | undefined;
  /** Whether to prepare for confined runs in advance; true if left out. */
  readonly expectsConfined?: (() => boolean) | undefined;
  /** The isolation features that the kernel must offer for confined runs; all of them if left out. */
  readonly jail?: Partial<JailDemands> | undefined;
  /** Reads the container's memory use (`undefined` if it has no limit); by default from the kernel. */
  readonly memory?: (() => Memory | undefined) | undefined;
  /**
   * Gets lines of output for users who watch a run. Lines of previews are not passed on, because their code has not
   * been approved yet.
   */
  readonly onLine?: OnLine | undefined;
  readonly observe?: KluctlObserver | undefined;
}

export interface KluctlStarter {
  readonly startWatched: StartWatched;
  removeDirectory(path: string): Promise<void>;
}

export interface KluctlObserver {
  started?(command: Call["command"]): void;
  ran(command: Call["command"], seconds: number, how: RunEnd, deployment: Key): void;
  rendererStarted?(start: RendererStart): void;
}

/**
 * How a run ended. `errors`: it finished and reported errors; `prepare`: the project could not be loaded; `failed`: a
 * fault of ours or of the machine. The other values say why it was killed.
 */
export type RunEnd = "ok" | "errors" | "prepare" | "unavailable" | "failed" | KilledError["why"];

export interface KluctlProcesses extends Kluctl {
  /** kluctl's version and file identity; changes when either does. */
  identity(): Promise<string>;
  /** Ends running calls and starts no new ones. */
  stop(): Promise<void>;
}

type Reported = CommandResult | ValidateResult;

/** For callers that read kluctl's output files themselves. */
export interface KluctlRuns extends KluctlProcesses {
  diffInto(
    run: Run,
    options: DiffOptions,
    read: ReadResult<CommandResult>,
    signal: AbortSignal,
  ): Promise<CommandResult>;
  renderInto(
    run: Run,
    options: RenderOptions,
    read: ReadResult<CommandResult>,
    signal: AbortSignal,
  ): Promise<CommandResult>;
}

export function createKluctl({ binary, kubeconfigFor, log, observe, ...deps }: KluctlDeps): KluctlRuns {
  const limits = { ...defaultLimits, ...deps.limits };
  const sharedEnv = toSharedEnvironment(deps.env);
  const directories = createDirectories({ ...deps, remove: deps.starter?.removeDirectory });
  const threads = createThreads();
  const stopping = new AbortController();
  const running = new Set<Promise<unknown>>();
  /**
   * Hosts that asked for a login. Keyed by the credentials that all runs of a reconciliation share, so entries last as
   * long as the reconciliation.
   */
  const asking = new WeakMap<Credentials, readonly string[]>();
  const unpackedBy = createUnpackedBy(directories.unpackedBy, log);
  const renderers = deps.warm
    ? createWarmRenderers({
        unpacked: directories.unpacked,
        unpackedBy,
        workDir: deps.workDir,
        env: sharedEnv,
        limits,
        log,
        observe: observe?.rendererStarted,
      })
    : undefined;

  const confinement =
    deps.confine &&
    createConfinement({
      confine: deps.confine,
      demands: { files: true, network: true, ...deps.jail },
      directories,
      unpackedBy,
      workDir: deps.workDir,
      env: deps.env,
      systemPython: deps.systemPython,
      warm: deps.warm ?? false,
      observe: observe?.rendererStarted,
      limits: { ...limits, timeoutMs: 0 },
      start: deps.starter?.startWatched,
      memory: deps.memory,
      log,
    });

  const findBinary = createBinary({
    binary,
    searchPath: sharedEnv["PATH"] ?? "",
    async askVersion(path) {
      await directories.prepare();
      const { stdout } = await runProcess({
        name: "kluctl version",
        command: path,
        args: ["version", "--no-update-check"],
        env: { PATH: sharedEnv["PATH"] ?? "", HOME: deps.workDir, TMPDIR: deps.workDir },
        cwd: deps.workDir,
        limits: { ...limits, timeoutMs: 10_000 },
        signal: stopping.signal,
      });
      return stdout;
    },
  });

  /**
   * The flag is needed besides the variable, which a configuration file of the server's kluctl would override. Versions
   * before 2.23 do not have the flag.
   */
  function kubeconfigFlags(binary: Binary, path: string): readonly string[] {
    return isSince(binary, 2, 23) ? [`--kubeconfig=${path}`] : [];
  }

  let toldOfPython: string | undefined;
  /**
   * kluctl before 2.25 can use only its own Python. Log that once per binary, because a user who configured another
   * Python would not notice.
   */
  function pythonFlags({ file, version }: Binary): readonly string[] {
    if (!deps.systemPython) return [];
    if (isSince({ version }, 2, 25)) return ["--use-system-python"];
    if (toldOfPython !== file) {
      toldOfPython = file;
      log.warn({ version }, "kluctl before 2.25 cannot use the system's Python: it renders with its own");
    }
    return [];
  }

  async function prepare(): Promise<Binary> {
    const [binary] = await Promise.all([findBinary(), directories.prepare()]);
    if (deps.expectsConfined?.() ?? true) confinement?.prepare(binary);
    return binary;
  }

  /**
   * Retries with the login for a host that asked for it, if it may be sent there. That is safe because nothing was
   * applied before.
   */
  async function execute<T extends Reported>(
    call: Call,
    run: AnyRun,
    read: ReadResult<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const endsAt = performance.now() + run.timeoutMs;
    const { credentials } = run;
    for (let runs = 1; ; runs++) {
      const known = asking.get(credentials) ?? [];
      const timeoutMs = endsAt - performance.now();
      let ended: Ended | undefined;
      try {
        return await attempt(call, { ...run, timeoutMs }, read, signal, (end) => (ended = end));
      } catch (error) {
        const hosts = hostsAsking(ended?.stderr ?? "", credentials.git);
        const news = hosts.some((host) => !known.includes(host));
        if (!(error instanceof PrepareError) || !news || runs === mostRuns || endsAt < performance.now()) throw error;
        asking.set(credentials, [...new Set([...(asking.get(credentials) ?? []), ...hosts])]);
      }
    }
  }

  async function attempt<T extends Reported>(
    call: Call,
    run: AnyRun,
    read: ReadResult<T>,
    signal: AbortSignal,
    onEnded: (ended: Ended) => void,
  ): Promise<T> {
    const binary = await prepare();
    const { git, oci, helm } = run.credentials;
    if (isSince(binary, 2, 23) && helm.some(({ credentialsId }) => credentialsId !== undefined)) {
      // The message of kluctl's own controller, which rejects the old form altogether.
      throw new PrepareError("spec.helmCredentials can not be used anymore, please switch to spec.credentials.helm");
    }
    const offline = call.command === "render";
    const confined = run.cold ? await confinement?.begin(binary, run, signal, { offline }) : undefined;
    if (offline && confined === undefined && !deps.rendersUnconfined) throw new PreviewRefusedError(notIsolated);
    const warm = confined ? undefined : await renderers?.find(binary, run.cold);
    const job =
      confined?.job ??
      (await directories.create(run.deployment.namespace, {
        bringsLogins: git.length + oci.length + helm.length > 0,
        cluster: run.cluster?.fingerprint,
      }));
    const keyring = createKeyring({ home: job.keyring, searchPath: sharedEnv["PATH"] ?? "", limits, onLeft });
    const wanted = AbortSignal.any([signal, stopping.signal, ...(confined ? [confined.overfull] : [])]);
    let forwarder: LineForwarder | undefined;
    let outcome: T | undefined;
    let ended: Ended | undefined;
    try {
      const logins = toLogins(run.credentials, job.path, asking.get(run.credentials));
      const keys = toDecryption(run.decryption, job.path);
      const kubeconfig =
        (offline ? noAccess : confined?.access)?.kubeconfig ??
        run.cluster?.kubeconfig ??
        (await kubeconfigFor(run.impersonate));
      const others = new Map([...logins.files, ...keys.files]);
      const files = await writeJobFiles({ dir: job.path, call, run, kubeconfig, others });
      await keyring.import(keys.pgpKeys, wanted);
      const secrets = secretsOf(run);
      const scrub = createScrubber(secrets);
      const overrides = run.localOverrides?.map(({ path, repoKey }) => ({
        path,
        name: run.cold ? `${repoKey.host}/${repoKey.path}` : "a working copy",
      }));
      const places = { jobDir: job.path, projectDir: files.projectDir, overrides };
      const toWords = (text: string) => scrub(explainHostKey(toStableWords(text, places)));
      const { deployment, reconcileId, cold } = run;
      if (deps.onLine && !cold)
        forwarder = createLineForwarder({
          deployment,
          reconcileId,
          command: call.command,
          known: secrets,
          onLine: deps.onLine,
        });
      const logLine = createLineLogger(log, call.command, run);
      const args = [
        ...toArguments(call, run, files),
        ...(offline ? [] : kubeconfigFlags(binary, files.kubeconfig)),
        ...(confined?.flags ?? warm?.flags ?? pythonFlags(binary)),
      ];
      ended = await runProcess({
        name: `kluctl ${call.command}`,
        ...(confined?.jailed(binary.path, args) ?? { command: binary.path, args }),
        env: {
          ...threads.of(deployment, call.command),
          ...withDecryption(withLogins(confined?.env ?? sharedEnv, logins, logins.knownHosts), keys),
          ...job.env,
          ...warm?.env,
          KUBECONFIG: files.kubeconfig,
        },
        cwd: job.path,
        limits: {
          ...limits,
          ...(offline && { keptBytes: printedBytes }),
          silenceMs: run.held ? limits.leaseSilenceMs : limits.silenceMs,
          timeoutMs: run.timeoutMs + limits.overtimeMs,
        },
        signal: wanted,
        held: run.held,
        start: confined?.start ?? deps.starter?.startWatched,
        onLine(line) {
          const words = toWords(line);
          logLine(line, words);
          forwarder?.line(words);
        },
      });
      onEnded(ended);
      if (!warm && !confined) renderers?.unpacked(binary);
      if (offline) await keepPrinted(ended, files.result);
      const readIt = (file: string, size: number) => read(file, size, wanted);
      outcome = await readOutcome(ended, files.result, readIt, toWords);
      return confined ? (outcome = { ...outcome, maskedValues: confined.access.maskedValues?.() }) : outcome;
    } catch (error) {
      if (confined) throw explainJail(error, confined, ended);
      if (offline) throw error instanceof PrepareError ? explainOffline(error) : error;
      throw explainRefusal(explainDecryption(error, run.decryption), run, ended?.stderr);
    } finally {
      await forwarder?.end(outcome);
      await confined?.close();
      cleanUp(keyring, job);
    }
  }

  /** Takes longer than everything else around a run, so only `stop` waits for it. */
  function cleanUp(keyring: Keyring, job: JobDirectory): void {
    const cleaned = keyring
      .close()
      .then(() => job.remove())
      .catch((error: unknown) => log.warn({ err: error }, "could not remove a work directory of kluctl"))
      .finally(() => running.delete(cleaned));
    running.add(cleaned);
  }

  function onLeft(error: unknown): void {
    log.warn({ err: error }, "could not stop a gpg-agent; it exits when its directory is removed");
  }

  /** Counts and times the call; `stop` waits for it. */
  async function start<T extends Reported>(
    call: Call,
    run: AnyRun,
    read: ReadResult<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const startedAt = performance.now();
    observe?.started?.(call.command);
    const result = execute(call, run, read, signal);
    running.add(result);
    let how: RunEnd = "failed";
    try {
      const value = await result;
      how = value.errors.length > 0 ? "errors" : "ok";
      return value;
    } catch (error) {
      how = endOf(error);
      throw explainDisk(error);
    } finally {
      running.delete(result);
      const ms = performance.now() - startedAt;
      threads.note(run.deployment, call.command, ms);
      observe?.ran(call.command, ms / 1_000, how, run.deployment);
    }
  }

  /** Rejects a call that changes the cluster without holding the lease. */
  async function startFenced(call: Call & { options: { dryRun: boolean } }, run: AnyRun, signal: AbortSignal) {
    if (!run.held && !call.options.dryRun) throw new Error(`kluctl ${call.command} needs the lease of its deployment`);
    return start(call, run, readCommandResult, signal);
  }

  const renderInto: KluctlRuns["renderInto"] = (run, options, read, signal) =>
    start({ command: "render", options }, { ...run, cold: true }, read, signal);

  return {
    diff: (run, options, signal) => start({ command: "diff", options }, run, readCommandResult, signal),
    diffInto: (run, options, read, signal) => start({ command: "diff", options }, run, read, signal),
    deploy: (run, options, signal) => startFenced({ command: "deploy", options }, run, signal),
    pokeImages: (run, options, signal) => startFenced({ command: "poke-images", options }, run, signal),
    validate: (run, signal) => start({ command: "validate" }, run, readValidateResult, signal),
    render: (run, options, signal) => renderInto(run, options, readRender, signal),
    renderInto,
    prune: async (run, signal) => toOrphans(await start({ command: "prune" }, run, readCommandResult, signal)),
    delete: (run, options, signal) => startFenced({ command: "delete", options }, run, signal),

    async version() {
      return (await prepare()).version;
    },

    async identity() {
      const { file, version } = await findBinary();
      return `${version} ${file}`;
    },

    async stop() {
      stopping.abort();
      while (running.size > 0) await Promise.allSettled(running); // ending runs add the removal of their directory
      await Promise.all([renderers?.stop(), confinement?.stop()]);
    },
  };
}

/** Returns the secrets to mask in kluctl's output, besides anything that looks like a secret. */
export function secretsOf({ credentials: { git, oci, helm }, secrets = [] }: AnyRun): string[] {
  const passwords = [...git, ...oci, ...helm].map(({ password }) => password);
  const tokens = oci.flatMap(({ identityToken, token }) => [identityToken, token]);
  return [...passwords, ...tokens, ...secrets].filter((secret) => secret !== undefined);
}

export function endOf(error: unknown): RunEnd {
  if (error instanceof KilledError) return error.why;
  if (error instanceof PrepareError) return "prepare";
  return error instanceof KluctlUnavailableError ? "unavailable" : "failed";
}
