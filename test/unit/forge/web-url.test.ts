import { expect, test } from "vitest";
import { withWebUrl } from "../../../src/forge/web-url.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { fakeForge } from "../../support/fake-forge.ts";

const key = { forge: "gitea", repoName: "org/shop", number: 7 };
const inside = "http://gitea.git.svc:3000";
const webUrl = "https://git.example.com/code/";

function setUp() {
  const forge = fakeForge({ host: "gitea.git.svc:3000" });
  forge.put(7, { url: `${inside}/org/shop/pulls/7`, repoUrls: [`${inside}/org/shop.git`] });
  return { forge, known: withWebUrl(forge, { apiUrl: `${inside}/api/v1`, webUrl }) };
}

test("a pull request is found by the URL that deployments use, and linked with the public URL", async () => {
  const { forge, known } = setUp();
  const pullRequest = await known.pullRequest(key);
  expect(pullRequest?.url).toBe("https://git.example.com/code/org/shop/pulls/7");
  expect(pullRequest?.repoUrls.map(repoId)).toContain(repoId("https://git.example.com/code/org/shop.git"));
  expect((await known.openPullRequests("org/shop")).map(({ url }) => url)).toEqual([pullRequest?.url]);
  forge.put(7, { state: "closed" });
  expect((await known.closedPullRequests("org/shop", 0)).map(({ url }) => url)).toEqual([pullRequest?.url]);
});

test("a repository is found by its public URL, also over ssh, and still by the internal one", () => {
  const { known } = setUp();
  for (const url of ["https://git.example.com/code/org/shop.git", "git@git.example.com:org/shop.git"]) {
    expect(known.repoName(repoId(url)!)).toBe("org/shop");
  }
  expect(known.repoName(repoId("https://elsewhere.example.com/org/shop")!)).toBeUndefined();
});

test("comments have public URLs", async () => {
  const { forge, known } = setUp();
  forge.createComment = () => Promise.resolve({ id: "1", body: "a", url: `${inside}/org/shop/pulls/7#comment-1` });
  expect((await known.createComment(key, "a")).url).toBe("https://git.example.com/code/org/shop/pulls/7#comment-1");
});

test("a missing pull request or comment stays missing", async () => {
  const { known } = setUp();
  expect(await known.pullRequest({ ...key, number: 8 })).toBeUndefined();
  expect(await known.updateComment(key, "1", "a")).toBeUndefined();
});
