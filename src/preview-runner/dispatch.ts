/** The server's side: opens a connection to the runner for each run, and answers the runner's requests on it. */
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import http2 from "node:http2";
import net from "node:net";
import { pipeline } from "node:stream/promises";
import tls from "node:tls";
import { KilledError, KluctlUnavailableError, PrepareError } from "../errors.ts";
import { ArchiveError } from "../kit/untar.ts";
import { pack, type PackedDirectory, slotLimits, type SlotLimits } from "./archive.ts";
import { bounded, identity, readJson, sessionOptions, tlsOptions, toKey, watchSilence } from "./link.ts";
import { accessOf, type TaskOutcome, outcomeSchema, reportSchema, type RunnerReport, type Task } from "./task.ts";

export type RunnerAddress = { readonly host: string; readonly port: number } | { readonly path: string };

export function nameOf(address: RunnerAddress): string {
  return "path" in address ? address.path : `${address.host}:${address.port}`;
}

export interface DispatchDeps {
  readonly address: RunnerAddress;
  readonly token: string;
  /** The server's version: a runner of another version gets no task. */
  readonly version: string;
  /** Called with each runner's report, or with the reason why there is none. */
  readonly onReport?: ((report: RunnerReport | Error) => void) | undefined;
  readonly limits?: SlotLimits | undefined;
  readonly patience?: Partial<Patience> | undefined;
}

/** Timeouts: otherwise a runner that never finishes would hold a job forever. */
interface Patience {
  /** For the runner's report. */
  readonly reportMs: number;
  /** For a free slot at the runner. */
  readonly placeMs: number;
  /** For the files and the result, in addition to the run's own timeout. */
  readonly overtimeMs: number;
}

const usualPatience: Patience = { reportMs: 20_000, placeMs: 15 * 60_000, overtimeMs: 5 * 60_000 };

export interface Assignment {
  readonly task: Task;
  /** The directory that contains the clone and nothing else. */
  readonly slot: string;
  /** More directories, with the names that they get in the runner's slot. */
  readonly others?: readonly PackedDirectory[] | undefined;
  /** The path that kluctl's result is written to, unchanged. */
  readonly result: string;
  /** Throws the error that the run should fail with if such a runner is not acceptable. */
  readonly accept: (report: RunnerReport) => void;
}

export interface Dispatch {
  /**
   * Throws KluctlUnavailableError if no runner is available, and KilledError if the runner disconnected before the run
   * ended.
   */
  run(assignment: Assignment, signal: AbortSignal): Promise<TaskOutcome>;
  /** Gets the runner's report without giving it a task. */
  examine(signal: AbortSignal): Promise<RunnerReport>;
}

const connectMs = 10_000;
const [longestReport, longestOutcome, longestResult] = [64 * 1024, 4 * 1024 ** 2, 256 * 1024 ** 2];

