/** One push or one preview, taken apart: which process ran when, and what lies between. Pure. */
import { median, spread, type Table } from "./measurement.ts";
import type { LogLine, Ran } from "./towline.ts";

/** Of one push. All moments are epoch milliseconds. */
export interface Moments {
  /** The delivery reached the server. */
  readonly receivedAt: number;
  /** The changed object was seen in the cluster. */
  readonly seenAt: number;
  /** The deployment was seen to be ready at the commit. */
  readonly recordedAt: number;
}

export interface Step {
  readonly name: string;
  readonly ms: number;
  /** Ours, unless it is a process whose time nobody could save: git asking the remote, or kluctl. */
  readonly ours: boolean;
}

/** Something that took its time meanwhile. */
export interface Interval {
  readonly name: string;
  readonly from: number;
  readonly to: number;
  readonly ours: boolean;
}

const localGit = ["cat-file", "merge-tree", "commit-tree", "clone", "checkout", "init"];
const remoteGit = ["ls-remote", "fetch"];
const commands = ["diff", "deploy"];

/** When the server got the delivery, by what it logged after having queued it. */
export function receivedAt(accepted: LogLine): number {
  return accepted.at - Number(accepted["ms"]);
}

/** From the delivery to the record, one step after the other. Together they take exactly that long. */
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

/** Each step, in the usual order; one that most do not have is left out. */
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

/** Totals by name, of what belongs to a loop; in order of first appearance. */
export function totals(ran: readonly Ran[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const { name, from, to } of ran.map(toInterval).filter((one) => one !== undefined)) {
    sums.set(name, (sums.get(name) ?? 0) + to - from);
  }
  return sums;
}

/** What this process took of the time until the object was seen. */
export function timeIn({ receivedAt: start, seenAt }: Moments, ran: readonly Ran[], names: readonly string[]): number {
  const intervals = ran.map(toInterval).filter((one) => one !== undefined);
  return intervals
    .filter(({ name }) => names.includes(name))
    .reduce((sum, { from, to }) => sum + Math.max(0, Math.min(to, seenAt) - Math.max(from, start)), 0);
}

function toInterval({ from, to, args }: Ran): Interval | undefined {
  const named = (words: readonly string[]) => words.find((word) => args.includes(word));
  const kluctl = named(commands);
  // Behind the command come its flags, so a branch or folder of the same name cannot be meant.
  if (kluctl && args.some((arg) => /(^|\/)kluctl$/.test(arg)))
    return { name: `kluctl ${kluctl}`, from, to, ours: false };
  const remote = named(remoteGit);
  if (remote) return { name: `git ${remote}`, from, to, ours: false };
  const local = named(localGit);
  return local === undefined ? undefined : { name: `git ${local}`, from, to, ours: true };
}
