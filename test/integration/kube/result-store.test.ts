import { randomBytes, randomUUID } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { createResults } from "../../../src/kube/result-store.ts";
import type { CommandResult } from "../../../src/model.ts";
import { fakeLog, useKube } from "../../support/kube.ts";

interface SecretItem {
  readonly metadata: {
    readonly name: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
    readonly managedFields: readonly { readonly manager: string }[];
  };
  readonly data: Readonly<Record<string, string>>;
}

const deployment = { name: "shop", namespace: "apps", clusterId: "cluster-1" };

function commandResult(options: { startTime?: string; target?: string; deployment?: object; text?: string } = {}) {
  const { startTime = "2026-01-01T00:00:00Z", target = "prod", text = "" } = options;
  const id = randomUUID();
  const head = {
    id,
    reconcileId: "r-1",
    projectKey: { repoKey: "git://git.test/org/My_Shop", subDir: "sub" },
    targetKey: { targetName: target, clusterId: "cluster-1", discriminator: "d" },
    kluctlDeployment: options.deployment ?? deployment,
  };
  const command = { initiator: "KluctlDeployment", startTime, endTime: startTime, command: "deploy" };
  const ref = { version: "v1", kind: "ConfigMap", name: "a", namespace: "apps" };
  const labels = { app: "a" };
  const rendered = JSON.stringify({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "a", labels },
    data: { text },
  });
  const compactedObjects = [{ ref, new: true, rendered: `full: ${rendered}` }];
  const object = { ref, changes: [], new: true, orphan: false, deleted: false, hook: false, rendered };
  const result: CommandResult = {
    document: { ...head, command, compactedObjects },
    objects: [object],
    errors: [],
    warnings: [],
    objectsHash: "",
  };
  return { id, result, summary: { ...head, commandInfo: command, newObjects: 1, errors: [], warnings: null } };
}

async function useResults() {
  const kube = await useKube();
  const { client } = kube;
  const namespace = `${kube.namespace}-results`; // does not exist yet
  const { log, lines } = fakeLog();
  const results = createResults({ client, namespace, log });
  onTestFinished(async () => {
    await client.request({ method: "DELETE", path: `/api/v1/namespaces/${namespace}` }).catch(() => undefined);
  });
  const stored = async () => (await client.list(`/api/v1/namespaces/${namespace}/secrets`)).items as SecretItem[];
  return { ...kube, namespace, results, stored, lines };
}

const unpack = (text: string | undefined): unknown =>
  JSON.parse(gunzipSync(Buffer.from(text ?? "", "base64")).toString());

test("a command's result is stored in kluctl's format", async () => {
  const { results, stored } = await useResults();
  const { id, result, summary } = commandResult({ text: "content" });
  await expect(results.storeCommand(result, summary, [])).resolves.toBe(true);

  const [secret] = await stored();
  expect(secret?.metadata).toMatchObject({
    name: `cr-my-shop-${id}`,
    labels: {
      "kluctl.io/result": "true",
      "kluctl.io/command-result-id": id,
      "kluctl.io/result-deployment-name": "shop",
    },
    annotations: {
      "kluctl.io/result-project-repo-key": "git://git.test/org/My_Shop",
      "kluctl.io/result-project-subdir": "sub",
      "kluctl.io/result-deployment-name": "shop",
      "kluctl.io/result-deployment-namespace": "apps",
      "kluctl.io/command-result-summary": JSON.stringify(summary),
    },
    managedFields: [{ manager: "kluctl-results" }],
  });
  const { compactedObjects, ...document } = result.document;
  expect(unpack(secret?.data["compactedObjects"])).toEqual(compactedObjects);
  expect(unpack(secret?.data["reducedResult"])).toEqual({
    ...document,
    objects: [
      {
        ref: { version: "v1", kind: "ConfigMap", name: "a", namespace: "apps" },
        new: true,
        rendered: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a", labels: { app: "a" } } },
      },
    ],
  });
});

