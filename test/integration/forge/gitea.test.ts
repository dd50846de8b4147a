import { afterAll, expect, test } from "vitest";
import { describeForge } from "../../support/forge-conformance.ts";
import { removeSharedInGitea, useGiteaHost, useSharedGiteaHost } from "../../support/gitea-host.ts";

afterAll(removeSharedInGitea);

describeForge("a real Gitea", useGiteaHost, useSharedGiteaHost);

test("a pull request can still be read after its branch or fork was deleted", async () => {
  const host = await useGiteaHost();
  const forge = await host.connect();
  const key = (number: number) => ({ forge: forge.id, repoName: host.repoName, number });
  interface Answer {
    readonly head: { readonly ref: string; readonly repo: { readonly full_name: string } };
  }
  const read = (number: number) => host.call<Answer>("GET", `/repos/${host.repoName}/pulls/${number}`);

  const merged = await host.openPullRequest();
  const { head } = await read(merged.number);
  await host.merge(merged.number);
  await host.call("DELETE", `/repos/${host.repoName}/branches/${head.ref}`);
  expect(await forge.pullRequest(key(merged.number))).toMatchObject({
    state: "merged",
    head: merged.head,
    fork: false,
  });

  const orphan = await host.openPullRequest({ fork: true });
  const fork = (await read(orphan.number)).head.repo.full_name;
  await host.call("DELETE", `/repos/${fork}`);
  // Gitea then closes the pull request.
  const closed = { state: "closed", head: orphan.head, fork: true };
  expect(await forge.pullRequest(key(orphan.number))).toMatchObject(closed);
});

test("with a read-only token, the error names the missing permission", async () => {
  const host = await useSharedGiteaHost();
  const { number, head } = await host.openPullRequest();
  const token = await host.readOnlyToken();
  const forge = await host.connect({ token });
  const key = { forge: forge.id, repoName: host.repoName, number };
  expect(await forge.pullRequest(key)).toMatchObject({ state: "open" });
  const needs = { problem: "unauthorized", message: expect.stringContaining("write:repository") as string };
  await expect(forge.createComment(key, "hello")).rejects.toMatchObject(needs);
  const commit = { forge: forge.id, repoName: host.repoName, commit: head };
  const status = { context: "towline", state: "success", description: "" } as const;
  await expect(forge.setStatus(commit, status)).rejects.toMatchObject(needs);
});
