/** Splits a push or a preview into steps: which process ran when, and the time in between. Pure. */
import { median, spread, type Table } from "./measurement.ts";
import type { LogLine, Ran } from "./towline.ts";

/** The moments of one push, in epoch milliseconds. */
export interface Moments {
  /** The server received the delivery. */
  readonly receivedAt: number;
  /** The changed object was observed in the cluster. */
  readonly seenAt: number;
  /** The deployment was observed to be ready at the commit. */
  readonly recordedAt: number;
}

export interface Step {
  readonly name: string;
  readonly ms: number;
  /** True unless the time belongs to a process that cannot be avoided: git contacting the remote, or kluctl. */
  readonly ours: boolean;
}

/** Something that took time between the two moments. */
export interface Interval {
  readonly name: string;
  readonly from: number;
  readonly to: number;
  readonly ours: boolean;
}

const localGit = ["cat-file", "merge-tree", "commit-tree", "clone", "checkout", "init"];
const remoteGit = ["ls-remote", "fetch"];
const commands = ["diff", "deploy"];

/** When the server received the delivery, computed from the line it logs after queuing. */
export function receivedAt(accepted: LogLine): number {
  return accepted.at - Number(accepted["ms"]);
}

/** Consecutive steps from the delivery to the status write, which add up to exactly that time. */
export function takeApart(
  { receivedAt: start, recordedAt: end }: Pick<Moments, "receivedAt" | "recordedAt">,
  ran: readonly Ran[],
  { last: final, others = [] }: { last: string; others?: readonly Interval[] },
): Step[] {
  const steps: Step[] = [];
  let [at, last] = [start, "delivery"];
  const gap = (until: number, next: string) => {
    if (until > at) steps.push({ name: `${last} … ${next}`, ms: until - at, ours: true });
  };
  const intervals = [...ran.map(toInterval).filter((one) => one !== undefined), ...others];
  for (const { name, from, to, ours } of intervals.toSorted((a, b) => a.from - b.from)) {
    if (to <= start || from >= end) continue;
    gap(from, name);
    const ms = Math.min(to, end) - Math.max(from, at);
    if (ms > 0) steps.push({ name, ms, ours });
    [at, last] = [Math.max(at, to), name];
  }
  gap(end, final);
  return steps;
}

/** One row per step, in the usual order; steps that most runs do not have are omitted. */
export function stepTable(title: string, all: readonly (readonly Step[])[]): Table {
  const places = Map.groupBy(
    all.flatMap((steps) => steps.map(({ name }, place) => ({ name, place }))),
    ({ name }) => name,
  );
  const usual = [...places].map(([name, found]) => ({ name, place: median(found.map(({ place }) => place)) }));
  const names = usual.toSorted((a, b) => a.place - b.place).map(({ name }) => name);
  const rows = names.flatMap((name) => {
    const found = all.map((one) => one.filter((other) => other.name === name)).filter((one) => one.length > 0);
    if (found.length * 2 < all.length) return [];
    const [first] = found[0] as [Step];
    const times = found.map((one) => one.reduce((sum, { ms }) => sum + ms, 0));
    return [[name, first.ours ? "Towline" : "", ...spread(times)]];
  });
  return { head: [title, "by", "median", "p90", "max"], rows };
}

/** Total time by name of the processes of a reconciliation, in order of first appearance. */
export function totals(ran: readonly Ran[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const { name, from, to } of ran.map(toInterval).filter((one) => one !== undefined)) {
    sums.set(name, (sums.get(name) ?? 0) + to - from);
  }
  return sums;
}

/** Milliseconds of these processes in the time until the object was observed. */
export function timeIn({ receivedAt: start, seenAt }: Moments, ran: readonly Ran[], names: readonly string[]): number {
  const intervals = ran.map(toInterval).filter((one) => one !== undefined);
  return intervals
    .filter(({ name }) => names.includes(name))
    .reduce((sum, { from, to }) => sum + Math.max(0, Math.min(to, seenAt) - Math.max(from, start)), 0);
}

function toInterval({ from, to, args }: Ran): Interval | undefined {
  const named = (words: readonly string[]) => words.find((word) => args.includes(word));
  const kluctl = named(commands);
  // The command precedes its flags, so a branch or folder of the same name does not match first.
  if (kluctl && args.some((arg) => /(^|\/)kluctl$/.test(arg)))
    return { name: `kluctl ${kluctl}`, from, to, ours: false };
  const remote = named(remoteGit);
  if (remote) return { name: `git ${remote}`, from, to, ours: false };
  const local = named(localGit);
  return local === undefined ? undefined : { name: `git ${local}`, from, to, ours: true };
}
