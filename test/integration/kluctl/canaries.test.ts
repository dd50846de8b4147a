/**
 * What each setting prevents for two hostile branches that try everything, compared with the table in
 * docs/preview-security.md.
 */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { PatchStrategy } from "@kubernetes/client-node";
import { expect, onTestFinished, test } from "vitest";
import { mayLack } from "../../support/attacks.ts";
import { type Aim, aims, type Seen, type SettingName, settings, tryCanaries } from "../../support/canaries.ts";
import { patience } from "../../support/patience.ts";
import { useTowlinePod, useUnpacked } from "../../support/towline-pod.ts";
import { useCluster, useKluctl, useTempDir } from "../../support/world.ts";
import type { TestCluster } from "../../support/world-cluster.ts";

const run = promisify(execFile);
const repository = join(import.meta.dirname, "../../..");

/** The first column of the table. */
const rows: Readonly<Record<Aim, string>> = {
  programs: "start programs, fork, `git push`, or leave a process running, from a template",
  connections: "connect to Redis, to sockets of the server, to the cloud's metadata or to DNS, from a template",
  processes: "signal, trace or slow down other processes, from a template",
  kernel: "reach rarely needed kernel interfaces from a template",
  environment: "find secrets in the environment of a template",
  others: "read other processes' environment, memory or arguments from a template",
  login: "find credentials for the cluster in what its own run was given",
  files: "read files of the server from a template: tokens, mounted Secrets, other checkouts",
  writing: "write files, hooks, Python or caches that others use from a template",
  "declared files": "read files by `vars: file`, or by symlinks used as vars or charts",
  "declared variables": "read the server's credentials by `systemEnvVars`",
  "declared programs": "have kluctl start programs that the project names (through git)",
  "declared hosts": "have kluctl connect to other hosts (`http` vars, remote kustomizations)",
  "declared Secrets": "read the value of a Secret in the cluster by `clusterSecret`, or in a message of the cluster",
  memory: "use more memory, output, CPU time or disk than a preview may",
};

/** Cells that use other words. */
const words: Partial<Record<Aim, Readonly<Record<"possible" | "stopped", string>>>> = {
  memory: { possible: "ends at the timeout", stopped: "fails alone" },
};

/** The documented cells of each setting, by the first column. */
async function readTable(): Promise<Map<string, Record<string, string>>> {
  const page = await readFile(join(repository, "docs/preview-security.md"), "utf8");
  const [, table = ""] = /^What each setting stops:\n\n((?:\|.*\n)+)/m.exec(page) ?? [];
  const lines = table
    .trimEnd()
    .split("\n")
    .map((line) =>
      line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  const [[, ...columns] = [], , ...cells] = lines;
  return new Map(
    columns.map((column, at) => [
      column,
      Object.fromEntries(cells.map(([row = "", ...said]) => [row, said[at] ?? ""])),
    ]),
  );
}

/** The observed results as cells. An attempt that worked only in part is shown as it was found. */
function toCells({ found }: Seen): Record<string, string> {
  return Object.fromEntries(aims.map((aim) => [rows[aim], toCell(aim, found)]));
}

function toCell(aim: Aim, found: Seen["found"]): string {
  const tried = Object.entries(found).filter(([name]) => name.startsWith(`${aim}: `));
  const got = tried.filter(([, answer]) => answer !== "refused");
  const lacking = tried.filter(([name, answer]) => answer === "refused" && !mayLack.has(name)).map(([name]) => name);
  if (tried.length > 0 && got.length === 0) return words[aim]?.stopped ?? "stopped";
  if (got.length > 0 && lacking.length === 0) return words[aim]?.possible ?? "possible";
  return `got ${got.map((one) => one.join(" ")).join(", ") || "nothing"}, and not ${lacking.join(", ") || "anything"}`;
}

/**
 * A namespace with a Secret that only accounts with read access may see, and a policy of the cluster whose message quotes it if
 * it gets the label `quoted`.
 */
async function useSecret(): Promise<TestCluster> {
  const cluster = await useCluster();
  const { namespace } = cluster;
  const metadata = { name: "login", namespace };
  const body = { metadata, stringData: { vars: "found: CANARY-secret\n" } };
  await cluster.core.createNamespacedSecret({ namespace, body });
  const admission = { apiVersion: "admissionregistration.k8s.io/v1", metadata: { name: namespace } };
  const policy = {
    ...{ ...admission, kind: "ValidatingAdmissionPolicy" },
    spec: {
      matchConstraints: {
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
        resourceRules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["UPDATE"], resources: ["secrets"] }],
      },
      validations: [
        {
          expression: "!has(object.metadata.labels) || !('quoted' in object.metadata.labels)",
          messageExpression: "'not with ' + string(oldObject.data.vars)",
        },
      ],
    },
  };
  const kind = "ValidatingAdmissionPolicyBinding";
  const binding = { ...admission, kind, spec: { policyName: namespace, validationActions: ["Deny"] } };
  for (const object of [policy, binding]) {
    await cluster.objects.create(object);
    onTestFinished(async () => void (await cluster.objects.delete(object)));
  }
  const attempt = { apiVersion: "v1", kind: "Secret", metadata: { ...metadata, labels: { quoted: "yes" } } };
  // It takes a moment until the policy is in force.
  const refusal = () =>
    cluster.objects.patch(attempt, undefined, "All", undefined, undefined, PatchStrategy.MergePatch).then(
      () => "",
      (error: unknown) => String(error),
    );
  await expect.poll(refusal, patience).toContain(Buffer.from("found: CANARY-secret\n").toString("base64"));
  return cluster;
}

