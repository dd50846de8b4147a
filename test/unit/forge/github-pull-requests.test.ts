import { describe, expect, test } from "vitest";
import { createGithubSource } from "../../../src/forge/github/webhook.ts";
import { readHeaders } from "../../../src/forge/webhook-source.ts";
import { type Delivery, githubDeliveries, githubDelivery } from "../../support/deliveries.ts";

const recorded = githubDeliveries("pull_request");
const source = createGithubSource({ id: "github", secrets: [], allowUnsigned: true });

function parse({ rawHeaders, body }: Delivery) {
  const event = source.parse(readHeaders(rawHeaders), Buffer.from(body));
  if (event.kind !== "pull-request") throw new Error(`not a pull request but ${JSON.stringify(event)}`);
  return event;
}

interface Payload {
  action: string;
  pull_request: { head: { repo: unknown }; base: unknown };
}

/** The recorded delivery of that action, with a change. */
function changed(action: string, change: (payload: Payload & Record<string, unknown>) => void): Delivery {
  const delivery = recorded.find(({ body }) => (JSON.parse(body) as Payload).action === action);
  if (delivery === undefined) throw new Error(`no pull_request ${action} is recorded`);
  const payload = JSON.parse(delivery.body) as Payload & Record<string, unknown>;
  change(payload);
  return githubDelivery("pull_request", payload);
}

describe("actions that GitHub recorded", () => {
  test("every action is mapped to its meaning for a preview", () => {
    const told = new Map(recorded.map((delivery) => [(JSON.parse(delivery.body) as Payload).action, parse(delivery)]));
    expect(Object.fromEntries([...told].map(([action, event]) => [action, event.action]))).toEqual({
      opened: "opened",
      synchronize: "updated",
      reopened: "reopened",
      closed: "closed",
      converted_to_draft: "draft-changed",
      ready_for_review: "draft-changed",
      assigned: "other",
      unassigned: "other",
      labeled: "other",
      unlabeled: "other",
      locked: "other",
      unlocked: "other",
      review_requested: "other",
      review_request_removed: "other",
    });
    for (const event of told.values()) {
      expect(event).toMatchObject({ repoName: "Codertocat/Hello-World", number: 2, baseBranch: "master", fork: false });
      expect(event.head).toMatch(/^[0-9a-f]{40}$/);
    }
  });
});

describe("actions that GitHub documents and that were not recorded", () => {
  const edited = (changes: unknown) =>
    parse(changed("opened", (payload) => Object.assign(payload, { action: "edited", changes }))).action;

  test("only an edit of the base retargets the pull request", () => {
    expect(edited({ base: { ref: { from: "main" }, sha: { from: "1".repeat(40) } } })).toBe("retargeted");
    expect(edited({ base: { ref: { from: "main" } }, title: { from: "before" } })).toBe("retargeted");
    expect(edited({ title: { from: "before" } })).toBe("other");
    expect(edited({ body: { from: null } })).toBe("other");
    expect(edited({})).toBe("other");
    expect(edited(undefined)).toBe("other");
    expect(edited("nonsense")).toBe("other");
  });

  test.each(["auto_merge_enabled", "enqueued", "milestoned", "toString", "__proto__"])("%s has no effect", (action) => {
    expect(parse(changed("opened", (payload) => void (payload.action = action))).action).toBe("other");
  });

  test("a branch of another repository, or of a deleted one, counts as a fork", () => {
    const repos = [{ id: 4_711 }, null, undefined];
    for (const repo of repos) {
      expect(parse(changed("synchronize", ({ pull_request }) => void (pull_request.head.repo = repo))).fork).toBe(true);
    }
  });
});
