/**
 * Ends runs of previews that only wait. A template that sleeps costs nothing, so no other limit ends it before the timeout, but
 * it occupies one of few places meanwhile.
 */
import { readdir, readFile } from "node:fs/promises";
import { KilledError } from "../errors.ts";

export interface IdleRun {
  /** The process groups of the run. */
  readonly groups: () => readonly number[];
  /** Whether it waits for the cluster or another host, which is not its fault. */
  readonly isServed: () => boolean;
}

export interface IdleWatch {
  /** Watches a run until `stop`. The signal aborts when it has been idle for too long in total. */
  watch(run: IdleRun): { readonly signal: AbortSignal; stop(): void };
}

export interface ProcessUse {
  readonly pid: number;
  readonly group: number;
  /** How long it has used a processor or waited for one, in milliseconds. */
  readonly busyMs: number;
  /** Whether it waits for a disk now. */
  readonly isBlocked: boolean;
}

interface Watched extends IdleRun {
  readonly controller: AbortController;
  readonly busyMs: Map<number, number>;
  idleMs: number;
}

/** Clock ticks per second in /proc, on all platforms of Linux that Node supports. */
const ticksPerSecond = 100;

/** `read`: the use of all processes in these groups; `undefined` if it is not known, which is never held against a run. */
export function createIdleWatch(
  limitMs: number,
  read: (groups: ReadonlySet<number>) => Promise<readonly ProcessUse[] | undefined> = readProcesses,
): IdleWatch {
  const everyMs = Math.min(Math.max(limitMs / 24, 100), 5_000);
  const all = new Set<Watched>();
  let timer: NodeJS.Timeout | undefined;
  /** Whether a reading goes on, after which the next one is planned. */
  let isReading = false;
  let lookedAt = 0;

  function start(): void {
    lookedAt = performance.now();
    timer = setTimeout(() => void look(), everyMs);
  }

  async function look(): Promise<void> {
    const runs = [...all];
    timer = undefined;
    isReading = true;
    const used = await read(new Set(runs.flatMap(({ groups }) => groups())));
    isReading = false;
    // While this process itself is stopped, the runs that it serves cannot go on.
    const passedMs = Math.min(performance.now() - lookedAt, 2 * everyMs);
    for (const run of runs) if (used && all.has(run)) add(run, used, passedMs);
    if (all.size > 0) start();
  }

  function add(run: Watched, used: readonly ProcessUse[], passedMs: number): void {
    const groups = new Set(run.groups());
    const own = used.filter(({ group }) => groups.has(group));
    const busyMs = own.reduce((sum, each) => sum + each.busyMs - (run.busyMs.get(each.pid) ?? 0), 0);
    for (const each of own) run.busyMs.set(each.pid, each.busyMs);
    if (own.length === 0 || own.some(({ isBlocked }) => isBlocked) || run.isServed()) return;
    run.idleMs += Math.max(0, passedMs - busyMs);
    if (run.idleMs < limitMs) return;
    const words = `the preview was ended because it waited for ${Math.round(limitMs / 1_000)} s without using a processor, the cluster or a host: remove what makes a template wait, such as a sleep`;
    run.controller.abort(new KilledError("idle", words));
  }

  return {
    watch(run) {
      const watched: Watched = { ...run, controller: new AbortController(), busyMs: new Map(), idleMs: 0 };
      all.add(watched);
      if (timer === undefined && !isReading) start();
      return {
        signal: watched.controller.signal,
        stop() {
          all.delete(watched);
          if (all.size > 0) return;
          clearTimeout(timer);
          timer = undefined;
        },
      };
    },
  };
}

async function readProcesses(groups: ReadonlySet<number>): Promise<ProcessUse[] | undefined> {
  const names = await readdir("/proc").catch(() => undefined);
  const pids = names?.filter((name) => /^\d+$/.test(name));
  if (pids === undefined) return undefined;
  const found: ProcessUse[] = [];
  // One after the other: there may be thousands, and there is no hurry.
  for (const pid of pids) {
    const one = await readProcess(pid, groups).catch(() => undefined); // it has ended
    if (one !== undefined) found.push(one);
  }
  return found;
}

async function readProcess(pid: string, groups: ReadonlySet<number>): Promise<ProcessUse | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8");
  // After the name, which may contain anything.
  const [state, , group, ...others] = text.slice(text.lastIndexOf(")") + 2).split(" ");
  if (!groups.has(Number(group))) return undefined;
  const ticks = Number(others[8]) + Number(others[9]);
  const busyMs = (ticks * 1_000) / ticksPerSecond + (await readDelay(pid));
  return { pid: Number(pid), group: Number(group), busyMs, isBlocked: state === "D" };
}

/** How long its threads have waited for a processor. Not every kernel says so. */
async function readDelay(pid: string): Promise<number> {
  const threads = await readdir(`/proc/${pid}/task`);
  const delays = threads.map(async (thread) => {
    const text = await readFile(`/proc/${pid}/task/${thread}/schedstat`, "utf8").catch(() => "");
    return Number(text.split(" ")[1] ?? 0) / 1e6;
  });
  return (await Promise.all(delays)).reduce((sum, delay) => sum + delay, 0);
}
