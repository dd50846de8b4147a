import { describe, expect, test } from "vitest";
import { PullRequestOf } from "../../../src/forge/gitea/answers.ts";
import { createWebhookSource } from "../../../src/forge/create-webhook-source.ts";
import { readHeaders } from "../../../src/forge/webhook-source.ts";
import type { ForgeKind, PushEvent } from "../../../src/model.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import {
  type Delivery,
  giteaDelivery,
  githubDeliveries,
  githubDelivery,
  githubEvents,
  githubMergeGroup,
  githubPayload,
  githubPush,
  githubQueuePush,
  githubRerun,
  gitlabDelivery,
  gitlabMergeRequest,
  gitlabPush,
  gitlabTagPush,
  replaceHeader,
  resignGitea,
} from "../../support/deliveries.ts";

function parse(kind: ForgeKind, { rawHeaders, body }: Delivery, appId?: string) {
  return createWebhookSource({ id: kind, kind, secrets: [], allowUnsigned: true, appId }).parse(
    readHeaders(rawHeaders),
    Buffer.from(body),
  );
}

function parsePush(kind: ForgeKind, delivery: Delivery): PushEvent {
  const event = parse(kind, delivery);
  if (event.kind !== "push") throw new Error(`not a push but ${JSON.stringify(event)}`);
  return event;
}

const commit = (...modified: string[]) => ({ added: [], removed: [], modified });

