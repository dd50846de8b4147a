import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { parse, stringify } from "yaml";
import { kubeconfigText, loadKubeConfig } from "../../../src/kube/kubeconfig.ts";

interface Written {
  readonly "current-context": string;
  readonly contexts: readonly { readonly name: string }[];
  readonly clusters: readonly { readonly cluster: Readonly<Record<string, unknown>> }[];
  readonly users: readonly { readonly user: Readonly<Record<string, unknown>> }[];
}

function load(user: object, cluster: object = {}) {
  const dir = mkdtempSync(join(tmpdir(), "towline-test-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const kubeconfig = join(dir, "config");
  const config = {
    "current-context": "prod",
    contexts: [
      { name: "prod", context: { cluster: "c", user: "u" } },
      { name: "other", context: { cluster: "c", user: "u" } },
    ],
    clusters: [{ name: "c", cluster: { server: "https://10.0.0.1:443", ...cluster } }],
    users: [{ name: "u", user }],
  };
  writeFileSync(kubeconfig, stringify(config));
  return { kc: loadKubeConfig({ kubeconfig }), dir };
}

const written = (text: string) => parse(text) as Written;

test("kluctl gets one context, named default, with credentials that rotate left in their files", () => {
  const { kc, dir } = load({ tokenFile: "token" }, { "certificate-authority": "ca.crt" });
  expect(written(kubeconfigText(kc))).toEqual({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "default",
    contexts: [{ name: "default", context: { cluster: "default", user: "default" } }],
    clusters: [
      { name: "default", cluster: { server: "https://10.0.0.1:443", "certificate-authority": join(dir, "ca.crt") } },
    ],
    users: [{ name: "default", user: { tokenFile: join(dir, "token") } }],
  });
});

test("certificates and inline tokens are handed on", () => {
  const user = { "client-certificate-data": "Y2VydA==", "client-key-data": "a2V5", token: "t" };
  expect(written(kubeconfigText(load(user).kc)).users[0]?.user).toEqual(user);
});

test("whoever is impersonated is named", () => {
  const { users } = written(kubeconfigText(load({ token: "t" }).kc, "system:serviceaccount:apps:deployer"));
  expect(users[0]?.user).toEqual({ token: "t", as: "system:serviceaccount:apps:deployer" });
});

test.for(["", " ", "\t\n"])("impersonating %j is an error, never the server's own identity", (name) => {
  const { kc } = load({ token: "t" });
  expect(() => kubeconfigText(kc, name)).toThrow("has no name");
});

test("a token file that changes is read again", async () => {
  const { kc, dir } = load({ tokenFile: "token" });
  writeFileSync(join(dir, "token"), "one");
  const options: { headers?: Record<string, string> } = {};
  await kc.applyToHTTPSOptions(options as Parameters<typeof kc.applyToHTTPSOptions>[0]);
  expect(options.headers?.["Authorization"]).toBe("Bearer one");
});

test("a kubeconfig that cannot be read is named, and nothing of what is in it", () => {
  const dir = mkdtempSync(join(tmpdir(), "towline-test-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const kubeconfig = join(dir, "config");
  expect(() => loadKubeConfig({ kubeconfig })).toThrow(`The kubeconfig ${kubeconfig} cannot be read: there is no such`);
  writeFileSync(kubeconfig, "users: [{ token: t0ps3cret");
  expect(() => loadKubeConfig({ kubeconfig })).toThrow(`${kubeconfig} cannot be read: it is not a valid kubeconfig.`);
  expect(() => loadKubeConfig({ kubeconfig })).not.toThrow("t0ps3cret");
});
