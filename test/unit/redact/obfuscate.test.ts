/** What is stored of a result, where every user who can list the stored results can read it. */
import { expect, test } from "vitest";
import { toCommandResult } from "../../../src/kluctl/result.ts";
import type { CommandResult } from "../../../src/model.ts";
import { obfuscate } from "../../../src/redact/obfuscate.ts";

const password = "canary-password-1";
const base64 = (text: string) => Buffer.from(text).toString("base64");
const ref = (kind: string, name: string) => ({ version: "v1", kind, name, namespace: "shop" });

function json(kind: string, name: string, more: object, annotations: Record<string, string> = {}): string {
  return JSON.stringify({ apiVersion: "v1", kind, metadata: { name, namespace: "shop", annotations }, ...more });
}

interface Source {
  readonly [kind: string]: unknown;
}

function result({ vars = [], objects }: { vars?: readonly Source[]; objects?: readonly object[] }): CommandResult {
  const secret = json("Secret", "login", { stringData: { password, short: "abc" } });
  const applied = json(
    "Secret",
    "login",
    { data: { password: base64(password), short: base64("abd") } },
    { "kubectl.kubernetes.io/last-applied-configuration": secret },
  );
  const plain = json("ConfigMap", "plain", { data: { color: "red" } });
  const compactedObjects = objects ?? [
    { ref: ref("Secret", "login"), new: true, rendered: `full: ${secret}`, applied: `full: ${applied}` },
    {
      ref: ref("ConfigMap", "copy"),
      new: true,
      rendered: `full: ${json("ConfigMap", "copy", { data: { url: `db://u:${password}@db` } })}`,
    },
    {
      ref: ref("ConfigMap", "plain"),
      new: true,
      rendered: `full: ${json("ConfigMap", "plain", { data: { color: "red" } })}`,
      remote: `delta: =${plain.length}`,
    },
  ];
  const renderedObjects = objects === undefined ? [ref("Secret", "login")] : [];
  const deployment = { vars, deployments: [{ path: "app", renderedObjects }] };
  return toCommandResult({
    id: "1",
    command: { command: "deploy", args: { a: password } },
    deployment,
    compactedObjects,
    seenImages: [{ image: `registry.example.com/${password}`, object: ref("Deployment", "login"), container: "a" }],
  });
}

interface Stored {
  readonly deployment: { readonly vars: readonly Source[] };
  readonly compactedObjects: readonly {
    readonly rendered: string;
    readonly applied: string;
    readonly remote?: string;
  }[];
}

const storedOf = (found: CommandResult) => found.document as unknown as Stored;

test("values of Secrets are hidden everywhere, and equal values stay recognisable as equal", () => {
  const stored = storedOf(obfuscate(result({}), []));
  const text = JSON.stringify(stored);
  for (const value of [password, base64(password), '"abc"', base64("abc"), base64("abd")])
    expect(text).not.toContain(value);

  const [secret, copy, plain] = stored.compactedObjects;
  const rendered = JSON.parse(secret!.rendered.slice("full: ".length)) as { stringData: Record<string, string> };
  const applied = JSON.parse(secret!.applied.slice("full: ".length)) as { data: Record<string, string> };
  const decoded = (value = "") => Buffer.from(value, "base64").toString();
  expect(rendered.stringData["password"]).toMatch(/^\*{5}[\da-f]{12}$/);
  expect(decoded(applied.data["password"])).toBe(rendered.stringData["password"]);
  expect(decoded(applied.data["short"])).not.toBe(rendered.stringData["short"]);
  expect(copy?.rendered).toContain('"url":"db://*****@db"');
  // As kluctl wrote it, so that unchanged parts take no space.
  expect(plain?.rendered).toContain('"color":"red"');
  expect(plain?.remote).toMatch(/^delta: =\d+$/);
});

test("the same value looks different in another result, so that values cannot be guessed by comparison", () => {
  const [one, other] = [obfuscate(result({}), []), obfuscate(result({}), [])];
  expect(storedOf(one).compactedObjects[0]).not.toEqual(storedOf(other).compactedObjects[0]);
  expect(toCommandResult(one.document).objects.map((object) => object.ref)).toEqual(
    one.objects.map((object) => object.ref),
  );
});

