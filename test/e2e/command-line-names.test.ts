/** How deployments, namespaces and commits are named on the command line. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { towline as commandLine } from "../support/command-line.ts";
import { aProject, aSpec } from "../support/project.ts";
import { environment, useTowline } from "../support/towline.ts";
import { uniqueName, useCluster, useWorld } from "../support/world.ts";

const program = join(import.meta.dirname, "../../src/cli.ts");

test("names, namespaces and revisions work as in kubectl and git, and wrong ones are errors", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace, name: "{{ args.name }}" }));
  await useTowline(world);
  const env = environment(world);
  const towline = (...argv: string[]) => commandLine(argv, { env });
  for (const name of ["prod", "staging"]) {
    await cluster.deployment(name).create(aSpec(repo.url, { args: { name } }));
    await cluster.deployment(name).reaches("Ready");
  }

  // `-n` takes only one argument: the next one is a name.
  const one = await towline("get", "deployments", "-n", namespace, "staging");
  expect(one).toMatchObject({ code: 0, err: "" });
  expect(one.out.split("\n").slice(1, -1)).toEqual([expect.stringMatching(`^${namespace} +staging `)]);
  for (const kind of ["deployment", "kd"]) {
    expect((await towline("get", kind, "-n", namespace, "-o", "json")).out).toMatch(/"prod"[^]*"staging"/);
  }
  expect((await towline("get", "kd", "-A")).out).toContain(`${namespace}  prod`);
  expect((await towline("get", "kd", "-A", "-n", namespace)).code).toBe(2);

  const nowhere = uniqueName("nowhere");
  for (const command of [
    ["get", "kd"],
    ["get", "preview"],
    ["trace", "3f2c1ab"],
    ["reconcile", "--all"],
  ]) {
    expect(await towline(...command, "-n", nowhere)).toMatchObject({
      code: 1,
      err: expect.stringContaining(`namespace ${nowhere} does not exist\n`) as string,
    });
  }
  expect(await towline("get", "kd", "nothing")).toMatchObject({
    code: 1,
    err: expect.stringContaining("no KluctlDeployment nothing") as string,
  });

  // A server with this configuration watches one namespace only.
  const other = await useCluster();
  await other.deployment("prod").create(aSpec(repo.url));
  const why = `no server watches namespace ${other.namespace}: kubernetes.namespaces is ${namespace}\n`;
  const both = await towline("get", "kd", "-n", namespace, "-n", other.namespace);
  expect(both).toMatchObject({ code: 0, err: why });
  expect(both.out).toMatch(
    new RegExp(`${namespace} +prod[^]*${other.namespace} +prod|${other.namespace} +prod[^]*${namespace} +prod`),
  );
  expect(await towline("trace", "3f2c1ab", "-n", other.namespace)).toMatchObject({ code: 1, err: why });
  expect((await towline("trace", "3f2c1ab")).out).toContain(`The server watches only these namespaces: ${namespace}.`);
  const refused = await towline("reconcile", `${other.namespace}/prod`);
  expect(refused.code).toBe(1);
  expect(refused.err).toContain(`${other.namespace}/prod: not requested: ${why}`);
  expect((await other.deployment("prod").get())?.metadata?.annotations).toBeUndefined();

  const here = { cwd: repo.dir, env: { ...env, PATH: process.env["PATH"], HOME: world.dir } };
  const head = await promisify(execFile)(process.execPath, [program, "trace", "HEAD"], here);
  expect(head.stdout).toContain(`${namespace}/prod: applied\n`);
  expect(await towline("trace", "no-such-branch")).toMatchObject({
    code: 2,
    err: expect.stringContaining('"no-such-branch" is not a commit') as string,
  });
  const missing = join(world.dir, "missing.json");
  expect(await towline("webhook", "explain", missing)).toMatchObject({
    code: 1,
    err: `towline: cannot use ${missing}: no such file or directory\n`,
  });
});
