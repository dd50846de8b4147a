/** kluctl, which follows the live configuration: calls in progress finish with the previous one. */
import { same } from "../config/compare.ts";
import type { LiveConfig } from "../config/live.ts";
import { aroundEach } from "../kit/around.ts";
import type { KluctlProcesses } from "../kluctl/kluctl.ts";
import type { Config } from "../config.ts";
import type { Logger } from "../log.ts";

interface Used {
  readonly kluctl: KluctlProcesses;
  readonly calls: Set<Promise<unknown>>;
}

/** A change to a kluctl that does not work is rejected. */
export function createLiveKluctl(
  live: LiveConfig,
  create: (config: Config["kluctl"]) => KluctlProcesses,
  log: Logger,
): KluctlProcesses {
  const all = new Set<Used>();
  const open = (config: Config["kluctl"]): Used => ({ kluctl: create(config), calls: new Set() });
  let used = open(live.now.kluctl);
  all.add(used);

  live.follow(async (next, current) => {
    if (same(next.kluctl, current.kluctl)) return undefined;
    const opened = open(next.kluctl);
    const drop = () => void opened.kluctl.stop();
    try {
      await opened.kluctl.version();
    } catch (error) {
      drop();
      throw error;
    }
    return {
      take() {
        const before = used;
        used = opened;
        all.add(opened);
        void retire(before);
      },
      drop,
    };
  });

  async function retire(one: Used): Promise<void> {
    while (one.calls.size > 0) await Promise.allSettled(one.calls);
    try {
      await one.kluctl.stop();
    } catch (error) {
      log.warn({ err: error }, "could not remove the previous kluctl");
    }
    all.delete(one);
  }

  /** Registers the call synchronously, so that the kluctl is not removed before the call starts. */
  async function call<T>(work: (kluctl: KluctlProcesses) => Promise<T>): Promise<T> {
    const { kluctl, calls } = used;
    const calling = work(kluctl);
    calls.add(calling);
    try {
      return await calling;
    } finally {
      calls.delete(calling);
    }
  }

  const stop = async () => void (await Promise.all([...all].map(({ kluctl }) => kluctl.stop())));
  const following = aroundEach(used.kluctl, commands, (_next, command, args) =>
    call((kluctl) => (kluctl[command] as (...args: readonly unknown[]) => Promise<never>)(...args)),
  );
  return { ...following, stop };
}

const commands = [
  "version",
  "identity",
  "diff",
  "deploy",
  "pokeImages",
  "validate",
  "render",
  "prune",
  "delete",
] as const satisfies readonly (keyof KluctlProcesses)[];
