import { expect, test } from "vitest";
import { PrepareError } from "../../../src/errors.ts";
import type { LocalOverride, OfferedSources, RepoKey, Run, SourceOverride } from "../../../src/model.ts";
import type { Kluctl } from "../../../src/ports.ts";
import { withOverrides } from "../../../src/reconcile/overriding.ts";
import { matchesOverride, parseRepoKey, repoKeyText, toRepoKey } from "../../../src/model/repo-key.ts";
import { aResult } from "../../support/deployments.ts";
import { fakeKluctl } from "../../support/fakes.ts";

const signal = new AbortController().signal;
const key = (text: string) => parseRepoKey(text) as RepoKey;
const override = (text: string, isGroup = false): SourceOverride => ({ repoKey: key(text), isGroup, url: "grpc" });
const run = { timeoutMs: 60_000 } as Run;
const options = { forceApply: false, replaceOnError: false, forceReplaceOnError: false };

/** Clients that offer a directory for each of these repositories. */
function offering(...names: string[]) {
  const asked: string[] = [];
  const offered: Pick<OfferedSources, "find" | "nowhere" | "nothing"> = {
    nowhere: "/nowhere",
    nothing: "/nothing",
    find(repo) {
      const name = repoKeyText(repo);
      asked.push(name);
      return Promise.resolve(names.includes(name) ? `/offered/${name}` : undefined);
    },
  };
  return { ...offered, asked };
}

/** A kluctl whose project includes these repositories. Like the real one, it stops at the first that it cannot load. */
function including(...names: string[]) {
  const fake = fakeKluctl();
  /** For each finished command, the source that it used for each repository. */
  const taken: Record<string, string>[] = [];
  function load(command: string, { localOverrides = [] }: Run): Record<string, string> {
    const found: Record<string, string> = {};
    for (const name of names) {
      const fits = (one: LocalOverride) => matchesOverride(one, key(name));
      const path = [...localOverrides.filter((o) => !o.isGroup), ...localOverrides.filter((o) => o.isGroup)].find(
        fits,
      )?.path;
      if (path === "/nowhere") {
        throw new PrepareError(
          `failed to load includes for x: can not override repo ${name}. /nowhere is not a directory`,
        );
      }
      found[name] = path ?? "fetched";
    }
    return { command, ...found };
  }
  const answer = (command: string) => async (its: Run) => {
    await Promise.resolve();
    taken.push(load(command, its));
    return aResult();
  };
  const kluctl: Kluctl = { ...fake, diff: answer("diff"), deploy: answer("deploy") };
  return { kluctl, taken };
}

const [a, b, c] = ["git://h/org/a", "git://h/org/b", "oci://r:5000/org/c"] as const;
const clock = { now: () => 0 };

test("a client is asked once for each repository that the project includes, and for nothing else", async () => {
  const { kluctl, taken } = including(a, "git://h/other/x", c);
  const offered = offering(a, b, c);
  const ours = withOverrides(kluctl, [override(a), override(b), override("oci://r:5000/org", true)], offered, clock);
  await ours.diff(run, options, signal);
  await ours.diff(run, options, signal);
  const all = { command: "diff", [a]: `/offered/${a}`, "git://h/other/x": "fetched", [c]: `/offered/${c}` };
  expect(taken).toEqual([all, all]);
  expect(offered.asked).toEqual([a, c]);
});

test("a repository that the client does not have is loaded from its usual source", async () => {
  const { kluctl, taken } = including(a, b);
  const offered = offering(b);
  await withOverrides(kluctl, [override(a), override(b)], offered, clock).diff(run, options, signal);
  expect(taken).toEqual([{ command: "diff", [a]: "fetched", [b]: `/offered/${b}` }]);
  expect(offered.asked).toEqual([a, b]);
});

test("all repositories of a group that the client has are loaded before the deploy, even if some are missing", async () => {
  const names = ["git://h/org/1", "git://h/org/2", "git://h/org/3", "git://h/org/4"] as const;
  const { kluctl, taken } = including(...names);
  const offered = offering(names[1], names[3]);
  const ours = withOverrides(kluctl, [override("git://h/org", true)], offered, clock);
  await ours.deploy(run, { ...options, dryRun: false, noWait: false, abortOnError: false }, signal);
  expect(offered.asked).toEqual(names);
  expect(taken.at(-1)).toEqual({
    command: "deploy",
    [names[0]]: "fetched",
    [names[1]]: `/offered/${names[1]}`,
    [names[2]]: "fetched",
    [names[3]]: `/offered/${names[3]}`,
  });
  expect(taken.filter(({ command }) => command === "deploy")).toHaveLength(1);
});

test("other failures stay unchanged", async () => {
  const { kluctl } = including(a);
  const failing: Kluctl = { ...kluctl, diff: () => Promise.reject(new PrepareError("target prod not found")) };
  const ours = withOverrides(failing, [override(a)], offering(a), clock);
  await expect(ours.diff(run, options, signal)).rejects.toThrow("target prod not found");
  const gone = { ...offering(), find: () => Promise.reject(new PrepareError("the client disconnected")) };
  await expect(withOverrides(kluctl, [override(a)], gone, clock).diff(run, options, signal)).rejects.toThrow(
    "the client disconnected",
  );
});

test("repositories have the names that kluctl gives them", () => {
  const names: [string, string | undefined][] = [
    ["https://GitHub.com/Org/Repo.git", "git://github.com/org/repo"],
    ["git@github.com:Org/repo", "git://github.com/org/repo"],
    ["ssh://git@host:22/a/b/", "git://host/a/b"],
    ["http://127.0.0.1:8080/a/b.git", "git://127.0.0.1:8080/a/b"],
    ["oci://Registry:5000/Org/art", "oci://Registry:5000/Org/art"],
    ["/some/where", undefined],
  ];
  for (const [url, name] of names) {
    const found = toRepoKey(url);
    expect(found && repoKeyText(found)).toBe(name);
  }
  expect(parseRepoKey("github.com/org/repo")).toEqual({ type: "git", host: "github.com", path: "org/repo" });
  expect(parseRepoKey("https://github.com/org")).toBeUndefined();
  expect(matchesOverride(override("git://h/org", true), key("git://h/org"))).toBe(false);
  expect(matchesOverride(override("git://h/org", true), key("git://h/organ/x"))).toBe(false);
  expect(matchesOverride(override("git://h/org", true), key("git://h/org/x/y"))).toBe(true);
});
