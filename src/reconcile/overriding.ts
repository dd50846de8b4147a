/** Runs kluctl with local directories of clients in place of the sources that a project includes. */
import { PrepareError } from "../errors.ts";
import { around } from "../kit/around.ts";
import type { Checkout, DiffOptions, LocalOverride, OfferedSources, RepoKey, Run, SourceOverride } from "../model.ts";
import type { Clock, Kluctl } from "../ports.ts";
import { matchesOverride, parseRepoKey, repoKeyText, toRepoKey } from "../model/repo-key.ts";
import type { Work } from "./work.ts";

export interface Overriding {
  readonly kluctl: Kluctl;
  /** The client's directory for the deployment's own source. */
  checkout(): Promise<Checkout | undefined>;
  release(): Promise<void>;
}

/** Opens the overrides of a deployment for one reconciliation. Throws PrepareError. */
export async function openOverrides({ deployment, deps, signal, timeLeftMs }: Work): Promise<Overriding | undefined> {
  const { source, sourceOverrides } = deployment.spec;
  if (sourceOverrides.length === 0) return undefined;
  if (deps.overrides === undefined) {
    const how = "set sourceOverride.bindAddress (for kluctl's options, --source-override-bind-address)";
    throw new PrepareError(`spec.sourceOverrides: the source-override service of this server is disabled; ${how}`);
  }
  const offered = await deps.overrides.open(sourceOverrides);
  return {
    kluctl: withOverrides(deps.kluctl, sourceOverrides, offered, deps.clock),
    async checkout() {
      const key = toRepoKey(source.url);
      return key && offered.checkout(key, source.path, timeLeftMs(), signal);
    },
    release: () => offered.release(),
  };
}

type Wanted = Pick<SourceOverride, "repoKey" | "isGroup">;

const refusal = /can not override repo ((?:git|oci):\/\/\S+?)(?: with |\. )/;
const plainDiff: DiffOptions = { forceApply: false, replaceOnError: false, forceReplaceOnError: false };

/**
 * Which sources a project includes is only known when it is rendered, and only those are requested from clients:
 * packing and sending a directory takes time, and an unneeded one may be too large. So for each override kluctl gets a
 * path that is not a directory. It then fails before applying anything and names the repository; the client is asked
 * for it, and kluctl runs again.
 */
export function withOverrides(
  kluctl: Kluctl,
  overrides: readonly Wanted[],
  offered: Pick<OfferedSources, "find" | "nowhere" | "nothing">,
  clock: Clock,
): Kluctl {
  const directories = new Map<string, LocalOverride>();
  /** Repositories for which no client has a directory. */
  const missing = new Map<string, RepoKey>();
  /** Whether kluctl has met every source that the project includes, so that it no longer has to stop at any. */
  let explored = true;

  function localOverrides(exploring: boolean): LocalOverride[] {
    const gaps = [...missing.values()];
    const waiting = overrides.filter((override) => {
      if (!override.isGroup) return !missing.has(repoKeyText(override.repoKey));
      return exploring || !gaps.some((key) => matchesOverride(override, key));
    });
    return [
      ...directories.values(),
      ...(exploring ? gaps.map((repoKey) => ({ repoKey, isGroup: false, path: offered.nothing })) : []),
      ...waiting.map(({ repoKey, isGroup }) => ({ repoKey, isGroup, path: offered.nowhere })),
    ];
  }

  /** Whether running kluctl again may help. */
  async function learn(error: unknown, { timeoutMs }: Pick<Run, "timeoutMs">, signal: AbortSignal): Promise<boolean> {
    const name = error instanceof PrepareError ? refusal.exec(error.message)?.[1] : undefined;
    const key = name === undefined ? undefined : parseRepoKey(name);
    if (name === undefined || key === undefined || directories.has(name) || missing.has(name)) return false;
    const path = await offered.find(key, timeoutMs, signal);
    if (path !== undefined) directories.set(name, { repoKey: key, isGroup: false, path });
    else {
      missing.set(name, key);
      explored = !overrides.some((override) => override.isGroup && matchesOverride(override, key));
    }
    return true;
  }

  /**
   * If a repository of a group is missing, kluctl has to fetch it, and the group can no longer be used to make it stop
   * at the others. They are found by a comparison in which an empty project stands for each missing repository.
   */
  async function explore(run: Run, signal: AbortSignal): Promise<void> {
    while (!explored) {
      explored = true;
      try {
        await kluctl.diff({ ...run, localOverrides: localOverrides(true) }, plainDiff, signal);
      } catch (error) {
        if (await learn(error, run, signal)) explored = false;
        else if (!(error instanceof PrepareError)) throw error;
      }
    }
  }

  async function trying<Result>(
    whole: Run,
    signal: AbortSignal,
    command: (run: Run) => Promise<Result>,
  ): Promise<Result> {
    const endsAt = clock.now() + whole.timeoutMs;
    for (;;) {
      const run = { ...whole, timeoutMs: Math.max(endsAt - clock.now(), 1_000) };
      await explore(run, signal);
      try {
        return await command({ ...run, localOverrides: localOverrides(false) });
      } catch (error) {
        if (!(await learn(error, run, signal))) throw error;
      }
    }
  }

  return around<Kluctl>(kluctl, {
    diff: (next, run, options, signal) => trying(run, signal, (ours) => next(ours, options, signal)),
    deploy: (next, run, options, signal) => trying(run, signal, (ours) => next(ours, options, signal)),
    pokeImages: (next, run, options, signal) => trying(run, signal, (ours) => next(ours, options, signal)),
    validate: (next, run, signal) => trying(run, signal, (ours) => next(ours, signal)),
  });
}
