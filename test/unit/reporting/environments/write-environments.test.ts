import { expect, onTestFinished, test, vi } from "vitest";
import { ForgeError } from "../../../../src/errors.ts";
import type { Logger } from "../../../../src/log.ts";
import type { Condition, HostDeployment } from "../../../../src/model.ts";
import { createEnvironmentWriter } from "../../../../src/reporting/environments/write-environments.ts";
import { aDeployment, aSummary } from "../../../support/deployments.ts";
import { fakeForge } from "../../../support/fake-forge.ts";
import { fakePosted } from "../../../support/fake-posted.ts";
import { silentLog } from "../../../support/fakes.ts";

const commit = { forge: "github", repoName: "org/shop", commit: "c".repeat(40) };

function follower(target: string, annotations: Record<string, string> = {}) {
  const status = {
    observedCommit: commit.commit,
    lastObjectsHash: "h",
    lastDeployResult: aSummary({ document: { gitInfo: { commit: commit.commit } } }),
  };
  const deployment = aDeployment({ key: { namespace: "shop", name: target }, spec: { target }, status, annotations });
  return { deployment, head: commit.commit, ref: "refs/heads/main" };
}

function setUp({ isEnabled = true, kind = "github" }: { isEnabled?: boolean; kind?: "github" | "gitea" } = {}) {
  const forge = fakeForge({ id: "github", kind });
  const warnings: unknown[] = [];
  const log = { ...silentLog, warn: (...said: unknown[]) => void warnings.push(said) } as unknown as Logger;
  const posted = fakePosted();
  const write = createEnvironmentWriter({ posted, isEnabled: () => isEnabled, task: () => "towline", log });
  /** Refuses what is written to an environment, unless `refusal` returns nothing. */
  const refuse = (refusal: (deployment: HostDeployment) => ForgeError | undefined) => {
    const { setDeployment } = forge;
    forge.setDeployment = (key, deployment, id, signal) => {
      const error = refusal(deployment);
      if (error === undefined) return setDeployment!(key, deployment, id, signal);
      forge.calls.push(`refused ${deployment.environment}`);
      return Promise.reject(error);
    };
  };
  const environments = () => forge.deployments.map(({ deployment }) => deployment.environment);
  return {
    forge,
    posted,
    warnings,
    refuse,
    environments,
    write: (...all: ReturnType<typeof follower>[]) => write(forge, commit, () => all),
    writeAt: (at: string, ...all: ReturnType<typeof follower>[]) => write(forge, { ...commit, commit: at }, () => all),
  };
}

test.each([
  ["it is not enabled for the forge", { isEnabled: false }],
  ["the host has no environments", { kind: "gitea" as const }],
])("nothing is written if %s", async (_, options) => {
  const { write, forge, posted } = setUp(options);
  await write(follower("prod"));
  expect(forge.calls).toEqual([]);
  expect(posted.saved.size).toBe(0);
});

test("a missing permission is logged once, and the host is asked again after a while", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { write, forge, warnings, refuse, environments } = setUp();
  let granted = false;
  refuse(() => (granted ? undefined : new ForgeError("unauthorized", "GitHub: the token lacks the permission")));
  await write(follower("prod"), follower("staging"));
  await write(follower("prod"), follower("staging"));
  expect(forge.calls).toEqual(["refused prod", "refused staging"]);
  expect(warnings).toMatchObject([
    [{ error: "GitHub: the token lacks the permission", repoName: "org/shop" }, expect.any(String)],
  ]);

  granted = true;
  vi.advanceTimersByTime(10 * 60_000);
  await write(follower("prod"), follower("staging"));
  expect(environments()).toEqual(["prod", "staging"]);
  expect(warnings).toHaveLength(1);
});

test("a protected environment does not affect the others", async () => {
  const { write, refuse, environments } = setUp();
  refuse(({ environment }) => (environment === "prod" ? new ForgeError("unauthorized", "forbidden (403)") : undefined));
  await write(follower("prod"), follower("staging"));
  expect(environments()).toEqual(["staging"]);
});

test("an invalid annotation is logged once, and the rest of the report is written", async () => {
  const { write, warnings, forge } = setUp();
  const invalid = follower("prod", { "towline.dev/environment-url": "javascript:alert(1)" });
  await write(invalid);
  await write(invalid);
  expect(warnings).toMatchObject([
    [{ error: expect.stringContaining("shop/prod: annotation") as string }, expect.any(String)],
  ]);
  expect(forge.deployments).toHaveLength(1);
});

const next = "d".repeat(40);

/** The deployment when it has begun with the next commit. */
function onItsWay() {
  const { deployment, ref } = follower("prod");
  const condition = { type: "Reconciling", status: "True", reason: "Progressing", message: "", lastTransitionTime: "" };
  const status = { ...deployment.status, observedCommit: next, lastObjectsHash: undefined };
  return {
    deployment: { ...deployment, status: { ...status, conditions: [condition as Condition] } },
    head: next,
    ref,
  };
}

test("the jobs of two commits of a repository do not overwrite each other's record of an environment", async () => {
  const { writeAt, forge, posted } = setUp();
  const { setDeployment } = forge;
  const gate = Promise.withResolvers<void>();
  let asked = 0;
  forge.setDeployment = async (...args) => {
    asked += 1;
    if (asked === 1) await gate.promise;
    return setDeployment!(...args);
  };
  const first = writeAt(commit.commit, follower("prod"));
  await vi.waitFor(() => expect(asked).toBe(1));
  const second = writeAt(next, onItsWay());
  await new Promise(setImmediate);
  gate.resolve();
  await Promise.all([first, second]);

  const shown = forge.deployments.map(({ commit: of, deployment: { state } }) => [of[0], state]);
  expect(shown).toEqual([
    ["c", "success"],
    ["d", "in_progress"],
  ]);
  expect([...posted.saved.values()]).toMatchObject([
    { commit: next, state: "in_progress", live: { commit: commit.commit } },
  ]);
});

test("what another server has recorded meanwhile is not overwritten, and decided from", async () => {
  const { write, forge, posted } = setUp();
  const { setDeployment } = forge;
  let isFirst = true;
  forge.setDeployment = async (...args) => {
    const id = await setDeployment!(...args);
    if (isFirst) {
      const [, deployment] = args;
      posted.saved.set(`prod ${deployment.ref}`, { ...deployment, commit: next, id: "77", state: "in_progress" });
    }
    isFirst = false;
    return id;
  };
  await write(follower("prod"));
  expect([...posted.saved.values()]).toMatchObject([{ commit: commit.commit, state: "success" }]);
  const shown = forge.deployments.map(({ commit: of, id, deployment: { state } }) => [of[0], id, state]);
  expect(shown.slice(1)).toEqual([
    ["d", "77", "canceled"],
    ["c", expect.any(String), "success"],
  ]);
});

test("a record that another server changes each time is left to a later attempt", async () => {
  const { write, forge, posted } = setUp();
  const { setDeployment } = forge;
  forge.setDeployment = async (...args) => {
    const [, deployment] = args;
    posted.saved.set(`prod ${deployment.ref}`, { ...deployment, commit: next, id: "77", state: "in_progress" });
    return setDeployment!(...args);
  };
  await expect(write(follower("prod"))).rejects.toThrow("another server");
});
