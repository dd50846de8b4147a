/** CPU and memory of a process and its children, from /proc. */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

interface Stat {
  readonly parent: number;
  /** Ticks of the process alone. */
  readonly ownTicks: number;
  /** Ticks of the process and of its children that have ended. */
  readonly ticks: number;
}

export interface Usage {
  readonly serverBytes: number;
  readonly withChildrenBytes: number;
  readonly cores: number;
}

const ticksPerSecond = Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));

/**
 * CPU seconds of the process and all its descendants. A process that has ended counts for the parent that waited for
 * it; kluctl, its controller and our fork server wait for their Python processes, so none are lost to init.
 */
export function cpuSeconds(pid: number): number {
  return treeOf(pid).reduce((sum, one) => sum + (readStat(one)?.ticks ?? 0), 0) / ticksPerSecond;
}

/** CPU seconds of the process alone, with all its threads. */
export function ownCpuSeconds(pid: number): number {
  return (readStat(pid)?.ownTicks ?? 0) / ticksPerSecond;
}

/**
 * Starts to count the load from unrelated processes; the returned function returns how many cores they kept busy since.
 * Unrelated are all except this process and its descendants.
 */
export function watchOthers(): () => number {
  const count = () => ({ at: performance.now(), busy: machineSeconds() - cpuSeconds(process.pid) });
  const before = count();
  return () => {
    const { at, busy } = count();
    return Math.max(0, (busy - before.busy) / ((at - before.at) / 1_000));
  };
}

function machineSeconds(): number {
  const [line = ""] = read("/proc/stat").split("\n");
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line.split(/\s+/).slice(1).map(Number);
  return (user + nice + system + irq + softirq + steal) / ticksPerSecond;
}

/** Process id of the descendant of `pid` that runs `command`, started by our supervisor, a shell. */
export function findCommand(pid: number, command: string): number {
  const found = treeOf(pid).find((one) => argumentsOf(one)[0] === command);
  if (found === undefined) throw new Error(`There is no ${command} below process ${pid}.`);
  return found;
}

/**
 * Samples memory regularly and keeps the maximum; CPU is the mean from the start to the call of the returned function.
 */
export function startSampling(pid: number, everyMs = 500): () => Usage {
  const [cpuBefore, startedAt] = [cpuSeconds(pid), performance.now()];
  let [serverBytes, withChildrenBytes] = [0, 0];
  const look = () => {
    serverBytes = Math.max(serverBytes, residentBytes(pid));
    const tree = treeOf(pid).filter((one) => one !== pid);
    const sum = tree.reduce((bytes, one) => bytes + ownBytes(one), residentBytes(pid));
    withChildrenBytes = Math.max(withChildrenBytes, sum);
  };
  look();
  const timer = setInterval(look, everyMs);
  return () => {
    clearInterval(timer);
    look();
    const cores = (cpuSeconds(pid) - cpuBefore) / ((performance.now() - startedAt) / 1_000);
    return { serverBytes, withChildrenBytes, cores };
  };
}

function treeOf(root: number): number[] {
  const children = new Map<number, number[]>();
  for (const pid of readdirSync("/proc").map(Number).filter(Number.isInteger)) {
    const parent = readStat(pid)?.parent;
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), pid]);
  }
  const below = (pid: number): number[] => [pid, ...(children.get(pid) ?? []).flatMap(below)];
  return below(root);
}

function readStat(pid: number): Stat | undefined {
  const text = read(`/proc/${pid}/stat`);
  if (text === "") return undefined;
  // The name, in parentheses, may contain any character. Fields are numbered as in proc(5), from the third on.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const field = (number: number) => Number(fields[number - 3]);
  const ownTicks = field(14) + field(15);
  return { parent: field(4), ownTicks, ticks: ownTicks + field(16) + field(17) };
}

function argumentsOf(pid: number): string[] {
  return read(`/proc/${pid}/cmdline`).split("\0");
}

function residentBytes(pid: number): number {
  return kibibytes(read(`/proc/${pid}/status`), "VmRSS");
}

/**
 * Pages shared by several processes are divided among them, so that four Pythons do not count their libraries four
 * times.
 */
export function ownBytes(pid: number): number {
  return kibibytes(read(`/proc/${pid}/smaps_rollup`), "Pss");
}

function kibibytes(text: string, field: string): number {
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(text)?.[1] ?? 0) * 1024;
}

/** Processes may end while they are read. */
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
