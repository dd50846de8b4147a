/**
 * A jail limits what a process and everything that it starts may do. It uses only unprivileged kernel features:
 * Landlock for files, ports and signals, seccomp for system calls, and resource limits. A process cannot leave its
 * jail.
 */
import { launcher } from "./launcher.ts";

export interface Jail {
  /** Paths that do not exist are skipped; files created below them later are included. */
  readonly read: readonly string[];
  /** May be read and executed. */
  readonly execute: readonly string[];
  readonly write: readonly string[];
  /** The TCP ports that may be connected to; `undefined`: any. */
  readonly ports?: readonly number[] | undefined;
  readonly filter: string;
  /** Landlock's rules name only ports, not addresses, so a supervising process checks connections if this is set. */
  readonly watched?: Watched | undefined;
  readonly limits: JailLimits;
  readonly demands: Demands;
  /** Prefixes of the environment variables to keep; all are kept if left out. */
  readonly environment?: readonly string[] | undefined;
}

/** Allows connections only to the ports, on 127.0.0.1, and to sockets in these directories. */
interface Watched {
  /** Replaces the jail's `filter`; asks the supervising process before a connection. */
  readonly filter: string;
  readonly sockets: readonly string[];
}

/** Bytes, seconds, and counts. */
export interface JailLimits {
  /** Limit of private writable memory. */
  readonly data?: number;
  readonly files?: number;
  readonly fileSize?: number;
  readonly cpu?: number;
}

export interface Demands {
  /** The newest Landlock version to use, for tests; 0: none at all. */
  readonly abi?: number | undefined;
  /** Features without which nothing is started; without a demand, the jail uses what the kernel offers. */
  readonly files: boolean;
  readonly network: boolean;
}

/** Exit status of the launcher if it could not create the jail: the command was not started. */
export const notJailed = 125;

const perl = "/usr/bin/perl";

/** Linux's numbers of resource limits. */
const resources = { cpu: 0, fileSize: 1, data: 2, files: 7 } as const;

/** Returns the command line that runs a command in a jail. */
export function inJail(jail: Jail, command: string, args: readonly string[]): { command: string; args: string[] } {
  return { command: perl, args: ["-e", launcher(), toText(jail), command, ...args] };
}

/** Returns the jail in the launcher's format: one keyword and its value per line. */
export function toText({ read, execute, write, ports, filter, watched, limits, demands, environment }: Jail): string {
  const lines: [string, string | number][] = [
    ...read.map((path): [string, string] => ["read", path]),
    ...execute.map((path): [string, string] => ["execute", path]),
    ...write.map((path): [string, string] => ["write", path]),
    ...(ports === undefined ? [] : ([["ports", ports.join(" ")]] as [string, string][])),
    ["filter", filter],
    ...(watched === undefined ? [] : ([["watched", watched.filter]] as [string, string][])),
    ...(watched?.sockets ?? []).map((path): [string, string] => ["sockets", path]),
    ["limit", "4 0"], // no core dumps: they would contain secrets
    ...Object.entries(limits).map(([name, most]): [string, string] => [
      "limit",
      `${resources[name as keyof typeof resources]} ${most}`,
    ]),
    ...(demands.abi === undefined ? [] : ([["abi", demands.abi]] as [string, number][])),
    ...(demands.files ? ([["demand", "files"]] as [string, string][]) : []),
    ...(demands.network ? ([["demand", "network"]] as [string, string][]) : []),
    ...(environment ?? []).map((name): [string, string] => ["environment", name]),
  ];
  if (lines.some(([, value]) => String(value).includes("\n")))
    throw new Error("a path in the jail contains a line break");
  return lines.map(([name, value]) => `${name} ${value}\n`).join("");
}
