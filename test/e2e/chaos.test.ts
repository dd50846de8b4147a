/**
 * Two fixed, short episodes of `npm run chaos`, without outages that last minutes. test/unit/chaos/short-episodes.test.ts says what
 * they contain.
 */
import { expect, test } from "vitest";
import { playEpisode } from "../../dev/chaos/episode.ts";
import { findTools } from "../../dev/tools.ts";
import { shortEpisodes } from "../support/short-episodes.ts";
import { useCluster, useGitea, useTempDir } from "../support/world.ts";

const root = process.cwd();

test.each(shortEpisodes)(
  "no push is lost in episode $episode of seed $seed",
  async ({ seed, episode }) => {
    const [{ kubeconfig }, dir, tools] = await Promise.all([
      useCluster(),
      useTempDir(),
      findTools(["redis-server"], { say: () => undefined }),
    ]);
    const report = await playEpisode({
      seed,
      episode,
      replay: "npm test -- test/e2e/chaos.test.ts",
      dir,
      kubeconfig,
      redisServer: tools["redis-server"],
      versions: [{ dir: root, auditsSkips: true, adapts: true, confines: true }],
      findGitea: async () => (await useGitea()).login,
      isShort: true,
    });
    const { violations, broken, deploys, faults } = report ?? expect.fail("the episode was aborted");
    expect(broken).toBeUndefined();
    expect(violations).toEqual([]);
    expect(faults.length).toBeGreaterThan(0); // on a busy machine, not all of them find their moment
    expect(deploys).toBeGreaterThan(10); // the initial deploys alone are about ten
  },
  600_000,
);
