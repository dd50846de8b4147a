import fc from "fast-check";
import { expect, test } from "vitest";
import { aStory } from "../../../dev/chaos/commands/story.ts";
import type { Traits } from "../../../dev/chaos/orders.ts";
import { createPlan } from "../../../dev/chaos/projects.ts";

const count = 100;

/** The commands of some episodes in words. */
function stories(traits: Partial<Traits>): string[][] {
  const usual = { isShort: false, replaces: false, proposes: false, keepsServers: false, isReal: false };
  const story = aStory({ ...usual, ...traits });
  return fc.sample(story, { numRuns: count, seed: 1 }).map((commands) => commands.map(String));
}

const endsServer = /fault: (?:kill|kill and flush|terminate) (?:at|of)|killed while delivered|^replace /;
const strikesTwice = /fault: .+; fault: /;

test("in an episode that keeps its servers, nothing ends or starts one", () => {
  expect(
    stories({ keepsServers: true, proposes: true })
      .flat()
      .filter((words) => endsServer.test(words)),
  ).toEqual([]);
});

test("in other episodes, servers end and start", () => {
  const withEnds = stories({}).filter((story) => story.some((words) => endsServer.test(words)));
  expect(withEnds.length).toBeGreaterThan(count / 2);
});

test("servers are killed for good in few of the stories, and start again after one to five seconds in the others", () => {
  const kills = stories({})
    .flat()
    .flatMap((words) => [
      ...words.matchAll(/fault: (?:kill|kill and flush) (?:at \w+|of r\d)[^;]*?(for good|after [\d.]+ s)/g),
    ]);
  const times = kills.flatMap(([, how = ""]) => (how === "for good" ? [] : [Number(how.split(" ")[1])]));
  expect(times.length).toBeGreaterThan(kills.length / 2);
  expect(times.length).toBeLessThan(kills.length);
  expect(Math.min(...times)).toBeGreaterThanOrEqual(1);
  expect(Math.max(...times)).toBeLessThanOrEqual(5);
  expect(new Set(times).size).toBeGreaterThan(count);
});

test("in most episodes, two faults strike at one moment", () => {
  const withPairs = stories({}).filter((story) => story.some((words) => strikesTwice.test(words)));
  expect(withPairs.length).toBeGreaterThan(count / 2);
});

test("two faults at one moment are of different kinds, in many combinations and at each moment of a deploy", () => {
  const pairs = stories({ proposes: true })
    .flat()
    .filter((words) => strikesTwice.test(words))
    .map((words) => [...words.matchAll(/fault: (.+?) at (\w+)/g)].map(([, name, moment]) => ({ name, moment })));
  for (const [first, second] of pairs) {
    expect(first?.name).not.toBe(second?.name);
    expect(first?.moment).toBe(second?.moment);
  }
  expect(new Set(pairs.map((pair) => pair.map(({ name }) => name).join())).size).toBeGreaterThan(count / 2);
  const moments = new Set(pairs.map(([first]) => first?.moment));
  expect([...moments].toSorted()).toEqual(["end", "patched1", "patched2", "rendered", "start", "writing"]);
});

test("in one of six episodes or more, Redis loses jobs while the API server is away, and no other command follows", () => {
  const isLossInOutage = (words = "") =>
    /Redis (?:flushed|lost|goes back)/.test(words) && /API (?:away|silent)/.test(words);
  const ends = stories({}).filter((story) => isLossInOutage(story.at(-1)));
  expect(ends.length).toBeGreaterThan(count / 6);
});

test("projects gain and lose objects, branches move while they are deleted, and users request as kluctl does", () => {
  const words = stories({}).flat().join("\n");
  for (const action of [
    /^push add object of/m,
    /^push remove object of/m,
    /^delete \d+'s branch \(delivered\), and make it again at another commit/m,
    /^delete \d+'s branch \(dropped\), and make it again as it was/m,
    /^delete and create 9 again/m,
    /^request deploy of \d+ as a dry run/m,
    /fault: end starter/,
  ])
    expect(words).toMatch(action);
});

test("the deployment that is deleted with its objects, and created again, is one with `delete`", () => {
  const { deployments } = createPlan("chaos", (repo) => repo);
  expect(deployments[9]?.spec["delete"]).toBe(true);
});

test("with the real kluctl, no fault waits for a moment that only the model reports", () => {
  const words = stories({ isReal: true }).flat().join("\n");
  expect(words).toMatch(/ at start/);
  expect(words).not.toMatch(/ at (?:patched|writing)|until an object/);
});
