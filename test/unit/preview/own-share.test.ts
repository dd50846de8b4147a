import { expect, test } from "vitest";
import { KilledError } from "../../../src/errors.ts";
import { withOwnShare } from "../../../src/preview/own-share.ts";

const { signal } = new AbortController();

function useShare(subject = "#7") {
  const parties: unknown[] = [];
  const limit = <T>(work: () => Promise<T>, options: { signal: AbortSignal; of?: readonly string[] }) => {
    parties.push(options.of);
    return work();
  };
  const deps = withOwnShare({ limit }, { forge: "github", repoName: "Org/Shop" }, subject);
  return { ...deps, parties };
}

test("comparisons count as those of the pull request and its repository, however that is spelled", async () => {
  const { limit, parties } = useShare();
  expect(await limit(async () => 42, { signal })).toBe(42);
  expect(parties).toEqual([["github org/shop", "#7"]]);
});

test("after a render that only waited, the other deployments of the pull request are not rendered, and say why", async () => {
  const { limit } = useShare();
  let renders = 0;
  const render = (error?: Error) =>
    limit(
      async () => {
        renders++;
        if (error) throw error;
      },
      { signal },
    );
  await expect(render(new KilledError("timeout", "it took too long"))).rejects.toThrow("it took too long");
  await render();
  await expect(render(new KilledError("idle", "the preview was ended"))).rejects.toThrow("the preview was ended");
  const refused = await render().catch((error: unknown) => error);
  expect(refused).toMatchObject({ why: "idle", message: "not rendered: in another deployment, the preview was ended" });
  expect(renders).toBe(3);
});
