/**
 * Sample deliveries of git hosts: GitHub's published examples, deliveries recorded from a Gitea, and GitLab's
 * documented ones.
 */
import { createHmac } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

export type ForgeKind = "github" | "gitlab" | "gitea";

export interface Sample {
  readonly kind: ForgeKind;
  /** The host's name of the event. */
  readonly event: string;
  readonly payload: unknown;
}

export const secrets: Readonly<Record<ForgeKind, string>> = {
  github: "the-fuzz-secret-of-github",
  gitlab: "the-fuzz-token-of-gitlab",
  gitea: "the-fuzz-secret-of-gitea",
};

/** Names and values alternate. */
export type RawHeaders = readonly string[];

/** Returns the headers that authenticate a body and name its event. */
export function headersOf({ kind, event }: Pick<Sample, "kind" | "event">, body: Buffer, id: string): string[] {
  const signature = () => createHmac("sha256", secrets[kind]).update(body).digest("hex");
  const type = ["Content-Type", "application/json"];
  switch (kind) {
    case "github":
      return [
        ...[...type, "X-GitHub-Event", event, "X-GitHub-Delivery", id],
        ...["X-Hub-Signature-256", `sha256=${signature()}`],
      ];
    case "gitlab":
      return [...type, "X-Gitlab-Event", event, "X-Gitlab-Event-UUID", id, "X-Gitlab-Token", secrets.gitlab];
    case "gitea":
      return [...type, "X-Gitea-Event", event, "X-Gitea-Delivery", id, "X-Gitea-Signature", signature()];
  }
}

export function readCorpus(): Sample[] {
  return [...githubSamples(), ...giteaSamples(), ...gitlabSamples];
}

type Example = { readonly name: string; readonly examples: readonly unknown[] };

function githubSamples(): Sample[] {
  const examples = createRequire(import.meta.url)("@octokit/webhooks-examples") as readonly Example[];
  return examples.flatMap(({ name, examples }) =>
    examples.map((payload) => ({ kind: "github" as const, event: name, payload })),
  );
}

function giteaSamples(): Sample[] {
  const directory = join(import.meta.dirname, "../../test/fixtures/deliveries/gitea");
  return readdirSync(directory).flatMap((file) => {
    const { rawHeaders, body } = JSON.parse(readFileSync(join(directory, file), "utf8")) as {
      readonly rawHeaders: RawHeaders;
      readonly body: string;
    };
    const event = rawHeaders[rawHeaders.indexOf("X-Gitea-Event") + 1] ?? "push";
    return body.startsWith("{") ? [{ kind: "gitea" as const, event, payload: JSON.parse(body) as unknown }] : [];
  });
}

const project = {
  id: 15,
  path_with_namespace: "group/shop",
  default_branch: "main",
  web_url: "https://gitlab.example.com/group/shop",
  git_http_url: "https://gitlab.example.com/group/shop.git",
  git_ssh_url: "git@gitlab.example.com:group/shop.git",
};
const [before, after] = ["95790bf891e76fee5e1747ab589903a6a1f80f22", "da1560886d4f094c3e6c9ef40349f7d38b5d27d7"];
const push = {
  object_kind: "push",
  event_name: "push",
  ...{ before, after, ref: "refs/heads/main", checkout_sha: after, project },
  commits: [
    { id: after, message: "Raise frontend", added: ["shop/new.yaml"], modified: ["shop/app.yaml"], removed: [] },
  ],
  ...{ total_commits_count: 1, user_username: "example", push_options: {} },
};
const tag = {
  object_kind: "tag_push",
  event_name: "tag_push",
  ref: "refs/tags/v1",
  before: "0".repeat(40),
  commits: [],
};
const mergeRequest = {
  object_kind: "merge_request",
  event_type: "merge_request",
  project,
  object_attributes: {
    ...{ id: 99, iid: 7, action: "open", state: "opened", draft: false, title: "Raise frontend" },
    ...{ target_branch: "main", source_branch: "feature", source_project_id: 15, target_project_id: 15 },
    last_commit: { id: after, message: "More" },
  },
  changes: { title: { previous: "Draft: Raise frontend", current: "Raise frontend" } },
};

const gitlabSamples: readonly Sample[] = [
  { kind: "gitlab", event: "Push Hook", payload: push },
  { kind: "gitlab", event: "Tag Push Hook", payload: { ...push, ...tag } },
  { kind: "gitlab", event: "Merge Request Hook", payload: mergeRequest },
  {
    kind: "gitlab",
    event: "System Hook",
    payload: { event_name: "project_create", path_with_namespace: "group/shop" },
  },
];
