/** The processes of this machine, for tests of what must not be left behind. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

export interface FoundProcess {
  readonly pid: number;
  readonly command: string;
}

/**
 * Processes that were started for a directory: it is in their environment or their command line, or is their working
 * directory. This finds them whatever their parent and process group.
 */
export function findProcessesOf(directory: string, except: readonly (number | undefined)[] = []): FoundProcess[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => pid !== process.pid && !except.includes(pid))
    .flatMap((pid) => {
      const command = read(pid, "cmdline").replaceAll("\0", " ").trim(); // empty for a process that has ended
      const concerned = [command, read(pid, "environ"), workingDirectory(pid)].some((text) => text.includes(directory));
      return command !== "" && concerned ? [{ pid, command }] : [];
    });
}

/**
 * The processes that a server runs for its deployments: excludes the server itself and the long-lived processes that
 * start git, kluctl and its renderers.
 */
export function findRunsOf(directory: string, server: number): FoundProcess[] {
  return findProcessesOf(directory, [server]).filter(
    ({ command }) => !/fork-server\.py|starter-process\.[jt]s/.test(command),
  );
}

/** Whether the one process began before the other one. False if one of them has ended. */
export function startedBefore(one: number, other: number): boolean {
  return startOf(one) < startOf(other);
}

/** In clock ticks since the machine started; NaN if the process has ended. */
function startOf(pid: number): number {
  // The second field is the program's name, which may contain spaces and brackets. The start is the 22nd.
  const fields = read(pid, "stat").replace(/^.*\)/s, "").trim().split(" ");
  return Number(fields[19] ?? "none");
}

function read(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "utf8");
  } catch {
    return ""; // the process has ended meanwhile
  }
}

function workingDirectory(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return "";
  }
}
