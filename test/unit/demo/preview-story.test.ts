import { expect, onTestFinished, test, vi } from "vitest";
import { createPreviewStories, type PreviewStory } from "../../../dev/demo/preview-story.ts";
import type { LogLine } from "../../../dev/demo/server.ts";
import type { GiteaClient, GiteaRepository } from "../../../dev/parts/gitea-client.ts";
import { patience } from "../../support/patience.ts";

const head = "a".repeat(40);
const subject = { pullRequest: "gitea:example/shop#1" };

/** A git host with one pull request, and a server whose log the test writes. */
function useStories() {
  const comments: { id: number; html_url: string; body: string; user: { login: string } }[] = [];
  const statuses: { context: string; status: string; description: string }[] = [];
  const listeners = new Set<(line: LogLine) => void>();
  const call = async (_method: string, path: string) => {
    if (path.endsWith("/comments")) return comments;
    return path.endsWith("/status") ? { statuses } : { head: { sha: head } };
  };
  const repository: GiteaRepository = { owner: "example", name: "shop", cloneUrl: "", pushUrl: "" };
  const reporter = { url: "http://gitea", user: "towline", token: "" };
  const shop = { host: { call } as unknown as GiteaClient, repository, reporter };
  const onLine = (listener: (line: LogLine) => void) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  const heard: PreviewStory[] = [];
  onTestFinished(createPreviewStories({ server: { onLine }, shop }).onEvent((story) => heard.push(story)));
  onTestFinished(() => heard.forEach((story) => story.end()));
  const write = (msg: string, fields: object, at = Date.now()) => {
    for (const listener of listeners) listener({ at, msg, ...fields });
  };
  return {
    comments,
    statuses,
    heard,
    write,
    async accept(): Promise<PreviewStory> {
      write("pull-request accepted", { forge: "gitea", repo: "example/shop", number: 1, previews: 1, ms: 3 });
      const story = heard.at(-1);
      if (story === undefined) throw new Error("nothing was heard");
      return story;
    },
    comment(body: string, login = "towline") {
      comments.splice(0, comments.length, { id: 2, html_url: "http://gitea/1#2", body, user: { login } });
    },
  };
}

function told({ steps }: PreviewStory): string[] {
  return steps.toSorted((a, b) => a.at - b.at).map(({ what, detail }) => `${what}: ${detail}`);
}

test("the story of a preview runs from the webhook to the comment and the statuses", async () => {
  const { accept, write, comment, statuses } = useStories();
  const story = await accept();
  expect(story.missing()).toHaveLength(1);
  const at = Date.now();
  write("preview compared", { ...subject, namespace: "shop", name: "staging", ms: 400 }, at + 500);
  write("previewed", { ...subject, base: "b".repeat(40) }, at + 501);
  comment("### Towline: merging changes 1 deployment");
  statuses.push({ context: "towline", status: "success", description: "changes 1 deployment" });
  write("reported", { ...subject, head, state: "done" }, at + 60_000);
  await vi.waitFor(() => expect(story.missing()).toEqual([]), patience);
  const steps = new Set(told(story));
  expect(steps).toContain("merged: aaaaaaa into main bbbbbbb, on the side");
  expect(steps).toContain("compared: shop/staging with the live cluster");
  expect(steps).toContain("comment posted: http://gitea/1#2");
  expect(steps).toContain("status: towline: success, changes 1 deployment");
  expect(story.steps.find(({ what }) => what === "merged")?.at).toBe(at + 100);
});

test("without webhooks, the story begins when the server finds the pull request", () => {
  const { heard, write } = useStories();
  write("found pull requests without a webhook", { pullRequests: ["gitea:example/other#3"] });
  expect(heard).toEqual([]);
  write("found pull requests without a webhook", { pullRequests: ["gitea:example/other#3", "gitea:example/shop#1"] });
  expect(heard.map(told)).toEqual([["found: by asking the git host", "queued: preview of pull request 1"]]);
});

test("a comment on work in progress that is only read after the merge was logged is a step, too", async () => {
  const { accept, write, comment } = useStories();
  const story = await accept();
  write("preview compared", { ...subject, namespace: "shop", name: "staging", ms: 400 });
  write("previewed", { ...subject, base: "b".repeat(40) });
  await vi.waitFor(() => expect(told(story).join()).toContain("merged"), patience);
  comment("### Towline: comparing 1 deployment with the live cluster …");
  await vi.waitFor(() => expect(told(story).join()).toContain("comment posted: http://gitea/1#2  comparing"), patience);
});

test("an edited comment is reported as the same one, and other users' comments are not reported", async () => {
  const { accept, write, comment } = useStories();
  comment("Looks good", "ada");
  const first = await accept();
  comment("### Towline: comparing 1 deployment with the live cluster …");
  await vi.waitFor(() => expect(first.comment()?.body).toContain("comparing"), patience);
  write("previewed", { ...subject, obstacle: "conflict" });
  await vi.waitFor(() => expect(told(first)).toContain("not compared: conflict"), patience);
  first.end();

  const second = await accept();
  comment("### Towline: merged into `main`");
  write("reported", { ...subject, head, state: "merged" });
  await vi.waitFor(() => expect(second.missing()).toEqual([]), patience);
  expect(told(second)).toContain("comment changed: the same one (id 2): merged into `main`");
});

test("deployments that could not be compared are reported with the reason, beside those that could", async () => {
  const { accept, write } = useStories();
  const failed = {
    ...subject,
    namespace: "shop",
    name: "prod",
    error: "deploy.yml:14: no such variable\n  in template",
  };
  const none = await accept();
  write("preview failed", failed);
  write("previewed", { ...subject, base: "b".repeat(40), failed: 1 });
  await vi.waitFor(
    () => expect(told(none)).toContain("not compared: shop/prod: deploy.yml:14: no such variable"),
    patience,
  );
  expect(told(none).filter((step) => step.includes("compared"))).toHaveLength(1);
  none.end();

  const some = await accept();
  write("preview failed", failed);
  write("preview compared", { ...subject, namespace: "shop", name: "staging", ms: 400 });
  write("previewed", { ...subject, base: "b".repeat(40), failed: 1 });
  await vi.waitFor(
    () => expect(told(some)).toContain("not compared: shop/prod: deploy.yml:14: no such variable"),
    patience,
  );
  expect(told(some)).toContain("compared: shop/staging with the live cluster");
});

test("a pull request that affects no deployment is reported as such", async () => {
  const { accept, write } = useStories();
  const story = await accept();
  write("previewed", { ...subject, previews: 0 });
  await vi.waitFor(() => expect(told(story)).toContain("not compared: it affects no deployment"), patience);
});

test("an event that triggers no preview is not reported", () => {
  const { heard, write } = useStories();
  write("pull-request accepted", { forge: "gitea", repo: "example/shop", number: 1, reason: "nothing changed" });
  write("pull-request accepted", { forge: "gitea", repo: "example/other", number: 1, previews: 1 });
  expect(heard).toEqual([]);
});

test("a forge that rejects the comment ends the story", async () => {
  const { accept, write } = useStories();
  const story = await accept();
  write("forge rejected the report", { ...subject, error: "403" });
  expect(() => story.missing()).toThrow("forge rejected the report: 403");
});
