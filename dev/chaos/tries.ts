/** Plays a story, and shorter ones as long as they fail. */
import fc from "fast-check";

export interface TryOptions<Story, Report> {
  readonly stories: fc.Arbitrary<Story>;
  readonly seed: number;
  /** Starts with the story of this path, instead of the one that the seed produces. */
  readonly path?: string | undefined;
  /** Searches for a shorter story that fails as well. */
  readonly shrinks: boolean;
  /** Resolves to `undefined` if the try was aborted, so that it says nothing. */
  readonly play: (story: Story, tryNumber: number) => Promise<Report | undefined>;
  readonly isFailure: (report: Report) => boolean;
}

export interface Tried<Report> {
  /** The last report of a failure or, if nothing failed, that of the only try. */
  readonly report: Report;
  /** Path of the story that failed last, for the option of the same name. */
  readonly path?: string | undefined;
}

/** Resolves to `undefined` if no try came to its end. */
export async function tryStories<Story, Report>(
  options: TryOptions<Story, Report>,
): Promise<Tried<Report> | undefined> {
  const { stories, seed, path, shrinks, play, isFailure } = options;
  let [tries, aborted] = [0, false];
  let passed: Report | undefined;
  let failed: Report | undefined;
  const property = fc.asyncProperty(stories, async (story) => {
    if (aborted) return true;
    const report = await play(story, tries++);
    aborted = report === undefined;
    if (report === undefined) return true;
    // Shrinking ends with stories that pass: their reports must not replace that of the failure.
    if (isFailure(report)) failed = report;
    else passed ??= report;
    return !isFailure(report);
  });
  const details = await fc.check(property, {
    seed,
    numRuns: 1,
    endOnFailure: !shrinks,
    ...(path !== undefined && { path }),
  });
  if (failed !== undefined) return { report: failed, path: details.counterexamplePath ?? undefined };
  if (passed !== undefined) return { report: passed };
  if (aborted) return undefined;
  throw new Error("no story could be played", { cause: details.errorInstance });
}