describe("GitHub", () => {
  test("a push to a branch is parsed", () => {
    expect(
      parse("github", githubPush({ ref: "refs/heads/feat/x", commits: [commit("a/b"), commit("c", "a/b")] })),
    ).toEqual({
      forge: "github",
      delivery: "72d3162e-cc78-11e3-81ab-4c9367dc0958",
      kind: "push",
      repoUrls: expect.arrayContaining([expect.stringMatching(/^https:.*\.git$/), expect.stringMatching(/^git@/)]),
      repoName: "Codertocat/Hello-World",
      defaultBranch: "master",
      sender: "Codertocat",
      ref: "refs/heads/feat/x",
      change: "updated",
      after: githubPayload()["after"],
      changed: { complete: true, paths: ["a/b", "c"] },
    });
  });

  test("all recorded pushes are parsed, and every spelling of a repository means the same one", () => {
    const events = githubDeliveries("push").map((delivery) => parsePush("github", delivery));
    expect(events.map(({ ref, change }) => `${ref} ${change}`).sort()).toEqual([
      ...Array<string>(2).fill("refs/heads/master created"),
      "refs/tags/simple-tag created",
      ...Array<string>(4).fill("refs/tags/simple-tag deleted"),
    ]);
    for (const event of events) {
      expect(new Set(event.repoUrls.map(repoId)).size).toBe(1);
      expect(event.changed.complete).toBe(false);
      expect(event.after === undefined).toBe(event.change === "deleted");
    }
  });

  test("a list of changed files is complete only if nothing suggests that files are missing", () => {
    const complete = (changes: object) => parsePush("github", githubPush({ ...changes })).changed.complete;
    expect(complete({ commits: [commit("a")] })).toBe(true);
    expect(complete({ commits: [commit("a")], forced: true })).toBe(false);
    expect(complete({ commits: [commit("a".repeat(500_001))] })).toBe(false);
    expect(complete({ commits: [commit("a")], before: "0".repeat(40) })).toBe(false);
    expect(complete({ commits: [commit("a")], after: "0".repeat(40) })).toBe(false);
    expect(complete({ commits: [commit("a")], before: githubPayload()["after"] })).toBe(false);
    expect(complete({ commits: Array(2_047).fill(commit("a")) })).toBe(true);
    expect(complete({ commits: Array(2_048).fill(commit("a")) })).toBe(false);
    expect(complete({ commits: [commit(...Array.from({ length: 2_999 }, (_, i) => `${i}`))] })).toBe(true);
    expect(complete({ commits: [commit(...Array.from({ length: 3_000 }, (_, i) => `${i}`))] })).toBe(false);
    expect(
      complete({
        commits: Array.from({ length: 6 }, (_, n) => commit(...Array.from({ length: 1_000 }, (_, i) => `${n}/${i}`))),
      }),
    ).toBe(false);
    expect(complete({ commits: "some" })).toBe(false);
    expect(complete({ commits: undefined })).toBe(false);
    expect(complete({ commits: [commit("a")], forced: "no" })).toBe(false);
  });

  test("an annotated tag counts as the commit it points to", () => {
    const tag = { ref: "refs/tags/v1", after: "1".repeat(40), head_commit: { id: "2".repeat(40) } };
    expect(parsePush("github", githubPush(tag)).after).toBe("2".repeat(40));
  });

  test("a form-encoded push means the same as the JSON one", () => {
    const { rawHeaders, body, name } = githubPush();
    const headers = replaceHeader(rawHeaders, "Content-Type", "application/x-www-form-urlencoded");
    const form = { name, rawHeaders: headers, body: new URLSearchParams({ payload: body }).toString() };
    expect(parse("github", form)).toEqual(parse("github", githubPush()));
    expect(parse("github", { ...form, body: "payload" })).toMatchObject({ reason: "the body is not JSON" });
  });

  test("every recorded pull request is parsed", () => {
    const events = githubDeliveries("pull_request").map((delivery) => parse("github", delivery));
    expect(new Set(events.map(({ kind }) => kind))).toEqual(new Set(["pull-request"]));
    const actions = new Set(events.map((event) => event.kind === "pull-request" && event.action));
    expect(actions).toContain("opened");
    expect(actions).toContain("updated");
    expect(actions).toContain("closed");
    expect(actions).toContain("draft-changed");
    expect(parse("github", githubDeliveries("pull_request")[0]!)).toMatchObject({
      number: 2,
      baseBranch: "master",
      fork: false,
    });
  });

  test("a retargeted pull request is distinguished from other edits, and a fork from the repository itself", () => {
    const [opened] = githubDeliveries("pull_request");
    const payload = JSON.parse(opened!.body);
    const edited = (changes: object) =>
      parse("github", githubDelivery("pull_request", { ...payload, action: "edited", changes }));
    expect(edited({ base: { ref: { from: "old" } } })).toMatchObject({ action: "retargeted" });
    expect(edited({ title: { from: "old" } })).toMatchObject({ action: "other" });
    const action = "constructor"; // a property that every JavaScript object has
    expect(parse("github", githubDelivery("pull_request", { ...payload, action }))).toMatchObject({ action: "other" });
    payload.pull_request.head.repo = null;
    expect(parse("github", githubDelivery("pull_request", payload))).toMatchObject({ fork: true });
  });

  describe("the button Re-run", () => {
    const repository = { name: "org/shop", url: "https://github.com/org/shop.git" };
    const commit = "c".repeat(40);
    const rerun = { kind: "rerun", repoName: "org/shop", commit };

    test.each(["check_run", "check_suite"] as const)("of a %s belongs to the App that wrote it", (event) => {
      const delivery = githubRerun(event, repository, { commit, app: { id: 42, client_id: "Iv1.abc" } });
      expect(parse("github", delivery, "42")).toMatchObject(rerun);
      expect(parse("github", delivery, "Iv1.abc")).toMatchObject(rerun);
      for (const another of ["43", "undefined", undefined]) {
        expect(parse("github", delivery, another)).toMatchObject({
          kind: "irrelevant",
          reason: expect.stringContaining("another App"),
        });
      }
    });

    test("an App without a client id is recognized by its id alone", () => {
      const delivery = githubRerun("check_run", repository, { commit, app: { id: 42 } });
      expect(parse("github", delivery, "42")).toMatchObject(rerun);
      expect(parse("github", delivery, "undefined")).toMatchObject({ kind: "irrelevant" });
    });

    test("is the only event of checks that matters, and one without a commit is ignored", () => {
      const others = ["check_run", "check_suite"].flatMap(githubDeliveries);
      const actions = others.filter(({ body }) => JSON.parse(body).action !== "rerequested");
      expect(actions.length).toBeGreaterThan(5);
      for (const delivery of actions) {
        const { check_run: run, check_suite: suite } = JSON.parse(delivery.body);
        expect(parse("github", delivery, String((run ?? suite).app.id))).toMatchObject({ kind: "irrelevant" });
      }
      const broken = githubRerun("check_run", repository, { commit: "main", app: { id: 42 } });
      expect(parse("github", broken, "42")).toMatchObject({ kind: "irrelevant" });
    });
  });

  test("a merge queue's group is the same in its own event and in the push to its branch", () => {
    const repository = { name: "org/shop", url: "https://github.com/org/shop.git" };
    const base = "b".repeat(40);
    const branch = `gh-readonly-queue/release/1.2/pr-104-${base}`;
    const group = { ref: `refs/heads/${branch}`, commit: "c".repeat(40), base };
    const made = {
      ...{
        forge: "github",
        delivery: "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        kind: "merge-group",
        repoName: "org/shop",
      },
      ...{ repoUrls: expect.arrayContaining([repository.url]), commit: group.commit, branch, base, ended: false },
    };
    expect(parse("github", githubMergeGroup("checks_requested", repository, group))).toEqual(made);
    expect(parse("github", githubQueuePush(repository, group))).toEqual(made);
    const ended = { ...made, ended: true };
    expect(parse("github", githubMergeGroup("destroyed", repository, group))).toEqual(ended);
    expect(parse("github", githubQueuePush(repository, group, true))).toEqual(ended);
    for (const recorded of githubDeliveries("merge_group")) {
      expect(parse("github", recorded)).toMatchObject({ kind: "merge-group", repoName: "octo-org/octo-repo" });
    }
  });

  test("a push to a merge queue branch never counts as a push that deployments follow, whatever the branch's name", () => {
    for (const ref of ["refs/heads/gh-readonly-queue/main/pr-1", "refs/heads/gh-readonly-queue/x"]) {
      expect(parse("github", githubPush({ ref }))).toMatchObject({ kind: "irrelevant" });
    }
    const [recorded] = githubDeliveries("merge_group");
    const payload = JSON.parse(recorded!.body);
    payload.merge_group.head_ref = "refs/heads/main";
    expect(parse("github", githubDelivery("merge_group", payload))).toMatchObject({
      kind: "irrelevant",
      reason: '"refs/heads/main" is not the name of a merge queue\'s branch',
    });
  });

  test("every other recorded event is ignored with a reason", () => {
    for (const name of githubEvents.filter(
      (event) => !["push", "pull_request", "merge_group", "ping"].includes(event),
    )) {
      for (const delivery of githubDeliveries(name)) {
        expect(parse("github", delivery)).toMatchObject({ kind: "irrelevant", reason: expect.stringContaining(name) });
      }
    }
    for (const delivery of githubDeliveries("ping")) expect(parse("github", delivery).kind).toBe("ping");
  });
});

