import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { RequestOptions } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
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

test("kluctl gets one context, named default, with rotating credentials left in their files", () => {
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

test("certificates and inline tokens are copied", () => {
  const user = { "client-certificate-data": "Y2VydA==", "client-key-data": "a2V5", token: "t" };
  expect(written(kubeconfigText(load(user).kc)).users[0]?.user).toEqual(user);
});

test("the impersonated user is in the kubeconfig", () => {
  const { users } = written(kubeconfigText(load({ token: "t" }).kc, "system:serviceaccount:apps:deployer"));
  expect(users[0]?.user).toEqual({ token: "t", as: "system:serviceaccount:apps:deployer" });
});

test.for(["", " ", "\t\n"])(
  "impersonating %j is an error, and never falls back to the server's own identity",
  (name) => {
    const { kc } = load({ token: "t" });
    expect(() => kubeconfigText(kc, name)).toThrow("has no name");
  },
);

test("a token file that changes is read again", async () => {
  const { kc, dir } = load({ tokenFile: "token" });
  writeFileSync(join(dir, "token"), "one");
  const options: { headers?: Record<string, string> } = {};
  await kc.applyTo(options as Parameters<typeof kc.applyTo>[0]);
  expect(options.headers?.["Authorization"]).toBe("Bearer one");
});

test("a kubeconfig that cannot be read is named, and its content is not shown", () => {
  const dir = mkdtempSync(join(tmpdir(), "towline-test-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const kubeconfig = join(dir, "config");
  expect(() => loadKubeConfig({ kubeconfig })).toThrow(`The kubeconfig ${kubeconfig} cannot be read: there is no such`);
  writeFileSync(kubeconfig, "users: [{ token: t0ps3cret");
  expect(() => loadKubeConfig({ kubeconfig })).toThrow(`${kubeconfig} cannot be read: it is not a valid kubeconfig.`);
  expect(() => loadKubeConfig({ kubeconfig })).not.toThrow("t0ps3cret");
});

test("of several files in KUBECONFIG, the first one that sets a value wins", () => {
  const dir = mkdtempSync(join(tmpdir(), "towline-test-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const file = (name: string, server: string) => {
    writeFileSync(
      join(dir, name),
      stringify({
        "current-context": name,
        contexts: [{ name, context: { cluster: "c", user: "u" } }],
        clusters: [{ name: "c", cluster: { server } }],
        users: [{ name: "u", user: { token: name } }],
      }),
    );
    return join(dir, name);
  };
  vi.stubEnv("KUBECONFIG", [file("one", "https://one"), file("two", "https://two")].join(":"));
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(loadKubeConfig({})).toMatchObject({ cluster: { server: "https://one" }, user: { token: "one" } });
  expect(() => loadKubeConfig({ context: "three" })).toThrow('no context "three"; it has: one, two.');
});

test("exec plugins are run, and username and password are sent as basic auth", async () => {
  const credential = { kind: "ExecCredential", status: { token: "from-a-program" } };
  const { kc } = load({ exec: { command: "echo", args: [JSON.stringify(credential)] } });
  const options: RequestOptions = {};
  await kc.applyTo(options);
  expect(options.headers).toEqual({ Authorization: "Bearer from-a-program" });
  const basic: RequestOptions = {};
  await load({ username: "admin", password: "secret" }).kc.applyTo(basic);
  expect(basic.auth).toBe("admin:secret");
});

test("an unencrypted login to a cluster is refused unless the kubeconfig allows it", async () => {
  const server = "http://10.0.0.1";
  await expect(load({ token: "t" }, { server }).kc.applyTo({})).rejects.toThrow("insecure-skip-tls-verify");
  await load({ token: "t" }, { server, "insecure-skip-tls-verify": true }).kc.applyTo({});
});

test("a cluster behind a proxy is reached through it", async () => {
  const options: RequestOptions = {};
  await load({ token: "t" }, { "proxy-url": "http://proxy.example:3128" }).kc.applyTo(options);
  expect(options.agent).toMatchObject({ proxy: { host: "proxy.example:3128" } });
  expect(options.headers).toEqual({ Authorization: "Bearer t" });
});
