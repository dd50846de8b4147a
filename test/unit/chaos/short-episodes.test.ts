/** The two episodes that `npm test` plays are to contain as much as possible, whatever a seed produces. */
import { expect, test } from "vitest";
import { drawEpisode } from "../../../dev/chaos/episode.ts";
import { shortEpisodes } from "../../support/short-episodes.ts";

const versions = [{ dir: "", auditsSkips: true, adapts: true, confines: true }];
const findGitea = () => Promise.reject(new Error("nothing is played"));

function draw(one: (typeof shortEpisodes)[number]) {
  const { scene, commands } = drawEpisode({ ...one, isShort: true, versions, findGitea });
  return { scene, words: commands.map(String) };
}

const [withPulls, withoutSweep] = [draw(shortEpisodes[0]), draw(shortEpisodes[1])];

test("neither lasts for minutes, and both end with two faults at one moment", () => {
  for (const { words } of [withPulls, withoutSweep]) {
    expect(words.at(-1)).toMatch(/fault: .+; fault: .+, until both are over$/);
    expect(words.join()).not.toContain("200 s");
  }
});

test("one has pull requests and ends no server, and Redis loses its data while the API server is away", () => {
  const { scene, words } = withPulls;
  expect(scene).toMatchObject({ keepsServers: true, sweeps: true });
  expect(words.filter((one) => /pull request|propose/.test(one)).length).toBeGreaterThanOrEqual(2);
  expect(words.at(-1)).toMatch(/Redis flushed .+ API away/);
});

test("the other one has no sweep, kills servers that start again, and deletes a deployment with its objects", () => {
  const { scene, words } = withoutSweep;
  expect(scene).toMatchObject({ keepsServers: false, sweeps: false });
  expect(words.join("\n")).toMatch(/fault: kill at .+ started again after/);
  expect(words.join("\n")).toContain("delete and create 9 again");
});
