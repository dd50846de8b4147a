/**
 * A jail: what a process and all that it starts may do. It is made of what any process may ask the kernel for: Landlock
 * for files, ports and signals, seccomp for calls, and limits of resources. None of it can be taken off again.
 */
import { launcher } from "./launcher.ts";

export interface Jail {
  /** What is not there is left out; what is made in them later is included. */
  readonly read: readonly string[];
  /** Read, and started as programs. */
  readonly execute: readonly string[];
  readonly write: readonly string[];
  /** The TCP ports that may be connected to; `undefined`: any. */
  readonly ports?: readonly number[] | undefined;
  readonly filter: string;
  /** Landlock's rules name ports, and no addresses. So who connects is watched, where that is to be. */
  readonly watched?: Watched | undefined;
  readonly limits: JailLimits;
  readonly demands: Demands;
  /** The environment that is kept, if not all of it: what begins with one of these. */
  readonly environment?: readonly string[] | undefined;
}

/** Nothing is connected to but the ports, on 127.0.0.1, and sockets in these directories. */
interface Watched {
  /** In place of the other: it asks. */
  readonly filter: string;
  readonly sockets: readonly string[];
}

/** Bytes, seconds, and counts. */
export interface JailLimits {
  /** Of private memory that can be written. */
  readonly data?: number;
  readonly files?: number;
  readonly fileSize?: number;
  readonly cpu?: number;
}

export interface Demands {
  /** The newest of Landlock's versions that is used; for tests. 0: none at all. */
  readonly abi?: number | undefined;
  /** Without which nothing is started, instead of as much as there is. */
  readonly files: boolean;
  readonly network: boolean;
}

/** What a launcher ends with that could not make its jail: nothing was started. */
export const notJailed = 125;

const perl = "/usr/bin/perl";

/** Linux's numbers. */
const resources = { cpu: 0, fileSize: 1, data: 2, files: 7 } as const;

/** The command line that runs a command in a jail. */
export function inJail(jail: Jail, command: string, args: readonly string[]): { command: string; args: string[] } {
  return { command: perl, args: ["-e", launcher(), toText(jail), command, ...args] };
}

/** What the launcher reads: one word and its value on each line. */
export function toText({ read, execute, write, ports, filter, watched, limits, demands, environment }: Jail): string {
  const lines: [string, string | number][] = [
    ...read.map((path): [string, string] => ["read", path]),
    ...execute.map((path): [string, string] => ["execute", path]),
    ...write.map((path): [string, string] => ["write", path]),
    ...(ports === undefined ? [] : ([["ports", ports.join(" ")]] as [string, string][])),
    ["filter", filter],
    ...(watched === undefined ? [] : ([["watched", watched.filter]] as [string, string][])),
    ...(watched?.sockets ?? []).map((path): [string, string] => ["sockets", path]),
    ["limit", "4 0"], // no core dumps: they hold secrets
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
