import { expect, onTestFinished, test, vi } from "vitest";
import { RemoteBusyError } from "../../../src/errors.ts";
import type { Cause, GitDeployment, Outcome, ReconcileRequest } from "../../../src/model.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { aDeployment } from "../../support/deployments.ts";
import { fakeSources } from "../../support/fakes.ts";
import { useQueue } from "../../support/jobs.ts";
import { patience } from "../../support/patience.ts";
import { aWorld, upToDate } from "../../support/reconciling.ts";
import { since, type GitHost, type Repo, useGitHost, useSources } from "../../support/source.ts";

function follow(name: string, { url }: Repo, status: object): GitDeployment {
  const deployment = aDeployment({ key: { namespace: "apps", name }, status });
  const source = { ...deployment.spec.source, url, ref: { branch: "main" } };
  return { ...deployment, repo: repoId(url)!, spec: { ...deployment.spec, source } } as GitDeployment;
}

/** Answers the given kinds of requests one byte at a time; returns a function that ends the answers. */
function drip(host: GitHost, kinds: readonly string[]): () => void {
  const open = new Set<() => void>();
  host.fault = (_req, res, kind) => {
    if (!kinds.includes(kind)) return false;
    const type = kind === "info" ? "advertisement" : "result";
    res.writeHead(200, { "content-type": `application/x-git-upload-pack-${type}` });
    // Begins a line of 65 kB: of the server's capabilities for `info`, otherwise of progress messages for the user.
    res.write(kind === "info" ? "001e# service=git-upload-pack\n0000000eversion 2\nfff0" : "000dpackfile\nfff0\u0002");
    const timer = setInterval(() => res.write("x"), 100);
    const end = () => {
      clearInterval(timer);
      res.destroy();
      open.delete(end);
    };
    open.add(end);
    res.on("close", end);
    return true;
  };
  const stop = () => {
    host.fault = undefined;
    for (const end of open) end();
  };
  onTestFinished(stop);
  return stop;
}

const ask = ({ key: deployment, repo }: GitDeployment, cause: Cause): ReconcileRequest => ({
  kind: "reconcile",
  deployment,
  cause,
  repo,
});

// Before and after a job knows that there is something to do; while it lists refs and while it fetches.
test.for<[Cause, object, readonly string[]]>([
  ["push", upToDate, ["info"]],
  ["change", {}, ["info"]],
  ["push", upToDate, ["fetch"]],
  ["change", {}, ["fetch"]],
])("jobs (%s) that wait for a host that drips bytes free their slots for others", async ([cause, status, kinds]) => {
  const [slowHost, fineHost] = [await useGitHost(), await useGitHost()];
  const [slowRepo, fineRepo] = [slowHost.repo("slow"), fineHost.repo("fine")];
  slowRepo.push();
  fineRepo.push();
  const slow = [1, 2, 3, 4, 5, 6].map((n) => follow(`slow-${n}`, slowRepo, status));
  const fine = follow("fine", fineRepo, {});
  const { sources } = useSources({ limits: { slowMs: 300 } });
  const [first, ...others] = slow as [GitDeployment, ...GitDeployment[]];
  const world = aWorld(first, undefined, { ...fakeSources(), ...sources }, undefined, [...others, fine]);
  const stop = drip(slowHost, kinds);
  const { queue, work } = await useQueue();
  const ended: string[] = [];
  work(
    async (request, attempt): Promise<Outcome | "busy"> => {
      const outcome = await world.reconcile(request, attempt);
      if (outcome !== "busy" && outcome.kind === "done") ended.push(request.deployment.name);
      return outcome;
    },
    { concurrency: 2 },
  );

  await queue.enqueue(slow.map((one) => ask(one, cause)));
  await vi.waitFor(() => expect(sources.slowForMs(first.repo)).toBeGreaterThan(0), patience);
  await queue.enqueue([ask(fine, "change")]);
  await vi.waitFor(() => expect(ended).toEqual(["fine"]), patience);
  expect(sources.slowForMs(first.repo)).toBeGreaterThan(0); // the call still runs

  stop();
  await vi.waitFor(() => expect(new Set(ended)).toEqual(new Set([...slow, fine].map(({ key }) => key.name))), patience);
  expect(sources.slowForMs(first.repo)).toBeUndefined();
});

test("a host that drips bytes on all its calls makes no job wait in a slot for a free one", async () => {
  const [slowHost, fineHost] = [await useGitHost(), await useGitHost()];
  const slow = [1, 2, 3, 4, 5].map((n) => {
    const repo = slowHost.repo(`slow-${n}`);
    repo.push();
    return follow(`slow-${n}`, repo, {});
  });
  const fineRepo = fineHost.repo("fine");
  fineRepo.push();
  const fine = follow("fine", fineRepo, {});
  const { sources } = useSources({ limits: { slowMs: 300, callsPerHost: 2 } });
  const [first, ...others] = slow as [GitDeployment, ...GitDeployment[]];
  const world = aWorld(first, undefined, { ...fakeSources(), ...sources }, undefined, [...others, fine]);
  const stop = drip(slowHost, ["info"]);
  const { queue, work } = await useQueue();
  const ended: string[] = [];
  const pauses: number[] = [];
  work(
    async (request, attempt): Promise<Outcome | "busy"> => {
      const outcome = await world.reconcile(request, attempt);
      if (outcome !== "busy" && outcome.kind === "done") ended.push(request.deployment.name);
      if (outcome !== "busy" && outcome.kind === "later") pauses.push(outcome.afterMs);
      return outcome;
    },
    { concurrency: 3 },
  );

  await queue.enqueue(slow.map((one) => ask(one, "change")));
  const talking = () => slow.filter(({ repo }) => sources.slowForMs(repo) !== undefined);
  await vi.waitFor(() => expect(talking()).toHaveLength(2), patience);
  await queue.enqueue([ask(fine, "change")]);
  await vi.waitFor(() => expect(ended).toEqual(["fine"]), patience);
  expect(talking()).toHaveLength(2);
  await vi.waitFor(() => expect(pauses.length).toBeGreaterThan(0), patience);
  expect(Math.min(...pauses)).toBeGreaterThan(0); // also for jobs whose own repositories are not slow

  stop();
  await vi.waitFor(() => expect(new Set(ended)).toEqual(new Set([...slow, fine].map(({ key }) => key.name))), patience);
});

test("a caller that waits and one that leaves a slow host share one request, and the first keeps waiting when the other leaves", async () => {
  const host = await useGitHost();
  const [slow, shop] = [host.repo("slow"), host.repo("shop")];
  slow.push();
  const commit = shop.push();
  const { sources } = useSources({ limits: { slowMs: 1_000, callsPerHost: 1 } });
  const stop = drip(host, ["info"]);
  const { fault } = host;
  let asked = 0;
  host.fault = (...request) => {
    asked++;
    return fault?.(...request) ?? false;
  };
  const talking = sources.heads(slow, undefined).catch(() => undefined);
  await vi.waitFor(() => expect(asked).toBe(1), patience);

  const leaves = sources.heads(shop, since("1"), undefined, { leaves: true });
  const stays = sources.heads(shop, since("1"));
  await expect(leaves).rejects.toThrow(RemoteBusyError);
  stop();
  expect((await stays).commits.get("refs/heads/main")).toBe(commit);
  await talking;
});