describe("Gitea", () => {
  test("a push to a branch is parsed", () => {
    expect(parse("gitea", giteaDelivery("push-update"))).toEqual({
      forge: "gitea",
      delivery: expect.stringMatching(/^[0-9a-f-]{36}$/),
      kind: "push",
      repoUrls: [
        "http://git.example.com/example/shop.git",
        "root@git.example.com:example/shop.git",
        "http://git.example.com/example/shop",
      ],
      repoName: "example/shop",
      defaultBranch: "main",
      sender: "example",
      ref: "refs/heads/main",
      change: "updated",
      after: "59d1dd34529e3178a7b57180f2a98aff20e9d610",
      others: ["a42f572a4736e2a6b55d5c21d92fa41f453be721"],
      changed: { complete: true, paths: ["shop/with space é.yaml", "docs/readme.md", "shop/frontend.yaml"] },
    });
  });

  test.each([
    ["push-first", "refs/heads/main", "created", false],
    ["push-new-branch", "refs/heads/feature", "created", false],
    ["push-forced", "refs/heads/feature", "updated", true], // Gitea sends nothing that distinguishes it from an ordinary push
    ["push-60-commits", "refs/heads/main", "updated", false], // five of them are listed
    ["push-test-button", "refs/heads/main", "updated", false],
    ["push-annotated-tag", "refs/tags/v1", "created", false],
    ["push-tag-deleted", "refs/tags/light", "deleted", false],
    ["delete-tag", "refs/tags/light", "deleted", false],
    ["delete-branch", "refs/heads/feature", "deleted", false],
  ] as const)("%s is a change of %s", (name, ref, change, complete) => {
    expect(parsePush("gitea", giteaDelivery(name))).toMatchObject({ ref, change, changed: { complete } });
  });

  test("an annotated tag counts as the commit it points to", () => {
    expect(parsePush("gitea", giteaDelivery("push-annotated-tag")).after).toBe(
      "59d1dd34529e3178a7b57180f2a98aff20e9d610",
    );
  });

  test.each([
    ["pull-request-opened", "opened"],
    ["pull-request-synchronized", "updated"],
    ["pull-request-edited", "other"],
    ["pull-request-closed", "closed"],
    ["pull-request-reopened", "reopened"],
  ])("%s is a pull request that was %s", (name, action) => {
    expect(parse("gitea", giteaDelivery(name))).toMatchObject({
      kind: "pull-request",
      repoName: "example/shop",
      number: 1,
      action,
      baseBranch: "main",
      head: expect.stringMatching(/^[0-9a-f]{40}$/),
      fork: false,
    });
  });

  test.each([
    ["of Gitea", { label: "", ref: "refs/pull/1/head" }, {}],
    ["of Gitea, with a branch that a list made up", { label: "", ref: "somebody/topic" }, {}],
    ["of Forgejo", {}, { flow: 1 }],
    ["of an unknown kind", {}, { flow: "other" }],
    ["without a label", { label: undefined }, {}],
  ])("a pull request without a branch, %s, counts as a fork", (_what, head, more) => {
    const opened = giteaDelivery("pull-request-opened");
    const payload = JSON.parse(opened.body) as { pull_request: { head: object } };
    Object.assign(payload.pull_request, more);
    Object.assign(payload.pull_request.head, head);
    const delivery = resignGitea(opened, JSON.stringify(payload));
    expect(parse("gitea", delivery)).toMatchObject({ kind: "pull-request", fork: true });
    const toPullRequest = PullRequestOf("gitea");
    expect(toPullRequest.parse(payload.pull_request)).toMatchObject({ fork: true, agit: true });
    Object.assign(payload.pull_request, { flow: 0 });
    Object.assign(payload.pull_request.head, { label: "topic" });
    expect(toPullRequest.parse(payload.pull_request)).toMatchObject({ fork: false });
  });

  test("a pull request that gets another base is retargeted", () => {
    const edited = giteaDelivery("pull-request-edited");
    const payload = { ...JSON.parse(edited.body), changes: { ref: { from: "main" } } };
    expect(parse("gitea", resignGitea(edited, JSON.stringify(payload)))).toMatchObject({ action: "retargeted" });
  });

  test.each([
    ["draft-changed", "Raise frontend", { title: "WIP: Raise frontend", draft: true }],
    ["draft-changed", "WIP: Raise frontend", { title: "Raise frontend", draft: false }],
    ["draft-changed", "[wip] Raise frontend", { title: "Raise frontend", draft: undefined }],
    ["draft-changed", "Not yet! Raise frontend", { title: "Raise frontend", draft: false }],
    ["other", "WIP: Raise", { title: "WIP: Raise frontend", draft: true }],
    ["other", "Raise", { title: "Raise frontend", draft: false }],
    ["other", "Raise", { title: "Raise frontend", draft: undefined }],
  ])("an edited title is %s: from %j to %o", (action, from, changes) => {
    const edited = giteaDelivery("pull-request-edited");
    const payload = JSON.parse(edited.body);
    const pullRequest = { ...payload.pull_request, ...changes };
    const body = JSON.stringify({ ...payload, pull_request: pullRequest, changes: { title: { from } } });
    expect(parse("gitea", resignGitea(edited, body))).toMatchObject({ action });
  });

  test("create events repeat what push events contain, and issue events are ignored", () => {
    expect(parse("gitea", giteaDelivery("create-branch"))).toMatchObject({ kind: "irrelevant" });
    expect(parse("gitea", giteaDelivery("issues-opened"))).toMatchObject({
      kind: "irrelevant",
      reason: '"issues" events are ignored',
    });
  });
});