test.each<[string, Source]>([
  ["a Secret of the cluster", { clusterSecret: { name: "s" } }],
  ["a Secret of the cluster that the project calls plain", { clusterSecret: { name: "s" }, sensitive: false }],
  ["Vault", { vault: { address: "https://vault" }, sensitive: false }],
  ["AWS", { awsSecretsManager: { secretName: "s" }, sensitive: false }],
  ["GCP", { gcpSecretManager: { secretName: "s" }, sensitive: false }],
  ["Azure", { azureKeyVault: { vaultUri: "https://v" }, sensitive: false }],
  ["the server's environment", { systemEnvVars: { a: "AWS_TOKEN" }, sensitive: false }],
  ["an object of the cluster", { clusterObject: { kind: "Login" }, sensitive: false }],
  ["a file that may be encrypted", { file: "vars.sops.yaml", sensitive: false }],
  ["a host that wants a login", { http: { url: "https://h", headers: { Authorization: "Bearer canary-header-9" } } }],
  ["what the project calls secret", { values: {}, sensitive: true, renderedSensitive: true }],
])("vars from %s are secret because of their source", (_what, source) => {
  const value = "canary-from-a-store";
  const plain = json("ConfigMap", "copy", { data: { text: `is ${value}` } });
  const objects = [{ ref: ref("ConfigMap", "copy"), new: true, rendered: `full: ${plain}` }];
  const vars = [{ ...source, renderedVars: { deep: [{ password: value }] } }];
  const stored = storedOf(obfuscate(result({ vars, objects }), []));
  expect(JSON.stringify(stored)).not.toMatch(/canary-(?:from-a-store|header-9)/);
  expect(stored.compactedObjects[0]?.rendered).toContain('"text":"is *****"');
  expect(stored.deployment.vars[0]).toMatchObject({
    renderedSensitive: true,
    renderedVars: { deep: [{ password: expect.stringMatching(/^\*{5}[\da-f]{12}$/) }] },
  });
});

test.each<[string, Source]>([
  ["plain text", { values: {}, sensitive: false }],
  ["a file", { file: "vars.yaml" }],
  ["a ConfigMap", { clusterConfigMap: { name: "c" }, sensitive: false }],
  ["a host that wants no login", { http: { url: "https://h/a.yaml" } }],
])("vars from %s stay readable", (_what, source) => {
  const vars = [{ ...source, renderedVars: { color: "light-blue-4" } }];
  expect(storedOf(obfuscate(result({ vars, objects: [] }), [])).deployment.vars).toEqual(vars);
});

test("known secrets are hidden in the arguments of a command", () => {
  const stored = obfuscate(result({ objects: [] }), [password]).document;
  expect(stored["command"]).toEqual({ command: "deploy", args: { a: "*****" } });
});

test("a secret in the name of an image is hidden, and the object that uses the image stays readable", () => {
  const stored = obfuscate(result({}), []).document;
  expect(stored["seenImages"]).toEqual([
    { image: "registry.example.com/*****", object: ref("Deployment", "login"), container: "a" },
  ]);
});

test("for a result whose secrets cannot be determined only names are stored, with a note", () => {
  const unreadable = {
    ref: ref("Secret", "login"),
    new: true,
    rendered: `full: ${json("Secret", "login", { data: [password] })}`,
  };
  const copy = {
    ref: ref("ConfigMap", "copy"),
    new: true,
    rendered: `full: ${json("ConfigMap", "copy", { data: { password } })}`,
  };
  const vars = [{ values: {}, renderedVars: { password } }];
  const stored = obfuscate(result({ vars, objects: [unreadable, copy] }), []);
  expect(JSON.stringify(stored)).not.toContain(password);
  expect(storedOf(stored).compactedObjects[1]?.rendered).toBe(
    'full: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"copy","namespace":"shop"}}',
  );
  expect(stored.warnings).toMatchObject([{ message: expect.stringContaining("Only the names of objects are stored") }]);
});
