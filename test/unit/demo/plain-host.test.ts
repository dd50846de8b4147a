import { expect, test } from "vitest";
import { toDelivery } from "../../../dev/demo/plain-host.ts";
import { createGiteaSource } from "../../../src/forge/gitea/webhook.ts";

const push = {
  cloneUrl: "http://127.0.0.1:3000/example/shop.git",
  branch: "main",
  before: "a".repeat(40),
  after: "b".repeat(40),
  modified: ["versions.yaml"],
};

test("without Gitea, the demo sends what Gitea would send: a push that the server verifies and understands", async () => {
  const { headers, body } = toDelivery(push, "a secret of the demo");
  const received = [
    new Map(Object.entries(headers).map(([name, value]) => [name, [value]])),
    Buffer.from(body),
  ] as const;
  const source = (secret: string) => createGiteaSource({ id: "gitea", secrets: [secret], allowUnsigned: false });

  expect(await source("a secret of the demo").verify(...received)).toEqual({ genuine: true });
  expect(await source("another secret").verify(...received)).toMatchObject({ genuine: false });
  expect(source("a secret of the demo").parse(...received)).toMatchObject({
    kind: "push",
    repoName: "example/shop",
    repoUrls: [push.cloneUrl],
    ref: "refs/heads/main",
    changed: { complete: true, paths: ["versions.yaml"] },
  });
});