describe("GitLab", () => {
  test("a push to a branch is parsed", () => {
    expect(parse("gitlab", gitlabDelivery(gitlabPush()))).toEqual({
      forge: "gitlab",
      delivery: "f5e5f430-f57b-4e6e-9fac-d9128cd7232f",
      kind: "push",
      repoUrls: [
        "https://gitlab.example.com/group/shop.git",
        "git@gitlab.example.com:group/shop.git",
        "https://gitlab.example.com/group/shop",
      ],
      repoName: "group/shop",
      defaultBranch: "main",
      sender: "example",
      ref: "refs/heads/main",
      change: "updated",
      after: "da1560886d4f094c3e6c9ef40349f7d38b5d27d7",
      changed: { complete: true, paths: ["shop/new.yaml", "shop/app.yaml"] },
    });
  });

  test("a system hook's push, which has no object_kind, is parsed as well", () => {
    expect(parsePush("gitlab", gitlabDelivery(gitlabPush({ object_kind: undefined }))).ref).toBe("refs/heads/main");
  });

  test("a list of changed files is incomplete if the push has more commits than it lists", () => {
    const complete = (changes: object) =>
      parsePush("gitlab", gitlabDelivery(gitlabPush({ ...changes }))).changed.complete;
    expect(complete({ total_commits_count: 21 })).toBe(false);
    expect(complete({ total_commits_count: undefined })).toBe(false);
    expect(complete({ commits: null })).toBe(false);
  });

  test("a deleted branch and a tag are parsed", () => {
    const gone = gitlabPush({ after: "0".repeat(40), checkout_sha: null, commits: [], total_commits_count: 0 });
    expect(parsePush("gitlab", gitlabDelivery(gone))).toMatchObject({ change: "deleted", after: undefined });
    expect(parsePush("gitlab", gitlabDelivery(gitlabTagPush()))).toMatchObject({
      ref: "refs/tags/v1",
      change: "created",
      after: "da1560886d4f094c3e6c9ef40349f7d38b5d27d7",
    });
  });

  test.each([
    ["opened", { action: "open" }, {}],
    ["reopened", { action: "reopen" }, {}],
    ["updated", { action: "update", oldrev: "1".repeat(40) }, {}],
    ["retargeted", { action: "update" }, { target_branch: { previous: "main", current: "release" } }],
    ["draft-changed", { action: "update" }, { draft: { previous: true, current: false } }],
    ["draft-changed", { action: "update" }, { title: { previous: "Draft: a", current: "a" } }],
    ["draft-changed", { action: "update" }, { title: { previous: "a", current: "[Draft] a" } }],
    ["other", { action: "update" }, { title: { previous: "a", current: "b" } }],
    ["other", { action: "update" }, { title: { previous: "Draft: a", current: "Draft: b" } }],
    ["other", { action: "update" }, { labels: { previous: [], current: [{ id: 1 }] } }],
    ["other", { action: "update" }, {}],
    ["closed", { action: "merge" }, {}],
    ["closed", { action: "close" }, {}],
    ["other", { action: "approved" }, {}],
    ["other", { action: undefined }, {}],
  ])("a merge request is %s by %o %o", (action, attributes, changes) => {
    const event = parse("gitlab", gitlabDelivery(gitlabMergeRequest(attributes, changes)));
    expect(event).toMatchObject({ kind: "pull-request", number: 7, action, baseBranch: "main", fork: false });
  });

  test("a merge request from another project comes from a fork", () => {
    expect(parse("gitlab", gitlabDelivery(gitlabMergeRequest({ source_project_id: 16 })))).toMatchObject({
      fork: true,
    });
  });

  test("other events are ignored", () => {
    expect(parse("gitlab", gitlabDelivery({ object_kind: "pipeline" }))).toMatchObject({
      kind: "irrelevant",
      reason: '"pipeline" events are ignored',
    });
  });
});