test("the documentation has a column for each setting, and a row for each kind of attempt", async () => {
  const table = await readTable();
  expect([...table.keys()]).toEqual(Object.keys(settings));
  for (const cells of table.values()) expect(Object.keys(cells).toSorted()).toEqual(Object.values(rows).toSorted());
});

test.each(Object.keys(settings) as SettingName[])(
  "with %s, two hostile branches can do what the documentation says, and no more",
  async (name) => {
    const [table, cluster, binary, unpackedDir, dir] = await Promise.all([
      readTable(),
      useSecret(),
      useKluctl(),
      useUnpacked(),
      useTempDir(),
    ]);
    const { kubeconfig, namespace } = cluster;

    const seen = await tryCanaries(settings[name], { dir, binary, unpackedDir, kubeconfig, namespace });

    expect(toCells(seen)).toEqual(table.get(name));
    expect(seen.next).toBe("42");
    const { confined } = settings[name];
    expect(seen.python.includes("fork-server")).toBe(confined);
    expect(JSON.stringify(seen.environment).includes("CANARY")).toBe(!confined);
    expect(Object.keys(seen.found).length).toBeGreaterThan(100);
  },
);

test.each(["`auto` without Landlock", "`required`", "`forks: isolated`"] satisfies SettingName[])(
  "in a restricted pod, %s prevents the same",
  async (name) => {
    const [table, cluster, towline] = await Promise.all([readTable(), useSecret(), useTowlinePod()]);
    const { pod, unpackedDir } = towline;
    const kubeconfig = await towline.write("kubeconfig", await readFile(cluster.kubeconfig, "utf8"));
    const deps = { dir: pod.data, binary: towline.kluctl, unpackedDir, kubeconfig, namespace: cluster.namespace };
    const script = "test/integration/kluctl/pod-canaries-fixture.ts";
    const { command, args } = towline.node(script, name, JSON.stringify(deps));

    const env = { PATH: "/usr/bin:/bin", HOME: pod.data };
    const { stdout } = await run(command, args, { env, cwd: "/", maxBuffer: 1 << 24 });

    type Told = { seen: Seen; missing: object; self: Record<string, string> };
    const { seen, missing, self } = JSON.parse(stdout) as Told;
    expect(self).toEqual({
      root: pod.whole ? "EROFS" : "EACCES",
      capabilities: "0000000000000000",
      noNewPrivileges: "1",
      seccomp: "2",
      uid: String(pod.uid),
    });
    expect(missing).toEqual({});
    expect(toCells(seen)).toEqual(table.get(name));
    expect(seen.next).toBe("42");
  },
);
