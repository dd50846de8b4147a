/** Memory limit and usage of the container, or else of the machine. */
import { readFileSync } from "node:fs";
import { freemem, totalmem } from "node:os";

export interface Memory {
  readonly limitBytes: number;
  readonly usedBytes: number;
}

/** Throws if the file does not exist. */
export type ReadText = (path: string) => string;

/** Larger limits mean "unlimited": cgroup v1 has a huge number if no limit is set. */
const noLimit = 2 ** 60;

export function readMemory(read: ReadText = (path) => readFileSync(path, "utf8")): Memory {
  const machine = ofMachine(read);
  const container = ofCgroup2(read) ?? ofCgroup1(read);
  return container !== undefined && container.limitBytes < machine.limitBytes ? container : machine;
}

function ofMachine(read: ReadText): Memory {
  const available = /^MemAvailable:\s+(\d+) kB/m.exec(tryRead(read, "/proc/meminfo") ?? "")?.[1];
  const limitBytes = totalmem();
  return { limitBytes, usedBytes: limitBytes - (available ? Number(available) * 1024 : freemem()) };
}

function ofCgroup2(read: ReadText): Memory | undefined {
  return ofFiles(read, "/sys/fs/cgroup", "memory.max", "memory.current", ["inactive_file", "active_file"]);
}

function ofCgroup1(read: ReadText): Memory | undefined {
  const [limit, usage] = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
  return ofFiles(read, "/sys/fs/cgroup/memory", limit, usage, ["total_inactive_file", "total_active_file"]);
}

/**
 * Subtracts the page cache, active and inactive, which the kernel counts as used although it can drop it at any time.
 */
function ofFiles(
  read: ReadText,
  folder: string,
  limitFile: string,
  usedFile: string,
  droppable: readonly string[],
): Memory | undefined {
  const [limit, used] = [
    toNumber(tryRead(read, `${folder}/${limitFile}`)),
    toNumber(tryRead(read, `${folder}/${usedFile}`)),
  ];
  if (limit === undefined || used === undefined || limit >= noLimit) return undefined;
  const stat = tryRead(read, `${folder}/memory.stat`) ?? "";
  const cached = droppable.reduce(
    (sum, name) => sum + Number(new RegExp(`^${name} (\\d+)$`, "m").exec(stat)?.[1] ?? 0),
    0,
  );
  return { limitBytes: limit, usedBytes: Math.max(0, used - cached) };
}

function toNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+\s*$/.test(text) ? Number(text) : undefined; // "max" means unlimited
}

function tryRead(read: ReadText, path: string): string | undefined {
  try {
    return read(path);
  } catch {
    return undefined;
  }
}