describe("a payload that cannot be read", () => {
  test("is ignored with the name of the invalid field", () => {
    expect(parse("github", githubPush({ after: 7 }))).toMatchObject({
      kind: "irrelevant",
      reason: "the push payload cannot be read: after: Invalid input: expected string, received number",
    });
    expect(parse("gitlab", gitlabDelivery(gitlabPush({ project: {} })))).toMatchObject({
      reason: expect.stringContaining("project.path_with_namespace"),
    });
  });

  test.each(["refs/notes/commits", "main", "refs/heads/", "", "refs/pull/1/head"])(
    "a push to %j affects no deployment",
    (ref) => {
      expect(parse("github", githubPush({ ref }))).toMatchObject({ kind: "irrelevant" });
      expect(parse("gitlab", gitlabDelivery(gitlabPush({ ref })))).toMatchObject({ kind: "irrelevant" });
      const recorded = giteaDelivery("push-update");
      const payload = { ...JSON.parse(recorded.body), ref };
      expect(parse("gitea", { ...recorded, body: JSON.stringify(payload) })).toMatchObject({ kind: "irrelevant" });
    },
  );

  test("a delivery without a valid id gets the same id each time it arrives", () => {
    const { rawHeaders, body, name } = githubPush();
    const ids = [undefined, "", "with space", "x".repeat(200)].map(
      (id) => parse("github", { name, rawHeaders: replaceHeader(rawHeaders, "X-GitHub-Delivery", id), body }).delivery,
    );
    expect(new Set(ids).size).toBe(1);
    expect(ids[0]).toMatch(/^[0-9a-f]{32}$/);
  });
});
