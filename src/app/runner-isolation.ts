/** How previews are confined where a runner renders them: what it says of itself, asked for again and again. */
import type { Config } from "../config.ts";
import { createDispatch, type Dispatch, nameOf } from "../preview-runner/dispatch.ts";
import type { RunnerReport } from "../preview-runner/task.ts";
import { readVersion } from "../cli/version.ts";
import { type Isolation, toIsolation } from "./isolation.ts";

export interface RunnerIsolation {
  readonly dispatch: Dispatch;
  /** Always as the runner last said it. */
  readonly isolation: Isolation;
  stop(): void;
}

const askEveryMs = 15_000;

/** Both have to be built from the same sources. */
export function ownVersion(): string {
  const { version, commit } = readVersion();
  return commit === undefined ? version : `${version} (${commit.slice(0, 12)})`;
}

/** `undefined` where previews are rendered by the server itself. */
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
    await dispatch.examine(stopping.signal).catch(() => undefined); // `onReport` heard why
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

/** Once, for `towline doctor`. */
export async function askRunner({ preview }: Pick<Config, "preview">): Promise<Isolation | undefined> {
  const { runner, isolation: mode } = preview;
  if (runner.address === undefined || runner.token === undefined || mode === "off") return undefined;
  const dispatch = createDispatch({ address: runner.address, token: runner.token.reveal(), version: ownVersion() });
  const said = await dispatch.examine(new AbortController().signal).catch((error: unknown) => error as Error);
  return toIsolation(mode, nameOf(runner.address), said);
}
