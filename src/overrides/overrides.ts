/** Fetches the sources that clients offer, into directories that exist as long as the run that needs them. */
import { mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { PrepareError } from "../errors.ts";
import { withTimeout } from "../kit/deadline.ts";
import { createLimit } from "../kit/limit.ts";
import type { Logger } from "../log.ts";
import type { Checkout, OfferedSources, RepoKey, SourceOverride } from "../model.ts";
import type { Overrides } from "../ports.ts";
import { matchesOverride, repoKeyText } from "../model/repo-key.ts";
import { markRoot } from "../model/git-marker.ts";
import { ArchiveError, untarGz } from "../kit/untar.ts";
import { createWorkDirectories, removeDirectory } from "../kit/work-directories.ts";
import { archivesInFlight, type OverrideLimits } from "./limits.ts";
import type { ResolveResponse } from "./messages.ts";

export interface OverridesDeps {
  /**
   * Sends a request to the client that an override's URL names. Throws an error that says why there is no answer, or
   * the signal's reason.
   */
  readonly ask: (url: string, repoKey: string, signal: AbortSignal) => Promise<ResolveResponse>;
  /** Where the directories of runs are created. */
  readonly workDir: string;
  readonly limits: OverrideLimits;
  readonly log: Logger;
}

export function createOverrides({ ask, workDir, limits, log }: OverridesDeps): Overrides & { sweep(): Promise<void> } {
  const work = createWorkDirectories(workDir);
  const inFlight = createLimit(archivesInFlight(limits));

  async function open(overrides: readonly SourceOverride[]): Promise<OfferedSources> {
    const directory = await work.create();
    const found = new Map<string, Promise<string | undefined>>();
    const [nowhere, nothing] = [join(directory, "nowhere"), join(directory, "nothing")];
    await mkdir(nothing);
    await Promise.all([writeFile(nowhere, ""), writeFile(join(nothing, "deployment.yaml"), "deployments: []\n")]);

    async function fetchFrom(url: string, key: RepoKey, to: string, signal: AbortSignal): Promise<boolean> {
      const name = repoKeyText(key);
      const from = performance.now();
      const { artifact, error } = await ask(url, name, signal);
      if (error !== undefined) throw new Error(`the client reports: ${shorten(error)}`);
      if (artifact === undefined) return false;
      if (artifact.length > limits.archiveBytes) throw new ArchiveError(`it has ${artifact.length} bytes`);
      await mkdir(to);
      const { unpackedBytes: bytes, entries } = limits;
      await untarGz(Readable.from([artifact]), to, { bytes, entries }, signal);
      log.info({ repo: name, bytes: artifact.length, ms: Math.round(performance.now() - from) }, "source overridden");
      return true;
    }

    /** Tries the clients whose overrides match, and returns the directory of the first that has the repository. */
    async function fetchAny(key: RepoKey, timeoutMs: number, signal: AbortSignal): Promise<string | undefined> {
      const to = join(directory, String(found.size));
      const inTime = withTimeout(Math.max(1, Math.min(timeoutMs, limits.answerMs)), signal);
      const urls = new Set(overrides.filter((override) => matchesOverride(override, key)).map(({ url }) => url));
      for (const url of urls) {
        try {
          if (await inFlight.run(() => fetchFrom(url, key, to, inTime), { signal: inTime })) return to;
        } catch (cause) {
          signal.throwIfAborted();
          const where = url.replace(/\/[^/]*$/, ""); // the rest is the client's id, which is enough to request its files
          const why = inTime.aborted ? "no response in time" : (cause as Error).message;
          throw new PrepareError(`spec.sourceOverrides: could not get ${repoKeyText(key)} from ${where}: ${why}`, {
            cause,
          });
        }
      }
      return undefined;
    }

    function find(key: RepoKey, timeoutMs: number, signal: AbortSignal): Promise<string | undefined> {
      const name = repoKeyText(key);
      const known = found.get(name) ?? fetchAny(key, timeoutMs, signal);
      found.set(name, known);
      return known;
    }

    return {
      nowhere,
      nothing,
      find,
      async checkout(key, path, timeoutMs, signal): Promise<Checkout | undefined> {
        const root = await find(key, timeoutMs, signal);
        if (root === undefined) return undefined;
        const projectDir = join(root, path);
        const inside = !path.split("/").includes("..");
        if (!inside || !(await stat(projectDir).catch(() => undefined))?.isDirectory()) {
          throw new PrepareError(
            `spec.source: the override of ${repoKeyText(key)} has no directory ${JSON.stringify(path)}`,
          );
        }
        if (path !== "") await markRoot(root);
        return { root, projectDir, commit: "", release: () => Promise.resolve() };
      },
      async release() {
        await Promise.allSettled(found.values());
        await removeDirectory(directory).catch((err: unknown) => log.warn({ err }, "could not remove overrides"));
      },
    };
  }

  return {
    open,
    async sweep() {
      await work.sweep();
    },
  };
}

/** Limits the length of an error that comes from the client. */
function shorten(text: string): string {
  return text.length > 1_000 ? `${text.slice(0, 1_000)} …` : text;
}
