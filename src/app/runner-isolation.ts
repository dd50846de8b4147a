/**
 * The isolation of previews at a preview runner, according to the runner's own reports, which are requested regularly.
 */
import type { Config } from "../config.ts";
import { createDispatch, type Dispatch, nameOf } from "../preview-runner/dispatch.ts";
import type { RunnerReport } from "../preview-runner/task.ts";
import { readVersion } from "../cli/version.ts";
import { type Isolation, toIsolation } from "./isolation.ts";

export interface RunnerIsolation {
  readonly dispatch: Dispatch;
  /** Always reflects the runner's last report. */
  readonly isolation: Isolation;
  stop(): void;
}

const askEveryMs = 15_000;

/** Server and runner must be built from the same sources. */
export function ownVersion(): string {
  const { version, commit } = readVersion();
  return commit === undefined ? version : `${version} (${commit.slice(0, 12)})`;
}

/** Returns `undefined` if the server itself renders previews. */
export function findRunner(
  { preview: { runner, isolation: mode } }: Pick<Config, "preview">,
  onChange: (isolation: Isolation) => void,
): RunnerIsolation | undefined {
  const { address, token } = runner;
  if (address === undefined || token === undefined || mode === "off") return undefined;
  const name = nameOf(address);
  let now = toIsolation(mode, name, undefined);
  const dispatch = createDispatch({ address, token: token.reveal(), version: ownVersion(), onReport });
  const stopping = new AbortController();

  function onReport(said: RunnerReport | Error): void {
    const next = toIsolation(mode as Isolation["mode"], name, said);
    const isNews = JSON.stringify(next) !== JSON.stringify(now);
    now = next;
    if (isNews) onChange(next);
  }

  let isAsking = false;
  async function ask(): Promise<void> {
    if (isAsking) return;
    isAsking = true;
    await dispatch.examine(stopping.signal).catch(() => undefined); // `onReport` received the error
    isAsking = false;
  }
  void ask();
  const timer = setInterval(() => void ask(), askEveryMs);
  timer.unref();
  return {
    dispatch,
    isolation: {
      mode,
      runner: name,
      get provided() {
        return now.provided;
      },
      get missing() {
        return now.missing;
      },
      get unanswered() {
        return now.unanswered;
      },
    },
    stop() {
      clearInterval(timer);
      stopping.abort();
    },
  };
}

/** Asks the runner once, for `towline doctor`. */
export async function askRunner({ preview }: Pick<Config, "preview">): Promise<Isolation | undefined> {
  const { runner, isolation: mode } = preview;
  if (runner.address === undefined || runner.token === undefined || mode === "off") return undefined;
  const dispatch = createDispatch({ address: runner.address, token: runner.token.reveal(), version: ownVersion() });
  const said = await dispatch.examine(new AbortController().signal).catch((error: unknown) => error as Error);
  return toIsolation(mode, nameOf(runner.address), said);
}