export function createDispatch({
  address,
  token,
  version,
  onReport,
  limits = slotLimits,
  patience,
}: DispatchDeps): Dispatch {
  const { reportMs, placeMs, overtimeMs } = { ...usualPatience, ...patience };
  const name = nameOf(address);
  const place = "path" in address ? address : { ...address, host: address.host.replaceAll(/^\[|\]$/g, "") };
  const psk = toKey(token);

  /** Connects and answers each of the runner's requests with `answer`, until there is an outcome or a timeout. */
  async function converse<T>(signal: AbortSignal, answer: (ask: Asked, talk: Talk<T>) => Promise<void>): Promise<T> {
    const socket = await connect(signal);
    const session = http2.performServerHandshake(socket, sessionOptions);
    const ended = Promise.withResolvers<T>();
    let timer: NodeJS.Timeout | undefined;
    const within: Talk<T>["within"] = (ms, or) => {
      clearTimeout(timer);
      const giveUp = () => ended.reject(new KluctlUnavailableError(`the preview runner ${name} ${or}`));
      timer = setTimeout(giveUp, Math.min(ms, 2 ** 31 - 1)); // a longer one would fire at once
      timer.unref(); // it may be set after the conversation has ended
    };
    within(reportMs, "did not identify itself in time");
    const stop = () => ended.reject(new KilledError("stopped", `the run at the preview runner was stopped`));
    const lost = () =>
      ended.reject(
        new KilledError("signal", `the preview runner ${name} stopped or disconnected before the run ended`),
      );
    signal.addEventListener("abort", stop, { once: true });
    session.on("error", lost);
    session.once("close", lost);
    socket.once("close", lost);
    watchSilence(session, lost);
    session.on("stream", (stream: http2.ServerHttp2Stream, headers: http2.IncomingHttpHeaders) => {
      stream.on("error", () => undefined); // the reader or writer of the stream gets the error too
      answer({ stream, path: headers[":path"] ?? "" }, { resolve: ended.resolve, within }).catch((error: unknown) => {
        // The runner closed the stream and will give the reason in the outcome; if the runner itself is gone, the
        // session ends.
        if (isOfStream(error)) return stream.close();
        ended.reject(error);
        stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
      });
    });
    try {
      if (signal.aborted) stop();
      return await ended.promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
      session.destroy();
      socket.destroy();
    }
  }

  async function connect(signal: AbortSignal): Promise<tls.TLSSocket> {
    const socket = tls.connect({
      ...tlsOptions,
      ...place,
      checkServerIdentity: () => undefined, // there is no certificate: the runner proves that it knows the token
      pskCallback: () => ({ psk, identity }),
    });
    const giveUp = () => void socket.destroy(new Error("the result is no longer needed"));
    const timer = setTimeout(() => socket.destroy(new Error(`no response within ${connectMs / 1_000} s`)), connectMs);
    signal.addEventListener("abort", giveUp, { once: true });
    try {
      if (signal.aborted) giveUp();
      await once(socket, "secureConnect");
      socket.setKeepAlive(true, 30_000);
      socket.on("error", () => undefined); // `close` follows
      return socket;
    } catch (error) {
      socket.destroy();
      signal.throwIfAborted();
      const why = new KluctlUnavailableError(`previews are rendered by the preview runner ${name}, ${explain(error)}`);
      onReport?.(why);
      throw why;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", giveUp);
    }
  }

  async function readReport({ stream }: Asked): Promise<RunnerReport> {
    const report = reportSchema.parse(await readJson(stream, longestReport));
    const error = report.version === version ? undefined : otherVersion(name, report.version, version);
    onReport?.(error ?? report);
    if (error !== undefined) throw error;
    return report;
  }

  return {
    run({ task, slot, others, result, accept }, signal) {
      let isAccepted = false;
      const admit = inOrder();
      return converse<TaskOutcome>(signal, async (ask, talk) => {
        admit(ask.path, isAccepted);
        switch (ask.path) {
          case "/task": {
            accept(await readReport(ask));
            isAccepted = true;
            talk.within(placeMs, "had no free slot for this run in time");
            return send(ask, task);
          }
          case "/slot":
            talk.within(task.run.timeoutMs + overtimeMs, "did not end the run in time");
            ask.stream.respond({ ":status": 200 });
            return pipeline(pack(slot, limits, others), ask.stream).catch((error: unknown) => {
              if (!(error instanceof ArchiveError)) throw error;
              throw new PrepareError(`the merge cannot be sent to the preview runner: ${error.message}`);
            });
          case "/result":
            await pipeline(bounded(ask.stream, longestResult), createWriteStream(result, { flags: "wx", mode: 0o600 }));
            return send(ask, {});
          case "/outcome":
            talk.resolve(outcomeSchema.parse(await readJson(ask.stream, longestOutcome)));
            return undefined;
          default:
            return join(ask, accessOf(task.call)?.ports ?? []);
        }
      });
    },

    async examine(signal) {
      try {
        return await converse<RunnerReport>(signal, async (ask, talk) => {
          if (ask.path !== "/task") throw new Error("the preview runner requested more than it is given");
          talk.resolve(await readReport(ask));
        });
      } catch (error) {
        if (!signal.aborted) onReport?.(error as Error);
        throw error;
      }
    },
  };
}

interface Talk<T> {
  readonly resolve: (outcome: T) => void;
  /** Sets a new timeout, which replaces the previous one. */
  readonly within: (ms: number, or: string) => void;
}

interface Asked {
  readonly stream: http2.ServerHttp2Stream;
  readonly path: string;
}

const questions = ["/task", "/slot", "/result", "/outcome"];

/** Throws if a runner makes a request twice or too early. A run that fails sends no result. */
function inOrder(): (path: string, isAccepted: boolean) => void {
  let next = 0;
  return (path, isAccepted) => {
    const at = questions.indexOf(path);
    if (at === 0 ? next > 0 : !isAccepted || (at > 0 && at < next))
      throw new Error("the preview runner requested something twice or too early");
    if (at >= 0) next = at + 1;
  };
}

function send({ stream }: Asked, document: object): void {
  stream.respond({ ":status": 200 });
  stream.end(JSON.stringify(document));
}

/** Connects kluctl to one of the proxies that were opened for its run. */
async function join({ stream, path }: Asked, ports: readonly number[]): Promise<void> {
  const port = ports.find((one) => path === `/ports/${one}`);
  if (port === undefined) throw new Error("the preview runner requested a port that it was not given");
  if (stream.destroyed || stream.closed) return;
  const socket = net.connect({ host: "127.0.0.1", port, allowHalfOpen: true });
  const end = (): void => {
    socket.destroy();
    stream.close();
  };
  socket.on("error", end).on("close", end);
  stream.on("close", end);
  stream.respond({ ":status": 200 });
  stream.pipe(socket).pipe(stream);
  return Promise.resolve();
}

/** Whether the peer has closed a single stream, or the whole connection. */
function isOfStream(error: unknown): boolean {
  const { code = "" } = error as NodeJS.ErrnoException;
  return /^(?:ERR_HTTP2_|ERR_STREAM_|ECONNRESET$|EPIPE$)/.test(code);
}

function explain(error: unknown): string {
  const { code = "", message } = error as NodeJS.ErrnoException;
  if (/ALERT|BAD_RECORD|DECRYPT/.test(code)) return "which rejects this server's preview.runner.token";
  if (code.startsWith("ERR_SSL")) return "but the process at that address is not a preview runner";
  return `which does not respond: ${code || message}`;
}

function otherVersion(name: string, theirs: string, ours: string): Error {
  return new KluctlUnavailableError(
    `the preview runner ${name} runs Towline ${theirs}, but this server runs ${ours}: both must run the same version. During an update, wait until it is complete; otherwise update the older one`,
  );
}
