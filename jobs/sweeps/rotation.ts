/** What a sweep checks once per period: groups of deployments that share one query, each at a time of its own. */
import { createHash } from "node:crypto";
import type { Clock } from "../../src/ports.ts";

export interface Group<Member> {
  readonly key: string;
  members: readonly Member[];
  /** Epoch milliseconds. */
  nextAt: number;
  /** In a row. */
  failures: number;
  looking: Promise<void> | undefined;
}

export interface RotationDeps<Member, More> {
  /** The period of a group. */
  readonly everyMs: (members: readonly Member[]) => number;
  readonly clock: Clock;
  /** Equal for members that share a query. */
  readonly keyOf: (member: Member) => string;
  /** What a sweep additionally keeps for a group. */
  readonly create: () => More;
}

export interface Rotation<Member, More> {
  all(): readonly (Group<Member> & More)[];
  /** New groups are checked first within five seconds. */
  regroup(members: readonly Member[]): void;
  /** Runs a check; meanwhile the group is `looking`. */
  look(group: Group<Member>, check: () => Promise<void>): Promise<void>;
  /** Call when a check failed: the next one is later than after the previous failure. */
  backOff(group: Group<Member>, longestMs: number): void;
  /** Makes all groups due. */
  hurry(): void;
  /** Resolves when no check runs. */
  idle(): Promise<void>;
}

export function createRotation<Member, More extends object>(deps: RotationDeps<Member, More>): Rotation<Member, More> {
  const { everyMs, clock, keyOf, create } = deps;
  let groups = new Map<string, Group<Member> & More>();
  const all = () => [...groups.values()];

  return {
    all,
    regroup(members) {
      const now = clock.now();
      groups = new Map(
        [...Map.groupBy(members, keyOf)].map(([key, members]) => {
          const nextAt = now + fractionOf(key) * Math.min(everyMs(members), 5_000);
          const group = groups.get(key) ?? { ...create(), key, members, nextAt, failures: 0, looking: undefined };
          group.members = members;
          return [key, group];
        }),
      );
    },
    look(group, check) {
      return (group.looking = check().finally(() => (group.looking = undefined)));
    },
    backOff(group, longestMs) {
      group.failures++;
      group.nextAt = clock.now() + Math.min(everyMs(group.members) * 2 ** group.failures, longestMs);
    },
    hurry() {
      for (const group of all()) group.nextAt = -Infinity;
    },
    async idle() {
      const looking = () => all().flatMap((group) => group.looking ?? []);
      while (looking().length > 0) await Promise.all(looking());
    },
  };
}

/** A number from 0 to below 1, evenly distributed over all texts and constant for each. */
export function fractionOf(text: string): number {
  return createHash("sha256").update(text).digest().readUInt32BE() / 2 ** 32;
}
