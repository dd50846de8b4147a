/** The real kluctl, with the proxy as its only way out. */
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import net, { type AddressInfo } from "node:net";
import { join } from "node:path";
import tls from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { createCertificateAuthority } from "../../../dev/parts/certificates.ts";
import { createEgressProxy } from "../../../src/egress-proxy/egress-proxy.ts";
import { createProject, gitLogins, newKluctl, newRun, noDiffOptions } from "../../support/fake-kluctl.ts";
import { silentLog } from "../../support/fakes.ts";
import { login as password, useGitHost } from "../../support/source.ts";
import { useUpstream } from "../../support/upstream-proxy.ts";
import { useCluster, useKluctl, useTempDir } from "../../support/world.ts";

const name = "git.example.test";

/** A git host that serves TLS as `git.example.test`; only the proxy knows its address. */
async function useSecureGitHost() {
  const host = await useGitHost({ secured: true });
  const authority = createCertificateAuthority("git");
  const server = tls.createServer(authority.issueServer("git", [name]), (socket) => {
    const out = net.connect(Number(new URL(host.url).port), "127.0.0.1");
    socket.pipe(out).pipe(socket);
    for (const one of [socket, out]) one.on("error", () => void [socket.destroy(), out.destroy()]);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return { host, authority: authority.cert, port: (server.address() as AddressInfo).port };
}

test("an include is fetched through the proxy, and one from another host fails with an error that says what to do", async () => {
  const [cluster, binary, dir] = await Promise.all([useCluster(), useKluctl(), useTempDir()]);
  const { host, authority, port } = await useSecureGitHost();
  const library = host.repo("library");
  const object = `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: ${cluster.namespace}}}`;
  library.write("deployment.yaml", "deployments: [{path: app}]");
  library.write("app/one.yaml", object);
  library.push();
  await writeFile(join(dir, "ca.pem"), authority);

  const upstream = await useUpstream(port);
  const proxy = createEgressProxy({ hosts: () => [], apiServers: () => [], env: upstream.env, log: silentLog });
  onTestFinished(() => proxy.stop());
  const access = await proxy.open([name]);
  const kubeconfig = await readFile(cluster.kubeconfig, "utf8");
  const env = { PATH: process.env["PATH"], ...access.env, SSL_CERT_FILE: join(dir, "ca.pem") };
  const kluctl = newKluctl(dir, { binary, log: silentLog, kubeconfigFor: () => kubeconfig, env });
  onTestFinished(() => kluctl.stop());
  const credentials = gitLogins({ host: name, secretName: "login", ...password });
  const diff = async (of: string) => {
    const include = `deployments: [{git: {url: "https://${of}/library.git"}}]`;
    const projectDir = await createProject(join(dir, of), { "deployment.yaml": include });
    return kluctl.diff(newRun({ projectDir, credentials }), noDiffOptions, new AbortController().signal);
  };

  expect(await diff(name)).toMatchObject({ errors: [], objects: [{ ref: { name: "one" }, new: true }] });
  expect(host.counts.fetch).toBeGreaterThan(0);

  const words = "previews cannot reach evil.example.test; an operator can add it to preview.hosts";
  await expect(diff("evil.example.test")).rejects.toThrow(words);
  expect(access.refusals()).toEqual([words]);
  expect(new Set(upstream.asked.map((line) => line.split(" ")[1]))).toEqual(new Set([`${name}:443`]));
});

test("a kustomization from a repository is fetched by git, in kluctl's jail, through the proxy", async () => {
  const [cluster, binary, dir] = await Promise.all([useCluster(), useKluctl(), useTempDir()]);
  const host = await useGitHost();
  const library = host.repo("library");
  library.write("kustomization.yaml", "resources: [one.yaml]");
  library.write(
    "one.yaml",
    `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: ${cluster.namespace}}}`,
  );
  library.push();
  const at = new URL(host.url).host;
  const proxy = createEgressProxy({ hosts: () => [at], apiServers: () => [], env: {}, log: silentLog });
  onTestFinished(() => proxy.stop());
  const access = await proxy.open([]);
  const kubeconfig = await readFile(cluster.kubeconfig, "utf8");
  const apiPort = Number(new URL(/https?:[^"\s]+/.exec(kubeconfig)?.[0] ?? "").port);
  const open = () => Promise.resolve({ ...access, kubeconfig, ports: [apiPort, access.port] });
  const env = { PATH: process.env["PATH"] };
  const kluctl = newKluctl(dir, { binary, log: silentLog, kubeconfigFor: () => kubeconfig, env, confine: { open } });
  onTestFinished(() => kluctl.stop());
  const slot = join(dir, "slot");
  const projectDir = await createProject(join(slot, "clone"), {
    "deployment.yaml": "deployments: [{path: app}]",
    "app/kustomization.yaml": `resources: ["${host.url}/library.git"]`,
  });

  const result = await kluctl.diff(
    newRun({ projectDir, slot, cold: true }),
    noDiffOptions,
    new AbortController().signal,
  );

  expect(result).toMatchObject({ errors: [], objects: [{ ref: { name: "one" }, new: true }] });
  expect(host.counts.fetch).toBeGreaterThan(0);
});
