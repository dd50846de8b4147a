import { expect, test } from "vitest";
import { withWebUrl } from "../../../src/forge/web-url.ts";
import { repoId } from "../../../src/repo-url.ts";
import { fakeForge } from "../../support/fake-forge.ts";

const key = { forge: "gitea", repoName: "org/shop", number: 7 };
const inside = "http://gitea.git.svc:3000";
const webUrl = "https://git.example.com/code/";

function setUp() {
  const forge = fakeForge({ host: "gitea.git.svc:3000" });
  forge.put(7, { url: `${inside}/org/shop/pulls/7`, repoUrls: [`${inside}/org/shop.git`] });
  return { forge, known: withWebUrl(forge, { apiUrl: `${inside}/api/v1`, webUrl }) };
}

test("a pull request is found by the address that deployments know, and shown at the one that people open", async () => {
  const { forge, known } = setUp();
  const pullRequest = await known.pullRequest(key);
  expect(pullRequest?.url).toBe("https://git.example.com/code/org/shop/pulls/7");
  expect(pullRequest?.repoUrls.map(repoId)).toContain(repoId("https://git.example.com/code/org/shop.git"));
  expect((await known.openPullRequests("org/shop")).map(({ url }) => url)).toEqual([pullRequest?.url]);
  forge.put(7, { state: "closed" });
  expect((await known.closedPullRequests("org/shop", 0)).map(({ url }) => url)).toEqual([pullRequest?.url]);
});

test("a repository is known by its address outside, over ssh too, and still by the one inside", () => {
  const { known } = setUp();
  for (const url of ["https://git.example.com/code/org/shop.git", "git@git.example.com:org/shop.git"]) {
    expect(known.repoName(repoId(url)!)).toBe("org/shop");
  }
  expect(known.repoName(repoId("https://elsewhere.example.com/org/shop")!)).toBeUndefined();
});

test("comments have the address that people open", async () => {
  const { forge, known } = setUp();
  forge.createComment = () => Promise.resolve({ id: "1", body: "a", url: `${inside}/org/shop/pulls/7#comment-1` });
  expect((await known.createComment(key, "a")).url).toBe("https://git.example.com/code/org/shop/pulls/7#comment-1");
});

test("what is gone stays gone", async () => {
  const { known } = setUp();
  expect(await known.pullRequest({ ...key, number: 8 })).toBeUndefined();
  expect(await known.updateComment(key, "1", "a")).toBeUndefined();
});