test("for each target, the newest five command results and two validation results are kept", async () => {
  const { results, stored } = await useResults();
  const other = commandResult({ target: "test" });
  await results.storeCommand(other.result, other.summary, []);
  const ids: string[] = [];
  for (const hour of [3, 1, 2, 5, 4, 6, 7]) {
    const { id, result, summary } = commandResult({ startTime: `2026-01-01T0${hour}:00:00Z` });
    await results.storeCommand(result, summary, []);
    if (hour > 2) ids.push(id);
    const { reconcileId, projectKey, targetKey, kluctlDeployment, commandInfo } = summary;
    const validate = {
      id: randomUUID(),
      reconcileId,
      projectKey,
      targetKey,
      kluctlDeployment,
      ...commandInfo,
      ready: true,
    };
    await results.storeValidate(validate, { ...validate, errors: 0, warnings: 0, results: 0 });
  }

  const kept = (label: string) => async () =>
    (await stored()).map(({ metadata }) => metadata.labels[label]).filter((id) => id !== undefined);
  expect((await kept("kluctl.io/command-result-id")()).sort()).toEqual([...ids, other.id].sort());
  expect(await kept("kluctl.io/validate-result-id")()).toHaveLength(2);
});

test("results stored by kluctl's own controller count as well", async () => {
  const { client, namespace, results, stored } = await useResults();
  const first = commandResult({ startTime: "2026-02-01T00:00:00Z" });
  await results.storeCommand(first.result, first.summary, []);
  for (let count = 0; count < 6; count++) {
    const { id, summary } = commandResult();
    const labels = { "kluctl.io/result": "true", "kluctl.io/command-result-id": id };
    const annotations = { "kluctl.io/command-result-summary": JSON.stringify(summary) };
    const body = { metadata: { name: `cr-${id}`, labels, annotations } };
    await client.request({ method: "POST", path: `/api/v1/namespaces/${namespace}/secrets`, body });
  }
  const later = createResults({ client, namespace, log: fakeLog().log });
  const last = commandResult({ startTime: "2026-02-02T00:00:00Z" });
  await later.storeCommand(last.result, last.summary, []);

  const left = (await stored()).map(({ metadata }) => metadata.labels["kluctl.io/command-result-id"]);
  expect(left).toHaveLength(5);
  expect(left).toEqual(expect.arrayContaining([first.id, last.id]));
});

test("a result too large for a Secret is stored with fewer details, and both the result and the log say so", async () => {
  const { results, stored, lines } = await useResults();
  const { result, summary } = commandResult({ text: randomBytes(1_500_000).toString("base64") });
  await expect(results.storeCommand(result, summary, [])).resolves.toBe(true);
  const [secret] = await stored();
  const warning = {
    ref: { kind: "", name: "" },
    message: expect.stringMatching(/^The result was too large/) as string,
  };
  expect(unpack(secret?.data["reducedResult"])).toMatchObject({ warnings: [warning] });
  expect(JSON.parse(secret?.metadata.annotations["kluctl.io/command-result-summary"] ?? "")).toMatchObject({
    warnings: [warning],
  });
  expect(unpack(secret?.data["compactedObjects"])).toEqual([
    {
      ref: { version: "v1", kind: "ConfigMap", name: "a", namespace: "apps" },
      new: true,
      rendered: 'full: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"app":"a"}}}',
    },
  ]);
  expect(lines.map(({ msg }) => msg)).toEqual([
    expect.stringMatching(/^The result is stored with fewer details: it has \d+ bytes compressed/),
  ]);

  // Still too large even without details: a summary is only shortened where it is created.
  const wide = commandResult();
  await expect(results.storeCommand(wide.result, { ...wide.summary, errors: "x".repeat(300_000) }, [])).resolves.toBe(
    false,
  );
  expect(lines.at(-1)?.msg).toMatch(/^The result is not stored: its summary has \d+ bytes/);
});

test("results of deleted deployments are removed", async () => {
  const { results, stored } = await useResults();
  const gone = commandResult({ deployment: { ...deployment, name: "gone" } });
  const elsewhere = commandResult({ deployment: { ...deployment, name: "gone", clusterId: "another" } });
  const kept = commandResult();
  for (const { result, summary } of [gone, elsewhere, kept]) await results.storeCommand(result, summary, []);

  await results.removeOrphans("cluster-1", ({ name }) => name === "shop");

  const left = (await stored()).map(({ metadata }) => metadata.labels["kluctl.io/command-result-id"]);
  expect(left.sort()).toEqual([elsewhere.id, kept.id].sort());
});
