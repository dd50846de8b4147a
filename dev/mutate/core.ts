/**
 * The decision functions that `npm run mutate` changes one small thing at a time, the tests that must detect the
 * changes, and the mutants that may survive, with the reason. Any other survivor fails the command, and so does a
 * listed mutant that no longer survives.
 */
import type { Allowed } from "./survivors.ts";

export interface CoreFile {
  /** A glob: only the functions' own tests count, not others that happen to execute them. */
  readonly tests: string;
  readonly mayLive: readonly Allowed[];
}

const [matching, reconciling, queueing] = [
  "test/unit/match/**/*.test.ts",
  "test/unit/reconcile/**/*.test.ts",
  "test/unit/jobs/**/*.test.ts",
];

export const core: Readonly<Record<string, CoreFile>> = {
  "src/intake/match.ts": { tests: matching, mayLive: [] },
  "src/intake/touched-files.ts": {
    tests: matching,
    mayLive: [
      {
        why: "no changed file has this name",
        mutants: [
          'const { directory, globs, reads = [-[]-]{+["Stryker was here"]+} } = placesOf(deployment);',
          'return { directory, globs, reads: globs === undefined ? parseReads(directory, annotations[annotation.reads]) : [-[]-]{+["Stryker was here"]+} };',
        ],
      },
    ],
  },
  "src/intake/match-includes.ts": { tests: matching, mayLive: [] },
  "src/kit/glob.ts": {
    tests: "test/unit/{match,source}/*glob.test.ts",
    mayLive: [
      {
        why: "a part of no kind is passed over",
        mutants: [
          'return name === "**" ? [{ kind: "names" }] : (parse(`/${name.replace(/\\*+/g, "*")}`) ?? [-[]-]{+["Stryker was here"]+});',
          'const parts = literal === -1 ? [-[]-]{+["Stryker was here"]+} : names.slice(literal).flatMap(toNameParts);',
          'const parts: Part[] = [-[]-]{+["Stryker was here"]+};',
        ],
      },
      {
        why: "without any place the rest cannot find one: leaving early only saves time",
        mutants: ["if ([-!places.includes(1)-]{+false+}) return;"],
      },
      {
        why: "before the first letter there is none, and the first place is cleared afterwards; behind the last place there is none",
        mutants: [
          "for (let at = end; [-at > 0-]{+at >= 0+}; at--) places[at] = letters[at - 1] === part.letter ? places[at - 1]! : 0;",
          'for (let at = end; [-at > 0-]{+at >= 0+}; at--) places[at] = places[at - 1] && part.fits(letters[at - 1] ?? "") ? 1 : 0;',
          'for (let at = 0; [-at < end-]{+at <= end+}; at++) if (places[at] && (part.crosses || letters[at] !== "/")) places[at + 1] = 1;',
        ],
      },
      {
        why: "a `*` behind a `**` adds nothing to it",
        mutants: ["if ([-crosses-]{+false+}) reader.at++;"],
      },
      {
        why: "no letter of a path is `undefined`, so that the glob matches nothing either way",
        mutants: ['return [-meant === undefined-]{+false+} ? undefined : { kind: "letter", letter: meant };'],
      },
    ],
  },
  "src/reconcile/decide.ts": {
    tests: reconciling,
    mayLive: [
      {
        why: "without an interval the sum is no number, and that is never before now: the check is for the type",
        mutants: [
          'if ([-spec.deployIntervalMs !== undefined-]{+true+} && deployedAt + spec.deployIntervalMs <= now) return "interval";',
        ],
      },
    ],
  },
  "src/reconcile/due.ts": {
    tests: reconciling,
    mayLive: [
      {
        why: "only asked for a deployment that waits for its health or for a dependency, which its Ready condition says",
        mutants: [
          'const at = Date.parse([-readyCondition(status)?.lastTransitionTime-]{+readyCondition(status).lastTransitionTime+} ?? "");',
        ],
      },
    ],
  },
  "src/reconcile/status/conditions.ts": {
    tests: reconciling,
    mayLive: [
      {
        why: "only what comes second in the list is read",
        mutants: [
          'const [, count] = /(\\d+) errors? occurred:/.exec(message) ?? [-[]-]{+["Stryker was here"]+};',
          'const [, commit] = pendingPattern.exec(readyCondition(status)?.message ?? "") ?? [-[]-]{+["Stryker was here"]+};',
        ],
      },
    ],
  },
  "src/guards/discriminators.ts": { tests: reconciling, mayLive: [] },
  "jobs/fairness.ts": {
    tests: queueing,
    mayLive: [
      {
        why: "whether the lines begin again at ten minutes, or a millisecond later, makes no difference to anybody",
        mutants: [
          "if ([-this.#now() - this.#knownAt > forgottenAfterMs-]{+this.#now() - this.#knownAt >= forgottenAfterMs+}) this.idle();",
        ],
      },
    ],
  },
  "jobs/lanes.ts": { tests: queueing, mayLive: [] },
};
