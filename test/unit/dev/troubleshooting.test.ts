/** The error texts in docs/troubleshooting.md have to be those that users see. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fromMarkdown } from "mdast-util-from-markdown";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../../..");

/** Messages of kluctl, SOPS, Kubernetes or a policy of the chart that the program passes on. */
const ofOthers: readonly string[] = [
  '… is forbidden: User "system:serviceaccount:…"',
  '… is forbidden: User "system:serviceaccount:…" cannot …',
  'secrets "…" is forbidden: User "system:serviceaccount:…" cannot get …',
  "may only do dry runs",
  "Failed to get the data key required to decrypt the SOPS file",
  "at least one permission error was encountered while gathering objects by discriminator labels",
  "Failed to initialize source overrides",
  "Will not try to auto override local project source",
  "Auto-detecting …",
];

/** Texts that the page shows with example values, and the pieces of them that the sources contain. */
const pieces: Readonly<Record<string, readonly string[]>> = {
  "forges[0].webhookSecrets is empty: …": ['["forges", index, "webhookSecrets"]', "is empty: ${variable} or a file"],
  "No traces are sent although OTEL_EXPORTER_OTLP_ENDPOINT is set: install …": [
    "No traces are sent although OTEL_EXPORTER_OTLP_ENDPOINT is set: ${why}",
  ],
  "The header X-… is missing or empty: set the webhook's secret at the git host.": [
    "The header ${name} is missing or empty: set the webhook's secret at the git host.",
  ],
  "follows branch …, the push is to branch …": [
    "follows ${describeRef(source.ref)}, the push is to ${describePushed(event)}",
  ],
  "is pinned to commit …": ["is pinned to ${describeRef("],
  "the server that ran this deploy ended before it was done, …": [
    "the server that ran this ${kind} ended before it was done, ",
  ],
  'cannot read git.example.com/…: authentication failed (secret …, user "…")': [
    "cannot read ${label}: ${text}",
    "authentication failed",
  ],
  "cannot read registry.example/…: authentication failed: 401 Unauthorized (…)": [
    "cannot read ${asked.label}: ${text}",
    "authentication failed: 401 Unauthorized (${who})",
  ],
  "… is not supported: only http, https, ssh URLs are": ['is not supported: only ${protocols.join(", ")} URLs are'],
  "failed to get secret '…': it does not exist in namespace …, but spec.credentials.git of … references it": [
    "failed to get secret '${ref.secretName}': it does not exist in namespace ${key.namespace}, but ${where} references it",
  ],
  "KubeConfig secret … cannot be used: its … would run on the server to log in": [
    "KubeConfig secret '${name}' cannot be used: ",
    "would run on the server to log in",
  ],
  "kluctl diff was killed (…): out of memory, or by another process": [
    "${name} was killed (",
    "out of memory, or by another process",
  ],
  "the server is not allowed to impersonate system:serviceaccount:…": [
    "the server is not allowed to impersonate ${user}: ",
  ],
  "… of … deployed objects are no longer in the project. They are not pruned until the prune is confirmed": [
    "deployed objects are no longer in the project.",
    "${what} They are not pruned until the prune is confirmed",
  ],
  "this machine's clock is … s ahead of the API server's": [
    's ${aheadMs > 0 ? "ahead of" : "behind"} the API server\'s',
  ],
  "towline.dev/ready-expr is false": ["${annotation.readyExpr} is false"],
  "… cannot be evaluated: no such key": ["${annotation.readyExpr} cannot be evaluated: "],
  "`current` cannot be evaluated: no such key": ["cannot be evaluated: ${String(values["],
  "the thread for expressions took more than 5 s": [
    "the thread for ${purpose} ${what}",
    "took more than ${ms / 1_000} s",
  ],
  "runs …, 1 of 1 ready": ["runs ${image}, ${ready} of ${wanted} ready"],
  "would be deployed again: the hash of its objects is … here and … in the status": [
    "would be deployed again",
    "the hash of its objects is ${short(objectsHash)} here and ",
  ],
  "would be deployed: flux-kluctl-controller computes the hash …": [
    "would be deployed: ${why}",
    "flux-kluctl-controller computes the hash in its status differently",
  ],
};

interface MarkdownNode {
  readonly type: string;
  readonly value?: string;
  readonly children?: readonly MarkdownNode[];
}

test("every error text of the troubleshooting page exists in the sources", () => {
  const page = readFileSync(join(root, "docs/troubleshooting.md"), "utf8");
  const texts = quoted(fromMarkdown(page) as MarkdownNode);
  expect(texts.length).toBeGreaterThan(60);
  const sources = wordsOfSources();
  const lost = texts.filter((text) => !ofOthers.includes(text) && !occurs(text, sources));
  expect(lost, "nobody says this").toEqual([]);
  const listed = [...ofOthers, ...Object.keys(pieces)];
  expect(
    listed.filter((text) => !texts.includes(text)),
    "the page does not have this",
  ).toEqual([]);
});

/** The texts that entries begin with: code in bold. */
function quoted(node: MarkdownNode, isBold = false): string[] {
  if (node.type === "inlineCode") return isBold && node.value ? [node.value] : [];
  return (node.children ?? []).flatMap((child) => quoted(child, isBold || node.type === "strong"));
}

/**
 * True if the sources contain each part between the dots, in any order: the dots stand for values filled in at run
 * time.
 */
function occurs(text: string, sources: string): boolean {
  const given = pieces[text];
  if (given !== undefined) return given.every((piece) => sources.includes(piece));
  const parts = text
    .replaceAll(/\b401\b|\(N /g, "…")
    .replaceAll(/\s+/g, " ")
    .split("…")
    .map((part) => part.replaceAll(/^[^\p{L}]+|[^\p{L}]+$/gu, ""))
    .filter((part) => part.length > 3);
  return parts.every((part) => sources.includes(part));
}

/** All sources, with strings that are concatenated over several lines joined into one. */
function wordsOfSources(): string {
  const files = ["src", "jobs", "routes"].flatMap((directory) =>
    readdirSync(join(root, directory), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts"))
      .map((name) => readFileSync(join(root, directory, name), "utf8")),
  );
  return files
    .join("\n")
    .replaceAll(/["`] \+\s+["`]/g, "")
    .replaceAll('\\"', '"');
}
