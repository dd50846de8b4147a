/** What runs on this machine, as far as tests of what must not be left behind care. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

export interface FoundProcess {
  readonly pid: number;
  readonly command: string;
}

/**
 * Processes that were started for a directory: it is in their environment, their command line, or they work in it.
 * Whoever adopts a process, and whatever group it is in, it is found.
 */
export function findProcessesOf(directory: string, except: readonly (number | undefined)[] = []): FoundProcess[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => pid !== process.pid && !except.includes(pid))
    .flatMap((pid) => {
      const command = read(pid, "cmdline").replaceAll("\0", " ").trim(); // empty for one that ended already
      const concerned = [command, read(pid, "environ"), workingDirectory(pid)].some((text) => text.includes(directory));
      return command !== "" && concerned ? [{ pid, command }] : [];
    });
}

/** What a server runs for its deployments: not itself, nor what starts git, kluctl and its renderers, which all stay. */
export function findRunsOf(directory: string, server: number): FoundProcess[] {
  return findProcessesOf(directory, [server]).filter(
    ({ command }) => !/fork-server\.py|starter-process\.[jt]s/.test(command),
  );
}

function read(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "utf8");
  } catch {
    return ""; // it ended meanwhile
  }
}

function workingDirectory(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return "";
  }
}
