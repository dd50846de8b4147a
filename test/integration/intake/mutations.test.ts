import fc from "fast-check";
import { expect, test } from "vitest";
import { createIntake } from "../../../src/intake/intake.ts";
import { match } from "../../../src/intake/match.ts";
import { annotation } from "../../../src/model.ts";
import { aDeployment } from "../../support/deployments.ts";
import {
  type Delivery,
  giteaDeliveries,
  githubDeliveries,
  githubDelivery,
  githubPush,
  gitlabDelivery,
  gitlabMergeRequest,
  gitlabPush,
  gitlabTagPush,
  resignGitea,
} from "../../support/deliveries.ts";
import { silentLog } from "../../support/fakes.ts";
import { useWebhooks } from "../../support/webhooks.ts";

/** Values that may replace any node of a payload. */
const replacements = fc.oneof(
  fc.constantFrom<unknown[]>(null, undefined, true, 0, -1, 1.5, 1e308, "", "x", [], {}, [null], [[]], { id: null }),
  fc.constantFrom(
    "0".repeat(40),
    "refs/heads/../../etc",
    "refs/heads/\u0000\n",
    "--upload-pack=id",
    "ext::sh -c id",
    "__proto__",
  ),
  fc.constantFrom(
    "https://%@git.example.com/x",
    "ssh://[::1",
    "git@:x",
    "https://git.example.com/%zz",
    "file:///etc/passwd",
  ),
  fc.string(),
  fc.string({ minLength: 5_000, maxLength: 6_000 }),
  fc.jsonValue(),
  fc.integer({ min: 1, max: 500 }).map((depth) => JSON.parse(`${"[".repeat(depth)}${"]".repeat(depth)}`) as unknown),
);

type Node = Record<string, unknown> | unknown[];

/** Every place in a payload: the node that contains it, and its key. */
function places(value: unknown): { holder: Node; key: string }[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.keys(value).flatMap((key) => [
    { holder: value as Node, key },
    ...places((value as Record<string, unknown>)[key]),
  ]);
}

interface Mutation {
  readonly at: number;
  readonly how: "drop" | "replace" | "wrap" | "rename";
  readonly replacement: unknown;
}

const mutations = fc.array(
  fc.record<Mutation>({
    at: fc.nat(),
    how: fc.constantFrom("drop", "replace", "replace", "wrap", "rename"),
    replacement: replacements,
  }),
  { minLength: 1, maxLength: 4 },
);

/** Half of the mutations go to fields that the parser reads: a payload has hundreds of others. */
function mutate(payload: unknown, all: readonly Mutation[]): unknown {
  const copy = structuredClone(payload);
  for (const { at, how, replacement } of all) {
    const every = places(copy);
    const read = every.filter(({ key }) => fields.test(key));
    const candidates = at % 2 === 0 && read.length > 0 ? read : every;
    const place = candidates[Math.floor(at / 2) % candidates.length];
    if (place === undefined) return copy;
    const holder = place.holder as Record<string, unknown>;
    const value = holder[place.key];
    if (how === "drop" || how === "rename") delete holder[place.key];
    if (how === "rename") holder[`${place.key}_`] = value;
    // A copy, because the next mutation may replace it or be inside it, and the same one may be inserted twice.
    if (how === "replace") holder[place.key] = structuredClone(replacement);
    if (how === "wrap") holder[place.key] = [{ [place.key]: value }];
  }
  return copy;
}

const fields =
  /^(ref|ref_type|before|after|created|deleted|forced|commits|added|modified|removed|\d+|total_commits|total_commits_count|head_commit|id|sha|checkout_sha|repository|project|full_name|path_with_namespace|default_branch|clone_url|ssh_url|git_url|html_url|git_http_url|git_ssh_url|web_url|action|number|iid|pull_request|object_attributes|object_kind|event_name|head|base|repo|repo_id|changes|last_commit|oldrev)$/;

const deployments = [
  "https://git.example.com/example/shop",
  "https://github.com/Codertocat/Hello-World",
  "https://gitlab.example.com/group/shop",
].flatMap((url) =>
  [{ branch: "main" }, { tag: "v1" }, {}].map((ref) =>
    aDeployment({ spec: { source: { url, ref, path: "shop" } }, annotations: { [annotation.paths]: "**/a*" } }),
  ),
);

const hosts: readonly {
  forge: string;
  recorded: readonly Delivery[];
  sign(delivery: Delivery, payload: unknown): Delivery;
}[] = [
  {
    forge: "github",
    recorded: [
      githubPush(),
      ...["push", "pull_request", "ping", "delete"].flatMap((event) => githubDeliveries(event).slice(0, 8)),
    ],
    sign: ({ name }, payload) => githubDelivery(name, payload ?? null),
  },
  {
    forge: "gitea",
    recorded: giteaDeliveries().filter(({ name }) => name !== "push-form-encoded"),
    sign: (delivery, payload) => resignGitea(delivery, JSON.stringify(payload ?? null)),
  },
  {
    forge: "gitlab",
    recorded: [gitlabPush(), gitlabTagPush(), gitlabMergeRequest()].map(gitlabDelivery),
    sign: (_, payload) => gitlabDelivery(payload ?? null),
  },
];

test.each(hosts)("a genuine delivery of $forge is accepted whatever it contains", async ({ forge, recorded, sign }) => {
  const accept = createIntake({
    tracking: () => deployments,
    including: () => [],
    queue: { enqueue: (requests) => Promise.resolve({ queued: requests.length }) },
    log: silentLog,
  });
  let pushes = 0;
  const { deliver } = await useWebhooks({
    accept(event) {
      if (event.kind === "push") {
        pushes++;
        match(event, deployments);
      }
      return accept(event);
    },
  });
  const payloads = recorded.map(({ body }) => JSON.parse(body) as unknown);
  await fc.assert(
    fc.asyncProperty(fc.nat(recorded.length - 1), mutations, async (which, all) => {
      const answer = await deliver(forge, sign(recorded[which]!, mutate(payloads[which], all)));
      expect(answer, JSON.stringify(answer.body)).toMatchObject({
        status: 202,
        body: { delivery: expect.any(String) },
      });
    }),
    { numRuns: 400 },
  );
  expect(pushes).toBeGreaterThan(20); // many pushes are still valid after their mutations
});

test("an unsigned request is rejected as unsigned whatever it contains", async () => {
  const { post, events } = await useWebhooks();
  const header = fc.constantFrom(
    "X-GitHub-Event",
    "X-Gitea-Event",
    "X-Gitlab-Event",
    "X-Hub-Signature-256",
    "Content-Type",
    "X-Gitlab-Token",
  );
  const value = fc.string({ unit: fc.constantFrom(..."abcdef0123456789=,;/ ") }).map((text) => text.trim());
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom("github", "gitlab", "gitea"),
      fc.array(fc.tuple(header, value), { maxLength: 4 }),
      fc.uint8Array({ maxLength: 200 }),
      async (forge, headers, bytes) => {
        expect((await post(`/webhooks/${forge}`, headers.flat(), Buffer.from(bytes))).status).toBe(401);
      },
    ),
    { numRuns: 300 },
  );
  expect(events).toEqual([]);
});
